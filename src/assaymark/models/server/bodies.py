"""Build the request bodies for an OpenAI-compatible server and read its answers.

Bodies have lm-eval's fields and values. The scored part is identified by its tokens: those of the continuation at the
end of the echoed prompt. Every field of an answer is checked; one that lacks the requested values is a failure, never a
low score.

Source: lm-evaluation-harness 0.4.13, models/openai_completions.py (_create_payload, parse_logprobs,
    parse_generations).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.errors import MalformedAnswer, NonFiniteLogits
from assaymark.models.server.arguments import REASONING, OpenAIArguments
from assaymark.models.server.failures import AT_LIMIT, NO_KEYS, HttpFailure, KeyHider, failure_within, first_choice
from assaymark.models.text.generation_prompts import GenerationInput
from assaymark.models.text.stops import sendable_stops
from assaymark.records import REFUSED

Json = dict[str, object]
Prompt = str | list[list[int]] | list[Json]  # a text, tokens, or messages
MOST_STOPS = 4  # accepted by chat endpoints and OpenAI; the others are applied here
ROUNDING = 1e-3  # nats by which a log-probability may exceed 0
LONGEST_NAMED = 100  # characters of a model's name
_NOT_THE_NAME = re.compile(r"^.*/(?=[^/])|[-:]latest$|\.gguf$", re.IGNORECASE)  # folders, an alias, a file's ending
_VERSION = re.compile(r"(?:[-@:_]v?\d[\d.]*)*")
_BOS = re.compile(r"<[^\s>]*>|\[[A-Z]+\]|")
_WORD = re.compile("[A-Za-z0-9]")  # characters of which every token has the text
LARGEST_COUNT = 2**31 - 1  # a larger number of tokens is not a valid count, and no database column can store it


@dataclass(frozen=True, slots=True)
class ScoredPart:
    """The scored part of a prompt.

    n_prompt, n_scored: tokens of the whole prompt and of its scored end; None if only the server tokenises the text.
    text: the scored end. are_sent: tokens were sent, so the server must return the same ones. context: before it.
    """

    text: str
    n_prompt: int | None = None
    n_scored: int | None = None
    are_sent: bool = False
    context: str = ""


@dataclass(frozen=True, slots=True)
class ServerScore:
    """The log-probability of a scored part. Units: nats; token counts are the server's."""

    total_nats: float
    is_greedy: bool
    n_context: int
    n_scored: int


@dataclass(frozen=True, slots=True)
class ServerText:
    """A generated text as the server returned it; counts are 0 if it states none."""

    text: str
    reasoning: str | None
    tool_calls: str | None  # JSON
    finish_reason: str | None
    n_context: int
    n_tokens: int


def score_body(arguments: OpenAIArguments, prompt: Prompt) -> dict[str, object]:
    """Return the request for the log-probabilities of a prompt's own tokens, with the minimum of one new token."""
    return {
        "model": arguments.model,
        "prompt": prompt,
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": 1,
        "seed": arguments.seed,
        "echo": True,
    }


def text_body(
    arguments: OpenAIArguments, prompt: Prompt, prepared: GenerationInput, repeat: int, tools: str | None = None
) -> dict[str, object]:
    """Return the request for a generated text. Each repeat has its own seed; the first one's is lm-eval's.

    `tools` is the JSON of the functions that the model may call. Stop texts that count only after
    another text are applied to the answer alone.
    """
    settings = prepared.settings
    provider = arguments.provider
    is_own_chat = arguments.is_chat and provider.takes_new_limit
    stops = sendable_stops(prepared.stops, arguments.think_end_token)
    if not provider.takes_blank_stops:
        stops = [stop for stop in stops if stop.strip()]  # all are applied to the text here as well
    body: dict[str, object] = {
        **dict(settings.extra),
        "model": arguments.model,
        "messages" if arguments.is_chat else "prompt": prompt,
        "max_completion_tokens" if is_own_chat else "max_tokens": prepared.max_tokens,
        "temperature": settings.temperature,
    }
    if provider.takes_seed:
        body["seed"] = (settings.seed or arguments.seed) + repeat
    if tools is not None:
        body["tools"] = json.loads(tools)
    if stops:
        body["stop"] = stops[:MOST_STOPS] if arguments.is_chat or arguments.is_openai else stops
    if is_own_chat and REASONING.match(arguments.model):
        body = {name: value for name, value in body.items() if name not in ("stop", "temperature")}
    drawn = {"top_p": settings.top_p, "top_k": settings.top_k, "min_p": settings.min_p}
    return body | {name: value for name, value in drawn.items() if value is not None}


def read_score(answer: object, part: ScoredPart) -> ServerScore:
    """Return the score of a part.

    Raises: HttpFailure if the answer does not contain it.
    """
    logprobs = choice_of(answer).get("logprobs")
    if not isinstance(logprobs, Mapping) or not isinstance(logprobs.get("token_logprobs"), list):
        raise _without_logprobs("the answer contains no log-probabilities of the prompt")
    nats = logprobs["token_logprobs"]
    n_prompt = part.n_prompt if part.are_sent else _n_listed(answer, len(nats))
    if n_prompt is None or len(nats) < n_prompt or n_prompt < 1:
        raise _without_logprobs(f"the answer has log-probabilities of {len(nats)} tokens, the prompt has {n_prompt}")
    if part.are_sent and len(nats) > n_prompt + 1:
        raise HttpFailure(
            MalformedAnswer,
            f"{n_prompt} tokens were sent and {len(nats) - 1} were returned: the server adds its own tokens; send "
            "texts with tokenized_requests=False",
        )
    for name in ("tokens", "top_logprobs"):
        if isinstance(listed := logprobs.get(name), list) and n_prompt <= len(listed) != len(nats):
            raise HttpFailure(
                MalformedAnswer,
                f"the answer has log-probabilities of {len(nats)} tokens and {len(listed)} {name}: which belongs to "
                "which is not known; expected lists of one length",
            )
    first = _first_scored(logprobs, n_prompt, part)
    return ServerScore(
        total_nats=_sum(nats, first, n_prompt),
        is_greedy=_is_greedy(nats[first:n_prompt], logprobs.get("top_logprobs"), first, n_prompt),
        n_context=first,
        n_scored=n_prompt - first,
    )


def _n_listed(answer: object, n_nats: int) -> int:
    """Return how many of the listed tokens belong to the prompt: those before the generated one.

    llama.cpp's server counts a BOS token in `usage` that it does not list.
    """
    n_prompt = count_of(answer, "prompt_tokens") or n_nats - 1
    n_generated = count_of(answer, "completion_tokens")
    return min(n_prompt, n_nats - n_generated) if n_generated else n_prompt


def _first_scored(logprobs: Mapping[str, object], n_prompt: int, part: ScoredPart) -> int:
    """Return the position of the first scored token: by count if tokens agree, else by the texts of the last ones.

    Raises: HttpFailure if one token contains the end of the context and the beginning of the continuation.
    """
    if part.n_scored is not None and part.n_prompt == n_prompt:
        return n_prompt - part.n_scored
    texts = logprobs.get("tokens")
    if not isinstance(texts, Sequence) or len(texts) < n_prompt:
        raise _without_logprobs("the answer lacks the texts of the prompt's tokens")
    left = part.text
    for position in range(n_prompt - 1, -1, -1):
        text = str(texts[position])
        if not text or not left.endswith(text):
            break
        left = left.removesuffix(text)
        if not left:
            _check_context(texts[:position], part.context)
            return position
    raise HttpFailure(
        MalformedAnswer,
        f"the server splits the prompt into {n_prompt} tokens, none of which begins where the choice {part.text!r} "
        "does; set the model's tokenizer with tokenizer=<folder or Hub id>",
    )


def _check_context(texts: Sequence[object], context: str) -> None:
    """Refuse an answer whose tokens begin in the middle of the context: the choice was scored after an end of it.

    Raises: HttpFailure. Tokens whose texts are no end of the context, as with marks for spaces, show nothing.
    """
    words = list(map(str, texts))
    if words and _BOS.fullmatch(words[0]):
        del words[0]
    listed = "".join(words)
    if context.endswith(listed) and _WORD.search(cut := context[: len(context) - len(listed)]):
        raise HttpFailure(
            MalformedAnswer,
            f"the server left out the first {len(cut):,} of the prompt's {len(context):,} characters; run it with a "
            "larger context, or use fewer shots",
        )


def _sum(nats: Sequence[object], first: int, end: int) -> float:
    """Return the sum of a prompt's log-probabilities from `first` to before `end`.

    Raises: HttpFailure if one is missing, or can be none.
    """
    numbers = [each for each in nats[first:end] if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) < end - first:
        if first == 0 and len(numbers) == end - 1:
            raise HttpFailure(
                MalformedAnswer,
                "a scored token has no log-probability since no token precedes it; use a tokenizer that has a BOS "
                "token",
            )
        raise HttpFailure(
            MalformedAnswer,
            f"{end - first - len(numbers)} of {end - first} scored tokens have no log-probability that is a number",
        )
    try:
        total = math.fsum(numbers)
    except (OverflowError, ValueError):  # a number that no float can hold, or infinities of both signs
        total = math.nan
    if not math.isfinite(total):
        raise HttpFailure(NonFiniteLogits, f"the log-probabilities contain {total}")
    if max(numbers, default=0.0) > ROUNDING:
        raise HttpFailure(MalformedAnswer, f"a log-probability is {max(numbers):g}; expected at most 0")
    return total


def _is_greedy(nats: Sequence[float], tops: object, first: int, end: int) -> bool:
    """Return whether each scored token is as probable as the most probable one. Raises: HttpFailure."""
    if not isinstance(tops, list) or len(tops) < end:
        raise _without_logprobs("the answer lacks the most probable tokens (top_logprobs)")
    if not all(isinstance(each, Mapping) and each for each in tops[first:end]):
        raise HttpFailure(MalformedAnswer, "a scored token lacks the most probable alternative (top_logprobs)")
    best = [max(top.values()) for top in tops[first:end]]
    for token, most in zip(nats, best, strict=True):
        if token > most + ROUNDING:
            raise HttpFailure(
                MalformedAnswer,
                f"a token has the log-probability {token:g}, and the most probable one (top_logprobs) {most:g}; "
                "expected both of one place",
            )
    return all(token == most for token, most in zip(nats, best, strict=True))


def _without_logprobs(what: str) -> HttpFailure:
    remedy = "choices need a server that supports echo together with logprobs, such as vLLM's /v1/completions"
    return HttpFailure(MalformedAnswer, f"{what}; {remedy}", shows_all=True)


def read_text(answer: object, *, is_chat: bool, keys: KeyHider = NO_KEYS, may_call: bool = False) -> ServerText:
    """Return the generated text in an answer; `keys` are removed from texts that are joined from parts.

    may_call: the model was told of tools, so that an answer which it ended without text and without calls is one.

    Raises: HttpFailure if there is none, or the server withheld it.
    """
    choice = choice_of(answer)
    message = choice.get("message") if is_chat else choice
    if not isinstance(message, Mapping):
        raise HttpFailure(MalformedAnswer, "the answer contains no message")
    finish = choice.get("finish_reason")
    details = answer.get("incomplete_details") if finish is None and isinstance(answer, Mapping) else None
    finish = details.get("reason") if isinstance(details, Mapping) else finish
    finish = "length" if AT_LIMIT.fullmatch(str(finish)) else finish
    content, of_parts = _by_kind(message.get("content") if is_chat else message.get("text"), keys)
    if not content and (refusal := message.get("refusal") or of_parts.get("refusal")):  # it replaces the answer
        content, finish = refusal, REFUSED
    calls = message.get("tool_calls") or _older_call(message)
    reasoning = message.get("reasoning_content") or message.get("reasoning") or of_parts.get("reasoning")
    if calls is None and not content and finish in ("tool_calls", "function_call"):
        raise HttpFailure(MalformedAnswer, f"the answer has finish_reason {finish}, and neither calls nor a text")
    is_silent = may_call and finish == "stop"
    if content is None and calls is None and reasoning is None and finish != "length" and not is_silent:
        raise HttpFailure(MalformedAnswer, "the answer contains no text")
    if not (content or calls or reasoning or finish):
        raise HttpFailure(MalformedAnswer, "the answer is empty, and no finish_reason says that it ended")
    return ServerText(
        text=_text(content, keys),
        reasoning=None if reasoning is None else _text(reasoning, keys),
        tool_calls=None if calls is None else json.dumps(calls),
        finish_reason=None if finish is None else str(finish),
        n_context=count_of(answer, "prompt_tokens"),
        n_tokens=_n_generated(answer),
    )


def _n_generated(answer: object) -> int:
    """Return the generated tokens; Gemini counts its reasoning, which is billed, in the total only."""
    n_total, n_context = count_of(answer, "total_tokens"), count_of(answer, "prompt_tokens")
    return max(count_of(answer, "completion_tokens"), n_total - n_context if n_context else 0)


def _older_call(message: Mapping[str, object]) -> list[object] | None:
    """Return `function_call`, which `tool_calls` replaced, in the newer form; None where there is none."""
    call = message.get("function_call")
    return [{"type": "function", "function": call}] if isinstance(call, Mapping) else None


def text_of(content: object, keys: KeyHider) -> str:
    """Return the answer in a content, or in a piece of one. Raises: HttpFailure for what is none."""
    return _text(_by_kind(content, keys)[0], keys)


_REASONING = re.compile("reason|think|thought", re.IGNORECASE)


def _by_kind(content: object, keys: KeyHider) -> tuple[object, dict[str, str]]:
    """Return a content without the parts that are no answer, and the texts of those: `reasoning` and `refusal`.

    Raises: HttpFailure for calls among them.
    """
    if not isinstance(content, list):
        return content, {}
    answer: list[object] = []
    others: dict[str, str] = {}
    for part in content:
        kind = str(part.get("type")) if isinstance(part, Mapping) else ""
        name = "refusal" if kind == "refusal" else "reasoning" if _REASONING.search(kind) else None
        if re.search("tool|function", kind):  # else the answer would have no call
            raise HttpFailure(
                MalformedAnswer, f"the answer's content has a part {kind[:40]}; expected its calls in tool_calls"
            )
        if name is None:
            answer.append(part)
        else:
            others[name] = others.get(name, "") + _text(part.get(kind) or part.get("text"), keys)
    return answer, others


def _text(content: object, keys: KeyHider) -> str:
    """Return a content as text; the text parts of a list are joined, which may complete a key.

    Raises: HttpFailure for any other content: what is not a text is not scored as one.
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") or "" if isinstance(part, Mapping) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise HttpFailure(MalformedAnswer, f"the answer's content is {content!r:.80}; expected a text")
    return keys.text("".join(map(str, texts)))


def choice_of(answer: object) -> Mapping[str, object]:
    """Return the single choice of an answer. Raises: HttpFailure if there is none, or the answer reports a failure."""
    if failure := failure_within(answer):
        raise failure
    if (choice := first_choice(answer)) is None:
        raise HttpFailure(MalformedAnswer, "the answer contains no choices")
    return choice


def other_model(answer: object, asked: str, keys: KeyHider = NO_KEYS) -> str | None:
    """Return a note if an answer names a model other than the one asked, whose version or folder do not matter."""
    named = answer.get("model") if isinstance(answer, Mapping) else None
    if not isinstance(named, str) or not named:
        return None
    short, long = sorted((_NOT_THE_NAME.sub("", each).lower() for each in (asked, named)), key=len)
    if long.startswith(short) and _VERSION.fullmatch(long[len(short) :]):
        return None
    return f"model {asked} was asked for, and the server says that {keys.text(named)[:LONGEST_NAMED]!r} answered"


def count_of(answer: object, name: str) -> int:
    """Return a count from the answer's `usage`, 0 if it is missing or invalid."""
    usage = answer.get("usage") if isinstance(answer, Mapping) else None
    value = usage.get(name) if isinstance(usage, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT:
        return value
    return 0
