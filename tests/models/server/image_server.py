"""A chat server for tests that really reads images: it says which digit each of the request's images shows.

It decodes every `image_url` part and compares the pixels with the digits that it knows, so a body in another form than
OpenAI's, or an image that was changed on the way, gives a wrong answer. By hand:
python -m tests.models.server.image_server [PORT].
"""

import base64
import io
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

from tests.pictures import digit

Json = dict[str, Any]


def pixels(data: bytes) -> bytes:
    """Return an image's pixels."""
    with Image.open(io.BytesIO(data)) as image:
        return bytes(image.convert("RGB").tobytes())


DIGITS = {pixels(digit(number)): str(number) for number in range(10)}


def seen(part: Json) -> str:
    """Return the digit that an `image_url` part shows."""
    head, _, body = part["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64"
    return DIGITS.get(pixels(base64.b64decode(body, validate=True)), "?")


class _Handler(BaseHTTPRequestHandler):
    """Answers with the digits in the last message."""

    server: "ImageServer"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Print nothing."""

    def do_GET(self) -> None:
        """List the only model."""
        self._send(200, {"data": [{"id": "reader"}]})

    def do_POST(self) -> None:
        """Answer with the digits; where the question has options, with the letter of the first digit's."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        if self.server.refuses:
            self._send(400, {"error": {"message": "this model does not support image_url"}})
            return
        content = body["messages"][-1]["content"]
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        digits = [seen(part) for part in parts if part["type"] == "image_url"]
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        letter = next((line[1] for line in text.split("\n") if digits and line == f"({line[1:2]}) {digits[0]}"), "")
        answer = f"The answer is ({letter})." if letter else f"It is {' and '.join(digits)}."
        self._send(200, {"choices": [{"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}]})

    def _send(self, status: int, answer: Json) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class ImageServer(ThreadingHTTPServer):
    """The server, with the bodies that it got."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.bodies: list[Json] = []
        self.refuses = False

    @property
    def url(self) -> str:
        """The address of its chat endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1/chat/completions"


@contextmanager
def serving() -> Iterator[ImageServer]:
    """Run the server in a thread."""
    server = ImageServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    ImageServer(int(sys.argv[1]) if len(sys.argv) > 1 else 8000).serve_forever()
