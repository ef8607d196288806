"""HTTP servers in threads of a test's own process, on a free port of this machine.

A test derives a handler from `JsonHandler`, says in it what is answered, and runs a `LoopbackServer` with it in
`serving`, which always stops it.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

__all__ = ["JsonHandler", "LoopbackServer", "QuietRequests", "serving"]

ServerT = TypeVar("ServerT", bound="LoopbackServer")


class QuietRequests(BaseHTTPRequestHandler):
    """Writes no log."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Print nothing."""


class JsonHandler(QuietRequests):
    """Reads and sends JSON."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait 40 ms for each other

    def read_bytes(self) -> bytes:
        """Return the body of the request; empty where it has none."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def read_json(self) -> Any:
        """Return the value of the request's body."""
        return json.loads(self.read_bytes())

    def send_json(self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send a value."""
        self.send_content(json.dumps(content).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def send_content(self, content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send bytes; only their head in answer to HEAD."""
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def begin_events(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Begin a stream of server-sent events, which ends with the connection."""
        self.send_response(status)
        for name, value in {"Content-Type": "text/event-stream", "Connection": "close", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_event(self, value: Any) -> None:
        """Send one event of a stream at once; a text is sent as it is."""
        data = value if isinstance(value, str) else json.dumps(value)
        self.wfile.write(f"data: {data}\n\n".encode())
        self.wfile.flush()


class LoopbackServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1, on a free port unless one is given."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: Callable[..., BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)

    @property
    def address(self) -> str:
        """The URL of the server, without a path."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """The base URL of an API of OpenAI's shape."""
        return f"{self.address}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients that have disconnected."""


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Run a server in a thread, and stop it in the end."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
