"""A server that sends arbitrary bytes, to test what a response may do to the process that reads it."""

import json
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = bytes | Iterable[bytes]  # an iterable is streamed without a Content-Length


@dataclass(frozen=True)
class Reply:
    """One response."""

    body: Body
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[dict[str, Any], Mapping[str, str]], Reply]  # from a request's JSON and headers


def completion(text: str = "fine", **message: Any) -> Reply:
    """Return a valid response for both a completion and a chat."""
    said = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "text": text, "message": said, "finish_reason": "stop"}
    return Reply(json.dumps({"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}).encode())


def zeros(n_mib: int, wbits: int) -> Iterator[bytes]:
    """Yield this many MiB of zeros, compressed."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, wbits)
    for _ in range(n_mib):
        yield compressor.compress(bytes(1 << 20))
    yield compressor.flush()


class HostileServer(ThreadingHTTPServer):
    """Answers each POST with `answer`, and GET with `models`."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Answer = lambda _, __: completion()
        self.models = Reply(b'{"data": [{"id": "m"}]}')
        self.bodies: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """The server's address, without the endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about clients that have disconnected."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HostileServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Print nothing."""

    def do_GET(self) -> None:
        """List the models."""
        self._send(self.server.models)

    def do_POST(self) -> None:
        """Answer as the test requires."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        self._send(self.server.answer(body, {name.lower(): value for name, value in self.headers.items()}))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if isinstance(reply.body, bytes):
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)
            return
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        for chunk in reply.body:
            self.wfile.write(chunk)
            self.wfile.flush()


@contextmanager
def hostile() -> Iterator[HostileServer]:
    """Serve in a thread."""
    server = HostileServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
