"""A server that sends arbitrary bytes, to test what a response may do to the process that reads it."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.http_servers import JsonHandler, LoopbackServer, serving

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


class HostileServer(LoopbackServer):
    """Answers each POST with `answer`, and GET with `models`."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.answer: Answer = lambda _, __: completion()
        self.models = Reply(b'{"data": [{"id": "m"}]}')
        self.bodies: list[dict[str, Any]] = []


class _Handler(JsonHandler):
    server: HostileServer

    def do_GET(self) -> None:
        """List the models."""
        self._send(self.server.models)

    def do_POST(self) -> None:
        """Answer as the test requires."""
        body = self.read_json()
        self.server.bodies.append(body)
        self._send(self.server.answer(body, {name.lower(): value for name, value in self.headers.items()}))

    def _send(self, reply: Reply) -> None:
        if isinstance(reply.body, bytes):
            self.send_content(reply.body, reply.status, reply.headers)
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        for chunk in reply.body:
            self.wfile.write(chunk)
            self.wfile.flush()


@contextmanager
def hostile() -> Iterator[HostileServer]:
    """Serve in a thread."""
    with serving(HostileServer()) as server:
        yield server
