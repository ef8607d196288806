"""What is sent to an OpenAI-compatible server, and what its answers say.

Bodies have lm-eval's fields and values. What is scored is told by its tokens: those that stand for the continuation
at the end of the echoed prompt. Nothing is taken for granted of an answer; one that lacks what was asked for is a
failure, never a low score.

Source: lm-evaluation-harness 0.4.13, models/openai_completions.py (_create_payload, parse_logprobs,
    parse_generations).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalstone.errors import AnswerWithheld, MalformedAnswer, NonFiniteLogits
from evalstone.models.server.arguments import OpenAIArguments
from evalstone.models.server.failures import HttpFailure
from evalstone.models.server.key_hiding import NO_KEYS, KeyHider
from evalstone.models.text.generation_prompts import GenerationInput

__all__ = ["Prompt", "ScoredPart", "ServerScore", "ServerText", "read_score", "read_text", "score_body", "text_body"]

Prompt = str | list[list[int]] | list[dict[str, str]]  # a text, tokens, or messages
MOST_STOPS = 4  # that a chat endpoint and OpenAI's own take; the others end the text here
LARGEST_COUNT = 2**31 - 1  # of tokens; what is above is no count, and no database column holds it
FIXED = re.compile(r"^(o\d|gpt-5)")  # OpenAI's models that take neither stop texts nor a temperature


@dataclass(frozen=True, slots=True)
class ScoredPart:
    """What is scored of a prompt.

    n_prompt, n_scored: tokens of the whole prompt and of its scored end; None where only the server cuts the text.
    text: the scored end. are_sent: tokens were sent, so that the server's must be the same.
    """

    text: str
    n_prompt: int | None = None
    n_scored: int | None = None
    are_sent: bool = False


@dataclass(frozen=True, slots=True)
class ServerScore:
    """The log-probability of a scored part. Units: nats; tokens as the server counts them."""

    total_nats: float
    is_greedy: bool
    n_context: int
    n_scored: int


@dataclass(frozen=True, slots=True)
class ServerText:
    """A written answer as the server gave it; counts are 0 where it says none."""

    text: str
    reasoning: str | None
    tool_calls: str | None  # JSON
    finish_reason: str | None
    n_context: int
    n_tokens: int


def score_body(arguments: OpenAIArguments, prompt: Prompt) -> dict[str, Any]:
    """Return the request for the log-probabilities of a prompt's own tokens. One token must be written after them."""
    return {
        "model": arguments.model,
        "prompt": prompt,
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": 1,
        "seed": arguments.seed,
        "echo": True,
    }


def text_body(arguments: OpenAIArguments, prompt: Prompt, asked: GenerationInput, repeat: int) -> dict[str, Any]:
    """Return the request for a written answer. Each repeat has a seed of its own, the first one lm-eval's.

    Stop texts are not sent where a thought comes first: they end an answer, not a thought.
    """
    settings = asked.settings
    is_own_chat = arguments.is_chat and arguments.is_openai
    stops = list(asked.stops) if arguments.think_end_token is None else []
    body: dict[str, Any] = {
        **dict(settings.extra),
        "model": arguments.model,
        "messages" if arguments.is_chat else "prompt": prompt,
        "max_completion_tokens" if is_own_chat else "max_tokens": asked.max_tokens,
        "temperature": settings.temperature,
        "seed": (settings.seed or arguments.seed) + repeat,
    }
    if stops:
        body["stop"] = stops[:MOST_STOPS] if arguments.is_chat or arguments.is_openai else stops
    if is_own_chat and FIXED.match(arguments.model):
        body = {name: value for name, value in body.items() if name not in ("stop", "temperature")}
    drawn = {"top_p": settings.top_p, "top_k": settings.top_k, "min_p": settings.min_p}
    return body | {name: value for name, value in drawn.items() if value is not None}


def read_score(found: Any, part: ScoredPart) -> ServerScore:
    """Return the score that an answer gives to a part.

    Raises: HttpFailure where it does not say it.
    """
    logprobs = _choice(found).get("logprobs")
    if not isinstance(logprobs, Mapping) or not isinstance(logprobs.get("token_logprobs"), list):
        raise _without_logprobs("the answer holds no log-probabilities of the prompt")
    nats = logprobs["token_logprobs"]
    n_prompt = part.n_prompt if part.are_sent else _count(found, "prompt_tokens") or len(nats) - 1
    if n_prompt is None or len(nats) < n_prompt or n_prompt < 1:
        raise _without_logprobs(f"the answer holds log-probabilities of {len(nats)} tokens, the prompt has {n_prompt}")
    if part.are_sent and len(nats) > n_prompt + 1:
        raise HttpFailure(
            MalformedAnswer,
            f"{n_prompt} tokens were sent, and {len(nats) - 1} came back: the server adds tokens of its own; send "
            "texts with tokenized_requests=False",
        )
    first = _first_scored(logprobs, n_prompt, part)
    return ServerScore(
        total_nats=_sum(nats[first:n_prompt]),
        is_greedy=_is_greedy(nats[first:n_prompt], logprobs.get("top_logprobs"), slice(first, n_prompt)),
        n_context=first,
        n_scored=n_prompt - first,
    )


def _first_scored(logprobs: Mapping[str, Any], n_prompt: int, part: ScoredPart) -> int:
    """Return the place of the first scored token: by count where tokens agree, else by the texts of the last ones.

    Raises: HttpFailure where a token holds the end of the context and the beginning of the continuation.
    """
    if part.n_scored is not None and part.n_prompt == n_prompt:
        return n_prompt - part.n_scored
    texts = logprobs.get("tokens")
    if not isinstance(texts, Sequence) or len(texts) < n_prompt:
        raise _without_logprobs("the answer does not say the texts of the prompt's tokens")
    left = part.text
    for place in range(n_prompt - 1, -1, -1):
        text = str(texts[place])
        if not text or not left.endswith(text):
            break
        left = left.removesuffix(text)
        if not left:
            return place
    raise HttpFailure(
        MalformedAnswer,
        f"the server cuts the prompt into {n_prompt} tokens of which none begins where the choice {part.text!r} does; "
        "name the model's tokenizer: tokenizer=<folder or Hub id>",
    )


def _sum(nats: Sequence[Any]) -> float:
    """Return the sum of some log-probabilities. Raises: HttpFailure where one is none."""
    if any(not isinstance(each, int | float) for each in nats):
        raise HttpFailure(
            MalformedAnswer,
            "a scored token has no log-probability: nothing stands before it; name a tokenizer that has a BOS token",
        )
    total = math.fsum(nats)
    if not math.isfinite(total):
        raise HttpFailure(NonFiniteLogits, f"the log-probabilities hold {total}")
    return total


def _is_greedy(nats: Sequence[float], tops: Any, scored: slice) -> bool:
    """Return whether each scored token is as probable as the most probable one. Raises: HttpFailure."""
    if not isinstance(tops, list) or len(tops) < scored.stop:
        raise _without_logprobs("the answer does not say which tokens are most probable (top_logprobs)")
    best = tops[scored]
    if not all(isinstance(each, Mapping) and each for each in best):
        raise HttpFailure(MalformedAnswer, "a scored token comes without the most probable one (top_logprobs)")
    return all(token == max(top.values()) for token, top in zip(nats, best, strict=True))


def _without_logprobs(what: str) -> HttpFailure:
    remedy = "choices need a server that takes echo and logprobs together, as vLLM's /v1/completions does"
    return HttpFailure(MalformedAnswer, f"{what}; {remedy}", shows_all=True)


def read_text(found: Any, *, is_chat: bool, keys: KeyHider = NO_KEYS) -> ServerText:
    """Return what an answer says was written; `keys` are removed from texts that came in parts.

    Raises: HttpFailure where it says nothing, or the server kept it back.
    """
    choice = _choice(found)
    message = choice.get("message") if is_chat else choice
    if not isinstance(message, Mapping):
        raise HttpFailure(MalformedAnswer, "the answer holds no message")
    finish = choice.get("finish_reason")
    if finish == "content_filter":
        raise HttpFailure(AnswerWithheld, "the server kept the answer back (finish_reason content_filter)")
    content = message.get("content") if is_chat else message.get("text")
    content = message.get("refusal") if content is None else content  # what the model says in place of an answer
    calls = message.get("tool_calls") or None
    reasoning = message.get("reasoning_content") or message.get("reasoning") or None
    if content is None and calls is None and reasoning is None and finish != "length":
        raise HttpFailure(MalformedAnswer, "the answer holds no text")
    return ServerText(
        text=_text(content, keys),
        reasoning=None if reasoning is None else _text(reasoning, keys),
        tool_calls=None if calls is None else json.dumps(calls),
        finish_reason=None if finish is None else str(finish),
        n_context=_count(found, "prompt_tokens"),
        n_tokens=_count(found, "completion_tokens"),
    )


def _text(content: Any, keys: KeyHider) -> str:
    """Return a content as text; one that is a list has its text parts joined, which may make a key whole."""
    if isinstance(content, list):
        return keys.text("".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping)))
    return "" if content is None else str(content)


def _choice(found: Any) -> Mapping[str, Any]:
    """Return the one choice of an answer. Raises: HttpFailure."""
    choices = found.get("choices") if isinstance(found, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        error = found.get("error") if isinstance(found, Mapping) else None
        said = f": {str(error)[:200]}" if error else ""
        raise HttpFailure(MalformedAnswer, f"the answer holds no choices{said}")
    return choices[0]


def _count(found: Mapping[str, Any], name: str) -> int:
    """Return a count of the answer's `usage`, 0 where it says none that can be."""
    usage = found.get("usage")
    value = usage.get(name) if isinstance(usage, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
        return value
    return 0
