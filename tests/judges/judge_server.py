"""A stand-in for a capable judge: a real chat server that replies by a function of the prompt."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.http_servers import JsonHandler, LoopbackServer, serving

Reply = Callable[[str], str]  # the user's message -> the text
CUT = "<cut>"  # at the end of a reply that the limit of tokens ended
_BLOCK = re.compile(r"\[(answer|conversation)[^\]\n]*\]\n(.*?)\n\[end of (?:answer|conversation)[^\]\n]*\]", re.DOTALL)


class JudgeServer(LoopbackServer):
    """Replies to chats on a free port of this machine, and records what it was sent."""

    def __init__(self, reply: Reply, *, tells_usage: bool = True, usage_times: int = 1) -> None:
        super().__init__(_Handler)
        self.reply = reply
        self.tells_usage, self.usage_times = tells_usage, usage_times
        self.seen: list[str] = []
        self.lock = threading.Lock()

    @property
    def arguments(self) -> str:
        """The model arguments of a client."""
        return f"model=judge,base_url={self.url}/chat/completions,max_length=100000"


class _Handler(JsonHandler):
    server: JudgeServer

    def do_GET(self) -> None:
        """List the only model."""
        self.send_json({"data": [{"id": "judge"}]})

    def do_POST(self) -> None:
        """Reply to one chat."""
        body = self.read_json()
        text = body["messages"][-1]["content"]
        with self.server.lock:
            self.server.seen.append(text)
        content = self.server.reply(text)
        message = {"role": "assistant", "content": content.removesuffix(CUT)}
        finish = "length" if content.endswith(CUT) else "stop"
        times = self.server.usage_times
        usage = {"prompt_tokens": times * len(text) // 4, "completion_tokens": times * 20}
        usage = usage if self.server.tells_usage else {}
        self.send_json({"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})


@contextmanager
def judging_server(reply: Reply, *, tells_usage: bool = True, usage_times: int = 1) -> Iterator[JudgeServer]:
    """Serve a reply function in a thread. usage_times: how many times the tokens it reports."""
    with serving(JudgeServer(reply, tells_usage=tells_usage, usage_times=usage_times)) as server:
        yield server


def answers_shown(text: str) -> list[str]:
    """Return the answers, or conversations, in the prompt's blocks, in the order shown."""
    return [block for _, block in _BLOCK.findall(text)]
