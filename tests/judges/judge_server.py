"""A stand-in for a capable judge: a real chat server that replies by a function of the prompt."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[str], str]  # the user's message -> the text
_BLOCK = re.compile(r"\[(answer|conversation)[^\]\n]*\]\n(.*?)\n\[end of (?:answer|conversation)[^\]\n]*\]", re.DOTALL)


class JudgeServer(ThreadingHTTPServer):
    """Replies to chats on a free port of this machine, and records what it was sent."""

    daemon_threads = True

    def __init__(self, reply: Reply, *, tells_usage: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.tells_usage = tells_usage
        self.seen: list[str] = []
        self.lock = threading.Lock()

    @property
    def arguments(self) -> str:
        """The model arguments of a client."""
        return f"model=judge,base_url=http://127.0.0.1:{self.server_address[1]}/v1/chat/completions,max_length=100000"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait 40 ms for each other
    server: JudgeServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the standard library's name
        """Print nothing."""

    def do_GET(self) -> None:
        """List the only model."""
        self._send({"data": [{"id": "judge"}]})

    def do_POST(self) -> None:
        """Reply to one chat."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = body["messages"][-1]["content"]
        with self.server.lock:
            self.server.seen.append(text)
        message = {"role": "assistant", "content": self.server.reply(text)}
        usage = {"prompt_tokens": len(text) // 4, "completion_tokens": 20} if self.server.tells_usage else {}
        self._send({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})

    def _send(self, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def judging_server(reply: Reply, *, tells_usage: bool = True) -> Iterator[JudgeServer]:
    """Serve a reply function in a thread."""
    server = JudgeServer(reply, tells_usage=tells_usage)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def answers_shown(text: str) -> list[str]:
    """Return the answers, or conversations, in the prompt's blocks, in the order shown."""
    return [block for _, block in _BLOCK.findall(text)]
