"""A chat server that counts its answers: each request takes a fixed time. `python -m` ... SECONDS."""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Answers "4" to everything after a delay, and prints the beginning and end of each answer to stdout."""

    seconds = 1.0
    lock = threading.Lock()

    def do_GET(self) -> None:
        """List no models."""
        self._send({"data": []})

    def do_POST(self) -> None:
        """Answer a chat."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say("began")
        time.sleep(self.seconds)
        message = {"role": "assistant", "content": "4"}
        self._send({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}})
        self._say("ended")

    def _send(self, content: Any) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _say(self, word: str) -> None:
        with self.lock:
            sys.stdout.write(f"{word}\n")
            sys.stdout.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Write no log."""


if __name__ == "__main__":
    Handler.seconds = float(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
