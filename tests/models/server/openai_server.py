"""A real OpenAI-compatible server for tests: a small language model of transformers behind the standard library.

It serves /v1/models, /v1/completions (echo and logprobs as OpenAI defines them) and /v1/chat/completions, and can be
set to produce faults. By hand: python -m tests.models.server.openai_server FOLDER [PORT] [KEY=VALUE of Faults ...].
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests import http_servers
from tests.http_servers import JsonHandler, LoopbackServer

Json = dict[str, Any]


@dataclass
class Faults:
    """The faults to produce. Each is a number of requests; -1: always. After that many the server works again."""

    limited: int = 0  # 429
    retry_after: float | None = None  # sent with 429
    failing: int = 0  # 500
    dropped: int = 0  # the connection is closed in the middle of the answer
    torn: int = 0  # half of the JSON
    without_logprobs: int = 0
    slow: int = 0
    slow_s: float = 1.0
    refused: int = 0  # 400
    most_at_once: int | None = None  # 429 above
    key: str | None = None  # required
    adds_bos: bool = False  # to texts, as vLLM does
    filtered: int = 0  # finish_reason content_filter
    thinks: bool = False  # reasoning_content in addition to the content
    texts_only: int = 0  # the status for prompts that are not texts

    def take(self, name: str) -> bool:
        """Return whether this request gets the fault, and count it."""
        left = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return bool(left)


class SmallModel:
    """A language model that scores and generates, one request at a time."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.tokenizer = AutoTokenizer.from_pretrained(str(folder))
        self.model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()
        self.lock = threading.Lock()

    def tokens(self, prompt: Any, *, adds_bos: bool) -> list[int]:
        """Return the tokens of a prompt, which may already be tokens."""
        if isinstance(prompt, list):
            return list(prompt[0] if isinstance(prompt[0], list) else prompt)
        ids = self.tokenizer.encode(prompt, add_special_tokens=False)
        return [self.tokenizer.bos_token_id, *ids] if adds_bos else list(ids)

    @torch.no_grad()
    def score(self, ids: list[int]) -> Json:
        """Return OpenAI's logprobs of a prompt and of one more token."""
        logits = torch.log_softmax(self.model(torch.tensor([ids])).logits[0].double(), -1)
        best = logits.max(-1)
        ids = [*ids, int(best.indices[-1])]
        texts = [self.text_of([i]) for i in ids]
        nats = [None, *(float(logits[at, i]) for at, i in enumerate(ids[1:]))]
        firsts = [
            (self.text_of([int(token)]), float(value)) for token, value in zip(best.indices, best.values, strict=True)
        ]
        tops = [{first: value, texts[at]: nats[at]} for at, (first, value) in enumerate(firsts, start=1)]
        return {"tokens": texts, "token_logprobs": nats, "top_logprobs": [None, *tops]}

    def text_of(self, ids: list[int]) -> str:
        """Return a token as it appears in a text: with the space before it."""
        name = str(self.tokenizer.convert_ids_to_tokens(ids)[0])
        return name.replace("▁", " ").replace("Ġ", " ").replace("Ċ", "\n").replace("<0x0A>", "\n")

    @torch.no_grad()
    def write(self, ids: list[int], n: int, stops: list[str], temperature: float, seed: int) -> tuple[str, str, int]:
        """Return text, finish reason and number of tokens."""
        draw = torch.Generator().manual_seed(seed)
        generated: list[int] = []
        for _ in range(n):
            logits = self.model(torch.tensor([[*ids, *generated]])).logits[0, -1]
            if temperature > 0:
                token = int(torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=draw))
            else:
                token = int(logits.argmax())
            if token == self.tokenizer.eos_token_id:
                return self._decoded(ids, generated), "stop", len(generated)
            generated.append(token)
            text = self._decoded(ids, generated)
            results = [text.index(stop) for stop in stops if stop in text]
            if results:
                return text[: min(results)], "stop", len(generated)
        return self._decoded(ids, generated), "length", len(generated)

    def _decoded(self, ids: list[int], generated: list[int]) -> str:
        return str(self.tokenizer.decode(generated, skip_special_tokens=True))


class _Handler(JsonHandler):
    """Answers one request."""

    server: "TestServer"

    def do_GET(self) -> None:
        """List the only model."""
        if self._is_locked_out():
            return
        if self.path != "/v1/models":
            self.send_json({"error": {"message": "no such page"}}, 404)
            return
        self.send_json({"data": [{"id": self.server.model.name}]})

    def do_POST(self) -> None:
        """Answer, unless a fault is set."""
        body = self.read_json()
        with self.server.counting(body) as n_at_once:
            if not self._is_locked_out() and not self._has_fault(n_at_once):
                self._answer(body)

    def _is_locked_out(self) -> bool:
        key = self.server.faults.key
        if key is None or self.headers.get("authorization") == f"Bearer {key}":
            return False
        inputs = self.headers.get("authorization", "nothing")
        self.send_json({"error": {"message": f"Incorrect API key provided: {inputs}"}}, 401)
        return True

    def _has_fault(self, n_at_once: int) -> bool:
        faults = self.server.faults
        with self.server.lock:
            too_many = faults.most_at_once is not None and n_at_once > faults.most_at_once
            fault = "limited" if too_many else next(
                (name for name in ("limited", "failing", "refused", "dropped", "torn") if faults.take(name)), None
            )  # fmt: skip
        if fault == "limited":
            wait = {} if faults.retry_after is None else {"Retry-After": str(faults.retry_after)}
            self.send_json({"error": {"message": "slow down"}}, 429, wait)
        elif fault == "failing":
            self.send_json({"error": {"message": "out of memory"}}, 500)
        elif fault == "refused":
            self.send_json({"error": {"message": "this prompt is not to my taste"}}, 400)
        elif fault is not None:
            half = b'{"choices": [{"index": 0, "text": "'
            self.send_response(200)
            self.send_header("Content-Length", str(len(half) if fault == "torn" else 10 * len(half)))
            self.end_headers()
            self.wfile.write(half)
            self.close_connection = True
        return fault is not None

    def _answer(self, body: Json) -> None:
        faults, model = self.server.faults, self.server.model
        with self.server.lock:
            is_slow, is_bare, is_filtered = (faults.take(m) for m in ("slow", "without_logprobs", "filtered"))
        if is_slow:
            time.sleep(faults.slow_s)
        if body["model"] != model.name:
            self.send_json({"error": {"message": f"The model `{body['model']}` does not exist."}}, 404)
            return
        is_chat = self.path.endswith("/chat/completions")
        if faults.texts_only and not is_chat and not isinstance(body["prompt"], str):
            self.send_json({"detail": "'prompt' must be a string"}, faults.texts_only)
            return
        if is_chat:
            text = "\n".join(f"{message['role']}: {message['content']}" for message in body["messages"])
            ids = model.tokens(f"{text}\nassistant:", adds_bos=True)
        else:
            ids = model.tokens(body["prompt"], adds_bos=faults.adds_bos)
        with model.lock:
            choice = self._choice(body, ids)
        choice |= {"index": 0} | ({"finish_reason": "content_filter"} if is_filtered else {})
        if is_bare:
            choice["logprobs"] = None
        if is_chat:
            choice["message"] = {"role": "assistant", "content": choice.pop("text")}
            if faults.thinks:
                choice["message"]["reasoning_content"] = "let me see"
        usage = {"prompt_tokens": len(ids), "completion_tokens": choice.pop("n")}
        self.send_json({"choices": [choice], "usage": usage})

    def _choice(self, body: Json, ids: list[int]) -> Json:
        model = self.server.model
        if body.get("echo"):
            return {"text": "", "logprobs": model.score(ids), "finish_reason": "length", "n": 1}
        stops, most = body.get("stop") or [], body.get("max_tokens") or body["max_completion_tokens"]
        text, finish, n = model.write(ids, most, stops, body.get("temperature", 1.0), body["seed"])
        return {"text": text, "finish_reason": finish, "n": n}


@dataclass
class Seen:
    """The requests that a server received."""

    bodies: list[Json] = field(default_factory=list)
    most_at_once: int = 0


class TestServer(LoopbackServer):
    """A server on a free port of this machine."""

    __test__ = False

    def __init__(self, model: SmallModel, port: int = 0) -> None:
        super().__init__(_Handler, port)
        self.model = model
        self.faults = Faults()
        self.seen = Seen()
        self.lock = threading.Lock()
        self._n_at_once = 0

    def reset(self, **faults: Any) -> None:
        """Clear the recorded requests, and set other faults."""
        self.faults, self.seen = Faults(**faults), Seen()

    @contextmanager
    def counting(self, body: Json) -> Iterator[int]:
        """Count a request while it is in progress; yields the number of such requests."""
        with self.lock:
            self.seen.bodies.append(body)
            self._n_at_once += 1
            self.seen.most_at_once = max(self.seen.most_at_once, self._n_at_once)
            n_at_once = self._n_at_once
        try:
            yield n_at_once
        finally:
            with self.lock:
                self._n_at_once -= 1


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[TestServer]:
    """Serve the model of a folder in a thread."""
    with http_servers.serving(TestServer(SmallModel(folder), port)) as server:
        yield server


def main(folder: str, port: str = "8123", *faults: str) -> None:
    """Serve until killed."""
    torch.set_num_threads(1)
    server = TestServer(SmallModel(Path(folder)), int(port))
    pairs = [fault.partition("=") for fault in faults]
    server.reset(**{name: value if name == "key" else json.loads(value) for name, _, value in pairs})
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
