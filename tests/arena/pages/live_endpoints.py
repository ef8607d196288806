"""Endpoints on loopback for tests of live battles: how each model answers is known, and so is what it was sent."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from tests.http_servers import JsonHandler, LoopbackServer, serving

__all__ = ["MODELS", "Recorded", "endpoint_server"]

MODELS = {  # name -> (characters of a piece, seconds between pieces)
    "walrus-quick": (40, 0.0),
    "walrus-slow": (3, 0.02),
}


class Recorded(JsonHandler):
    """Streams an answer that quotes the question; headers, ids and usage name the model, as real servers do."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        """Stream."""
        asked = self.read_json()
        self.asked.append(asked)
        name, question = asked["model"], asked["messages"][-1]["content"]
        fails = "fail" in question and name == "walrus-slow"
        self.begin_events(500 if fails and "at once" in question else 200, {"X-Served-By": name})
        text = answer_of(name, question, len(asked["messages"]))
        size, pause = MODELS[name]
        try:
            for start in range(0, len(text), size):
                self._event(name, {"delta": {"content": text[start : start + size]}, "finish_reason": None})
                time.sleep(pause)
                if fails and start > 20:
                    self.send_event({"error": {"message": "walrus-slow broke, key sk-secret"}})
                    return
            self._event(name, {"delta": {}, "finish_reason": "stop"})
            self.send_event("[DONE]")
        except OSError:
            pass

    def _event(self, name: str, choice: dict[str, Any]) -> None:
        whole = {"id": f"{name}-4711", "model": name, "system_fingerprint": f"fp_{name}", "choices": [choice],
                 "usage": {"completion_tokens": 31337}}  # fmt: skip
        self.send_event(whole)


def answer_of(name: str, question: str, n_messages: int) -> str:
    """Return what a model answers: of another length than the other's, so that tests can tell them apart."""
    if "who are you" in question.lower():
        return "I am the Walrus-model of a maker." if name == "walrus-quick" else "I am an assistant."
    words = "sea" if name == "walrus-quick" else "ice"
    return f"<b>{n_messages}</b> {question} " + f"{words} " * (60 if name == "walrus-quick" else 40)


@contextmanager
def endpoint_server() -> Iterator[str]:
    """Run the endpoints; yield the address of their API."""
    Recorded.asked.clear()
    with serving(LoopbackServer(Recorded)) as server:
        yield server.url
