"""The return value of a target: its output as text or JSON, and facts about the call (cost, tokens, contexts).

A return value is not trusted: it is read into a bounded record here, and the call has failed if it cannot be.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from assaymark.applications.rows import CONTEXTS, Row, shown_value
from assaymark.applications.scorer import Answered
from assaymark.errors import Permanent
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue, Output

MOST_CHARACTERS = 32 * 2**20  # of an output
_ANSWER = ("output", "answer", "response")
_FACTS = frozenset({"cost", "tokens", "usage", "tokenUsage", "error", *CONTEXTS})
_BESIDE = _FACTS | {"output", "metadata", "cached", "latencyMs", "raw"}  # of promptfoo's response
_SHOWN = 80  # characters of a wrong value that an error shows


@dataclass(frozen=True, slots=True)
class Returned:
    """The return value of a target. value: its output, as JSON holds it; any other field is None if not stated."""

    value: JsonValue
    cost: float | None = None
    n_tokens: int | None = None  # of prompts and answers together
    n_prompt_tokens: int | None = None
    contexts: tuple[str, ...] | None = None
    had_colours: bool = False  # a terminal's control sequences were removed from it

    @property
    def text(self) -> str:
        """The output as it is stored: a text itself, else JSON."""
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


def read_returned(value: object) -> Returned:
    """Read a target's return value.

    A mapping is the output as a whole; its facts about the call are also read. Only in promptfoo's shape, a mapping of
    `output` and such facts alone, `output` is the output.

    Raises: Permanent if JSON cannot hold the value, or the value says that the call failed.
    """
    plain = _plain(value)
    if not isinstance(plain, dict):
        return Returned(plain)
    if (
        plain.get("error")
        and "output" in {*plain, *(() if set(plain) - _BESIDE else ("output",))}
        and plain.get("output") is None
    ):
        raise Permanent(f"the target returned an error: {plain['error']!s:.2000}")
    usage = next((plain[name] for name in ("usage", "tokenUsage", "tokens") if plain.get(name) is not None), None)
    n_tokens, n_prompt = _tokens(usage)
    is_envelope = "output" in plain and bool(set(plain) & _FACTS) and not set(plain) - _BESIDE
    return Returned(
        plain["output"] if is_envelope else plain, _number(plain.get("cost")), n_tokens, n_prompt, _contexts(plain)
    )


def answer_of(output: JsonValue) -> JsonValue:
    """Return the answer in an output: the value of `output`, `answer` or `response` of a mapping, else the output.

    Of a chat message by the model, of the state of an agent that ends with one (`messages`) and of a chat completion
    (`choices`) it is the message's content.
    """
    if not isinstance(output, Mapping):
        return output
    if (named := next((output[name] for name in _ANSWER if output.get(name) is not None), None)) is not None:
        return named
    for list_, at in (("messages", -1), ("choices", 0)):
        if isinstance(listed := output.get(list_), list) and listed and isinstance(listed[at], Mapping):
            return answer_of(listed[at].get("message", listed[at]))
    is_message = output.get("role") == "assistant" or output.get("type") == "ai"  # LangChain's
    return output["content"] if is_message and output.get("content") is not None else output


def _plain(value: object) -> JsonValue:
    """Return a value as JSON holds it."""
    if isinstance(value, str):
        if len(value) > MOST_CHARACTERS:
            raise Permanent(f"the output has {len(value):,} characters; expected at most {MOST_CHARACTERS:,}")
        return value
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_encoded)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(
            f"the target returned {shown_value(value, _SHOWN)}, which JSON cannot hold ({error}); expected a text, "
            "a number, a list or a mapping"
        ) from None
    if len(text) > MOST_CHARACTERS:
        raise Permanent(f"the output has {len(text):,} characters as JSON; expected at most {MOST_CHARACTERS:,}")
    plain: JsonValue = json.loads(text)
    return plain


def _encoded(value: object) -> object:
    """Return an object's plain value: of dataclasses, pydantic's models, dates, numpy, decimals and enumerations."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    for method, arguments in (("model_dump", {"mode": "json"}), ("isoformat", {}), ("tolist", {})):
        if callable(getattr(value, method, None)) and not isinstance(value, type):
            return getattr(value, method)(**arguments)
    if isinstance(value, Enum | Decimal):
        return value.value if isinstance(value, Enum) else float(value)
    raise TypeError(f"a {type(value).__name__}")


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _tokens(usage: JsonValue) -> tuple[int | None, int | None]:
    """Return the tokens in all and of the prompt: a number, or OpenAI's, Anthropic's or promptfoo's mapping."""
    if not isinstance(usage, Mapping):
        number = _number(usage)
        return (None if number is None else int(number)), None
    counts = {name: _number(usage.get(name)) for name in usage}
    prompt = next(
        (counts[name] for name in ("prompt_tokens", "input_tokens", "prompt", "input") if counts.get(name) is not None),
        None,
    )
    answer = next(
        (
            counts[name]
            for name in ("completion_tokens", "output_tokens", "completion", "output")
            if counts.get(name) is not None
        ),
        None,
    )
    total = next((counts[name] for name in ("total_tokens", "total") if counts.get(name) is not None), None)
    if total is None and (prompt is not None or answer is not None):
        total = (prompt or 0) + (answer or 0)
    return (None if total is None else int(total)), (None if prompt is None else int(prompt))


def _contexts(plain: Mapping[str, JsonValue]) -> tuple[str, ...] | None:
    """Return the contexts that a target returned: texts, or documents with a text."""
    value = next((plain[name] for name in CONTEXTS if plain.get(name) is not None), None)
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        return None
    texts = [_document(each) for each in value]
    return None if any(text is None for text in texts) else tuple(text for text in texts if text is not None)


def _document(value: JsonValue) -> str | None:
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("content", "text", "page_content", "document") if name in value), None)
    return value if isinstance(value, str) else None


# --------------------------------------------------------------------------------------------------- stored calls


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts about a call, as stored with its output (`Output.call`)."""

    latency_s: float | None = None
    cost: float | None = None
    n_tokens: int | None = None
    contexts: tuple[str, ...] | None = None
    trace_id: str | None = None
    is_json: bool = False  # the output's text is the JSON of what was returned
    n_tries: int = 1

    def to_json(self) -> str:
        """Return the facts that are known, as JSON."""
        values = dataclasses.asdict(self)
        return json.dumps(
            {
                name: value
                for name, value in values.items()
                if value not in (None, False) and (name, value) != ("n_tries", 1)
            }
        )

    @classmethod
    def of(cls, text: str | None) -> "CallFacts":
        """Return stored facts; a value of a wrong type, as in a store from elsewhere, counts as unknown."""
        try:
            stored = parse_json(text) if text else {}
        except (ValueError, RecursionError):
            stored = {}
        if not isinstance(stored, Mapping):
            stored = {}
        n_tokens, contexts, trace_id = _number(stored.get("n_tokens")), stored.get("contexts"), stored.get("trace_id")
        are_texts = isinstance(contexts, list) and all(isinstance(each, str) for each in contexts)
        return cls(
            latency_s=_number(stored.get("latency_s")),
            cost=_number(stored.get("cost")),
            n_tokens=None if n_tokens is None else int(n_tokens),
            contexts=tuple(contexts) if isinstance(contexts, Sequence) and are_texts else None,
            trace_id=trace_id if isinstance(trace_id, str) else None,
            is_json=stored.get("is_json") is True,
        )


def answered_of(output: Output, row: Row) -> Answered:
    """Return a row with its stored output, as scorers read it."""
    facts = CallFacts.of(output.call)
    value: JsonValue = output.text
    if facts.is_json and output.text is not None:
        value = parse_json(output.text)
    return Answered(
        row=row,
        output=value,
        latency_s=facts.latency_s,
        cost=facts.cost,
        n_tokens=facts.n_tokens,
        trace_id=facts.trace_id,
        contexts=row.contexts if facts.contexts is None else facts.contexts,
    )
