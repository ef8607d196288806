"""Write answers in OpenAI's format: whole bodies, chunks of a stream, errors, log-probabilities."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assaymark.engine.generation import FinishReason
from assaymark.engine.open_batch import NewToken
from assaymark.engine.prompt_logprobs import PromptLogprobs
from assaymark.engine.spans import IntArray
from assaymark.host.text_stream import TokenTexts
from assaymark.host.tool_answers import SpokenText
from assaymark.limits.shown_paths import without_folders

__all__ = ["Answer", "chat_logprobs", "completion_logprobs", "error_body", "event", "finish_of", "from_prompt"]

LOWEST = -9999.0  # JSON has no infinity; OpenAI's own value for impossible tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """What all bodies of one answer share."""

    id: str
    is_chat: bool
    created: int
    model: str
    fingerprint: str

    def body(
        self, choices: Sequence[Mapping[str, Any]], usage: tuple[int, int] | None, *, chunk: bool
    ) -> dict[str, Any]:
        """Return a body; `usage` counts prompt and generated tokens."""
        kind = ("chat.completion.chunk" if chunk else "chat.completion") if self.is_chat else "text_completion"
        body: dict[str, Any] = {
            "id": self.id, "object": kind, "created": self.created, "model": self.model,
            "system_fingerprint": self.fingerprint, "choices": list(choices),
        }  # fmt: skip
        if usage is not None:
            n_prompt, n_new = usage
            body["usage"] = {"prompt_tokens": n_prompt, "completion_tokens": n_new, "total_tokens": n_prompt + n_new}
        return body

    def choice(self, index: int, said: SpokenText, reasoning: str | None, logprobs: Any, finish: str) -> dict[str, Any]:
        """Return a whole choice."""
        if not self.is_chat:
            return {"index": index, "text": said.content, "logprobs": logprobs, "finish_reason": finish}
        message: dict[str, Any] = {"role": "assistant", "content": said.content}
        if said.calls:
            message["tool_calls"] = list(said.calls)
            finish = finish_with_calls(finish)
        if reasoning is not None:
            message["reasoning_content"] = reasoning
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish}

    def piece(self, index: int, text: str, logprobs: Any = None, finish: str | None = None, *, first: bool = False,
              reasoning: str | None = None) -> dict[str, Any]:  # fmt: skip
        """Return a choice of a chunk; `first` names the role."""
        if not self.is_chat:
            return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
        delta: dict[str, Any] = {"role": "assistant"} if first else {}
        if text or first:
            delta["content"] = text
        if reasoning is not None:
            delta["reasoning_content"] = reasoning
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    def calls_piece(self, index: int, said: SpokenText, logprobs: Any, finish: str) -> dict[str, Any]:
        """Return the last choice of a stream that ends with calls: the text before them, and each call whole."""
        delta: dict[str, Any] = {"tool_calls": [{"index": at, **one} for at, one in enumerate(said.calls)]}
        if said.content is not None:
            delta["content"] = said.content
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_with_calls(finish)}


def finish_with_calls(finish: str) -> str:
    """Return the finish_reason of an answer with calls; one that was truncated stays so."""
    return finish if finish == "length" else "tool_calls"


def finish_of(reason: FinishReason) -> str:
    """Return OpenAI's finish_reason."""
    return "length" if reason == "length" else "stop"


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return an error in OpenAI's form, without the folders of this machine."""
    return {"error": {"message": without_folders(message), "type": kind, "param": param, "code": code}}


def event(body: Any) -> bytes:
    """Return a body as one server-sent event."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode("utf-8", "replace") + b"\n\n"


def from_prompt(found: PromptLogprobs, tokens: IntArray, n_top: int) -> list[NewToken]:
    """Return the tokens of a prompt with their log-probabilities; the first has none."""
    result = [NewToken(0, 0, int(tokens[0]))]
    for position, token in enumerate(tokens[1:].tolist()):
        tops = zip(found.top_tokens[position, :n_top], found.top_logprobs[position, :n_top], strict=True)
        top = tuple((int(each), float(value)) for each, value in tops)
        result.append(NewToken(0, 0, token, float(found.chosen[position]), top))
    return result


def completion_logprobs(
    texts: TokenTexts, tokens: Sequence[NewToken], before: int | None, offset: int
) -> dict[str, Any]:
    """Return the log-probabilities of a completion; `before` is the preceding token, `offset` where they begin."""
    names = texts.of([one.token for one in tokens], before)
    offsets = (np.cumsum([0, *map(len, names)])[:-1] + offset).tolist()
    tops: list[dict[str, float] | None] = []
    for position, one in enumerate(tokens):
        if one.logprob is None:
            tops.append(None)
            continue
        previous = tokens[position - 1].token if position else before
        top: dict[str, float] = {}
        for token, value in one.top:
            top.setdefault(texts.after(previous, token), _finite(value))
        if one.token not in {token for token, _ in one.top}:
            top.setdefault(names[position], _finite(one.logprob))
        tops.append(top)
    nats = [None if one.logprob is None else _finite(one.logprob) for one in tokens]
    return {"tokens": names, "token_logprobs": nats, "top_logprobs": tops, "text_offset": offsets}


def chat_logprobs(texts: TokenTexts, tokens: Sequence[NewToken], before: int | None) -> dict[str, Any]:
    """Return the log-probabilities of a chat answer's tokens."""
    content = []
    for one in tokens:
        name = texts.after(before, one.token)
        top = [_entry(texts.after(before, token), value) for token, value in one.top]
        content.append({**_entry(name, one.logprob or 0.0), "top_logprobs": top})
        before = one.token
    return {"content": content, "refusal": None}


def _entry(name: str, value: float) -> dict[str, Any]:
    return {"token": name, "logprob": _finite(value), "bytes": list(name.encode("utf-8", "replace"))}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else LOWEST
