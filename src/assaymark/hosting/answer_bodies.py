"""Write answers in OpenAI's format: whole bodies, chunks of a stream, errors, log-probabilities.

While a text grows, only pieces that later tokens cannot change are sent. A call of a function that the request did not
declare, and a text that begins as a call does but cannot be read, stay texts: the client sees what the model wrote, and
nothing is repaired.

Source: OpenAI's API reference (`tools`, `tool_choice`, `tool_calls`).
"""

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, Protocol, TypedDict

import numpy as np

from assaymark.engine.generation import FinishReason
from assaymark.engine.open_batch import NewToken
from assaymark.engine.prompt_logprobs import PromptLogprobs
from assaymark.engine.spans import IntArray
from assaymark.errors import MalformedSample
from assaymark.limits.shown_paths import without_folders
from assaymark.models.text.stops import REPLACEMENT, final_text
from assaymark.prompts.tools import declarations_in, tools_for_template
from assaymark.records import JsonValue
from assaymark.scoring.tool_calls import FunctionCall, UnreadableAnswer, read_calls

MOST_TOOLS = 128
_BLOCK = "<tool_call>"


class CalledFunction(TypedDict):
    """The name of a called function and its arguments, as JSON."""

    name: str
    arguments: str


class CallBody(TypedDict):
    """A call, in OpenAI's form."""

    id: str
    type: Literal["function"]
    function: CalledFunction
    index: NotRequired[int]  # in a stream


class SpokenMessage(TypedDict, total=False):
    """A message of the model, or the part that a chunk adds to it."""

    role: str
    content: str | None
    tool_calls: list[CallBody]
    reasoning_content: str


class AnswerChoice(TypedDict):
    """One answer, or a piece of it: of a chat `message` or `delta`, of a completion `text`."""

    index: int
    text: NotRequired[str | None]
    message: NotRequired[SpokenMessage]
    delta: NotRequired[SpokenMessage]
    logprobs: object
    finish_reason: str | None


class TokenUsage(TypedDict):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class AnswerBody(TypedDict):
    """The body of an answer or of a chunk."""

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str
    choices: list[AnswerChoice]
    usage: NotRequired[TokenUsage]


class CompletionLogprobs(TypedDict):
    """Log-probabilities of a completion. Shapes: all [tokens]."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class OfferedFunction(TypedDict):
    """A function that may be called; more keys describe it."""

    name: str
    parameters: Mapping[str, JsonValue]  # a JSON schema


class OfferedTool(TypedDict):
    """An entry of a request's `tools`."""

    type: str
    function: OfferedFunction


@dataclass(frozen=True, slots=True)
class Tools:
    """Declared functions: as JSON for the template, their names in it, and those of which one must be called."""

    shown: str
    names: frozenset[str]
    forced: tuple[OfferedTool, ...] = ()


@dataclass(frozen=True, slots=True)
class SpokenText:
    """An answer: its text, and its calls as OpenAI's `tool_calls`. content: None where there are calls alone."""

    content: str | None
    calls: tuple[CallBody, ...]


def tools_in(tools: JsonValue, choice: JsonValue) -> Tools | None:
    """Return the tools of a request; None for none, or where it forbids calls.

    Raises: ValueError that says what is wrong with them.
    """
    named = _required_function(choice)
    if not tools:
        if named is not None:
            raise ValueError("tool_choice forces a call, and there are no tools")
        return None
    if not isinstance(tools, list) or len(tools) > MOST_TOOLS:
        raise ValueError(f"tools are no list of at most {MOST_TOOLS} declarations of functions")
    try:
        declared = declarations_in(tools)
    except MalformedSample as error:
        raise ValueError(str(error)) from error
    template_json = tools_for_template(declared)
    if template_json is None or choice == "none":
        return None
    functions: list[OfferedTool] = json.loads(template_json)
    names = frozenset(entry["function"]["name"] for entry in functions)
    if named and named not in names:
        raise ValueError(f"tool_choice names '{named[:80]}', which is none of the tools")
    forced = () if named is None else tuple(entry for entry in functions if named in {"", entry["function"]["name"]})
    return Tools(template_json, names, forced)


def _required_function(choice: object) -> str | None:
    """Return the function that must be called, "" for any; None where none must be. Raises: ValueError."""
    if choice in (None, "auto", "none"):
        return None
    if choice == "required":
        return ""
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        raise ValueError(f"tool_choice={json.dumps(choice)[:80]}; expected auto, none, required or a function's name")
    return name


def spoken(text: str, tools: Tools) -> SpokenText:
    """Return the calls of declared functions in a text, and the text before them; without any the text alone."""
    try:
        calls = read_calls(text)
    except UnreadableAnswer:
        calls = ()
    if not calls or any(call.name not in tools.names for call in calls):
        return SpokenText(text, ())
    before = text.partition(_BLOCK)[0].strip() if _BLOCK in text else ""
    return SpokenText(before or None, tuple(_call(tool_call) for tool_call in calls))


def _call(tool_call: FunctionCall) -> CallBody:
    arguments = json.dumps(dict(tool_call.arguments), ensure_ascii=False)
    function: CalledFunction = {"name": tool_call.name, "arguments": arguments}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


MOST_PAIRS = 1 << 16  # cached texts of tokens, about 20 MB


class TokenDecoder(Protocol):
    """The methods of a tokenizer, named as in transformers, that turn tokens into text."""

    @property
    def all_special_ids(self) -> Sequence[int]:
        """The ids that stand for no text."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> object:
        """Return the text of tokens."""


class TextStream:
    """Yields the text of one sequence in pieces. What may still become part of a stop text is held back.

    Only the newest tokens are decoded, together with those before them, since a token alone may lose its space or be a
    part of a character. With a think_end nothing is yielded before the end: until then all may be reasoning.
    """

    def __init__(self, tokenizer: TokenDecoder, stops: Sequence[str], think_end: str | int | None = None) -> None:
        self._tokenizer = tokenizer
        self._stops = tuple(stops)
        self._think_end = think_end
        self._tokens: list[int] = []
        self._begin = self._read = 0  # tokens[begin:read] are decoded again for the sake of those after them
        self._text = ""
        self._n_sent = 0

    @property
    def n_tokens(self) -> int:
        """The number of tokens added."""
        return len(self._tokens)

    def token(self, index: int) -> int:
        """Return one of the tokens added."""
        return self._tokens[index]

    def add(self, tokens: Sequence[int]) -> str:
        """Add new tokens; return the piece of text that is now certain, often empty."""
        self._tokens += tokens
        if self._think_end is not None:
            return ""
        before = self._decoded(self._tokens[self._begin : self._read])
        now = self._decoded(self._tokens[self._begin :])
        if now.endswith(REPLACEMENT) or len(now) <= len(before):
            return ""
        self._text += now[len(before) :]
        self._begin, self._read = self._read, len(self._tokens)
        ends = [at for stop in self._stops if (at := self._text.find(stop, max(0, self._n_sent - len(stop)))) >= 0]
        piece = self._text[self._n_sent : min([len(self._text) - self._n_held(), *ends])]
        self._n_sent += len(piece)
        return piece

    def _n_held(self) -> int:
        """The most characters at the end of the text that a stop text may begin with."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for n in range(min(longest, len(self._text)), 0, -1):
            if any(stop.startswith(self._text[-n:]) for stop in self._stops if len(stop) > n):
                return n
        return 0

    def finish(self, tokens: Sequence[int]) -> tuple[str, str, str | None]:
        """Return the last piece, the whole text, and the reasoning, from all tokens of the sequence."""
        final = final_text(self._tokenizer, tokens, self._stops, self._think_end)
        return final.text[self._n_sent :], final.text, final.reasoning

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True)) if tokens else ""


class TokenTexts:
    """The texts of the tokens of a sequence; joined, without the special ones, they are the sequence's text."""

    def __init__(self, tokenizer: TokenDecoder) -> None:
        self._tokenizer = tokenizer
        self._special = frozenset(tokenizer.all_special_ids)
        self._pairs: dict[tuple[int, int], str] = {}

    def after(self, before: int | None, token: int) -> str:
        """Return the text of a token that follows another one (None: the first)."""
        key = (-1 if before is None else before, token)
        known = self._pairs.get(key)
        if known is None:
            if len(self._pairs) >= MOST_PAIRS:
                self._pairs.clear()
            known = self._pairs[key] = self._decoded_after(before, token)
        return known

    def of(self, tokens: Sequence[int], before: int | None = None) -> list[str]:
        """Return the texts of consecutive tokens."""
        texts = []
        for token in tokens:
            texts.append(self.after(before, token))
            before = token
        return texts

    def lengths(self, tokens: Sequence[int], texts: Sequence[str]) -> list[int]:
        """Return the characters that tokens with these texts add to an answer; a special token adds none."""
        return [0 if token in self._special else len(text) for token, text in zip(tokens, texts, strict=True)]

    def _decoded_after(self, before: int | None, token: int) -> str:
        alone = str(self._tokenizer.decode([token], skip_special_tokens=False))
        if before is None:
            return alone
        prefix = str(self._tokenizer.decode([before], skip_special_tokens=False))
        both = str(self._tokenizer.decode([before, token], skip_special_tokens=False))
        return both[len(prefix) :] if both.startswith(prefix) and REPLACEMENT not in prefix else alone


LOWEST = -9999.0  # JSON has no infinity; OpenAI's own value for impossible tokens


@dataclass(frozen=True, slots=True)
class Answer:
    """The fields that all bodies of one answer share."""

    id: str
    is_chat: bool
    created: int
    model: str
    fingerprint: str

    def body(self, choices: Sequence[AnswerChoice], usage: tuple[int, int] | None, *, chunk: bool) -> AnswerBody:
        """Return a body; `usage` counts prompt and generated tokens."""
        kind = ("chat.completion.chunk" if chunk else "chat.completion") if self.is_chat else "text_completion"
        body: AnswerBody = {
            "id": self.id, "object": kind, "created": self.created, "model": self.model,
            "system_fingerprint": self.fingerprint, "choices": list(choices),
        }  # fmt: skip
        if usage is not None:
            n_prompt, n_new = usage
            body["usage"] = {"prompt_tokens": n_prompt, "completion_tokens": n_new, "total_tokens": n_prompt + n_new}
        return body

    def choice(
        self, index: int, said: SpokenText, reasoning: str | None, logprobs: object, finish: str
    ) -> AnswerChoice:
        """Return a whole choice."""
        if not self.is_chat:
            return {"index": index, "text": said.content, "logprobs": logprobs, "finish_reason": finish}
        message: SpokenMessage = {"role": "assistant", "content": said.content}
        if said.calls:
            message["tool_calls"] = list(said.calls)
            finish = finish_with_calls(finish)
        if reasoning is not None:
            message["reasoning_content"] = reasoning
        return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": finish}

    def piece(self, index: int, text: str, logprobs: object = None, finish: str | None = None, *, first: bool = False,
              reasoning: str | None = None) -> AnswerChoice:  # fmt: skip
        """Return a choice of a chunk; `first` names the role."""
        if not self.is_chat:
            return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
        delta: SpokenMessage = {"role": "assistant"} if first else {}
        if text or first:
            delta["content"] = text
        if reasoning is not None:
            delta["reasoning_content"] = reasoning
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}

    def calls_piece(self, index: int, said: SpokenText, logprobs: object, finish: str) -> AnswerChoice:
        """Return the last choice of a stream that ends with calls: the text before them, and each call whole."""
        delta: SpokenMessage = {"tool_calls": [{"index": at, **call} for at, call in enumerate(said.calls)]}
        if said.content is not None:
            delta["content"] = said.content
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_with_calls(finish)}


def finish_with_calls(finish: str) -> str:
    """Return the finish_reason of an answer with calls; one that was truncated stays so."""
    return finish if finish == "length" else "tool_calls"


def finish_of(reason: FinishReason) -> str:
    """Return OpenAI's finish_reason."""
    return "length" if reason == "length" else "stop"


class ErrorDetails(TypedDict):
    """The details of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(TypedDict):
    """An error in OpenAI's form."""

    error: ErrorDetails


def error_body(message: str, kind: str, param: str | None = None, code: str | None = None) -> ErrorBody:
    """Return an error in OpenAI's form, without the folders of this machine."""
    return {"error": {"message": without_folders(message), "type": kind, "param": param, "code": code}}


def event(body: object) -> bytes:
    """Return a body as one server-sent event."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + text.encode("utf-8", "replace") + b"\n\n"


def comment(text: str) -> bytes:
    """Return a comment in a stream of server-sent events, which clients skip."""
    return f": {text}\n\n".encode()


def from_prompt(logprobs: PromptLogprobs, tokens: IntArray, n_top: int) -> list[NewToken]:
    """Return the tokens of a prompt with their log-probabilities; the first has none."""
    result = [NewToken(0, 0, int(tokens[0]))]
    for position, token in enumerate(tokens[1:].tolist()):
        tops = zip(logprobs.top_tokens[position, :n_top], logprobs.top_logprobs[position, :n_top], strict=True)
        top = tuple((int(each), float(value)) for each, value in tops)
        result.append(NewToken(0, 0, token, float(logprobs.chosen[position]), top))
    return result


def completion_logprobs(
    texts: TokenTexts, tokens: Sequence[NewToken], before: int | None, offset: int
) -> CompletionLogprobs:
    """Return the log-probabilities of a completion; `before` is the preceding token, `offset` where they begin."""
    names = texts.of([new_token.token for new_token in tokens], before)
    lengths = texts.lengths([new_token.token for new_token in tokens], names)
    offsets = (np.cumsum([0, *lengths])[:-1] + offset).tolist()
    tops: list[dict[str, float] | None] = []
    for position, new_token in enumerate(tokens):
        if new_token.logprob is None:
            tops.append(None)
            continue
        previous = tokens[position - 1].token if position else before
        top: dict[str, float] = {}
        for token, value in new_token.top:
            top.setdefault(texts.after(previous, token), _finite(value))
        if new_token.token not in {token for token, _ in new_token.top}:
            top.setdefault(names[position], _finite(new_token.logprob))
        tops.append(top)
    nats = [None if new_token.logprob is None else _finite(new_token.logprob) for new_token in tokens]
    return {"tokens": names, "token_logprobs": nats, "top_logprobs": tops, "text_offset": offsets}


def chat_logprobs(texts: TokenTexts, tokens: Sequence[NewToken], before: int | None) -> dict[str, object]:
    """Return the log-probabilities of a chat answer's tokens."""
    content = []
    for new_token in tokens:
        name = texts.after(before, new_token.token)
        top = [_entry(texts.after(before, token), value) for token, value in new_token.top]
        content.append({**_entry(name, new_token.logprob or 0.0), "top_logprobs": top})
        before = new_token.token
    return {"content": content, "refusal": None}


def _entry(name: str, value: float) -> dict[str, object]:
    return {"token": name, "logprob": _finite(value), "bytes": list(name.encode("utf-8", "replace"))}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else LOWEST
