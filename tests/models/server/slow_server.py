"""A chat server that counts its answers: each request takes a fixed time. `python -m` ... SECONDS."""

import sys
import threading
import time

from tests.http_servers import JsonHandler, LoopbackServer


class Handler(JsonHandler):
    """Answers "4" to everything after a delay, and prints the beginning and end of each answer to stdout."""

    seconds = 1.0
    lock = threading.Lock()

    def do_GET(self) -> None:
        """List no models."""
        self.send_json({"data": []})

    def do_POST(self) -> None:
        """Answer a chat."""
        self.read_bytes()
        self._say("began")
        time.sleep(self.seconds)
        message = {"role": "assistant", "content": "4"}
        self.send_json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}})
        self._say("ended")

    def _say(self, word: str) -> None:
        with self.lock:
            sys.stdout.write(f"{word}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    Handler.seconds = float(sys.argv[1])
    server = LoopbackServer(Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
