"""Score letter choices by the first token that a server generates, where it gives no log-probabilities of prompts.

One request per question asks for one token with its `top_logprobs` most probable alternatives. A choice's
log-probability is that of its letter as the first token, with or without a space before it, whichever is more probable.
A letter that is not among the alternatives is less probable than all of them: its output has the lowest given
log-probability as an upper bound, marked as such, and no probability is made up. If no choice of a question is among
them, or the best one may be tied with one that is not, nothing decides the question, and it fails.

Source: OpenAI's API reference (chat: `logprobs`, `top_logprobs`; completions: `logprobs`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from assaymark.errors import MalformedAnswer, NonFiniteLogits, UsageError
from assaymark.models.server.arguments import OpenAIArguments
from assaymark.models.server.bodies import ROUNDING, Prompt, choice_of, count_of
from assaymark.models.server.failures import HttpFailure
from assaymark.models.server.http_calls import HttpCall
from assaymark.models.server.prompts import PromptMaker
from assaymark.models.text.spans import failed
from assaymark.records import BOUND, FIRST_TOKEN, JsonValue, LoglikelihoodQuery, Output, Request, RollingQuery

__all__ = ["FirstToken", "FirstTokenTally", "LetterQuestion", "first_token_call", "questions_of", "read_first_token"]


@dataclass(frozen=True, slots=True)
class LetterQuestion:
    """The choices of one request after one context. letters: of the queries, in their order."""

    request: Request
    queries: tuple[LoglikelihoodQuery, ...]
    letters: tuple[str, ...]

    @property
    def text(self) -> str:
        """The context as text."""
        own = self.queries[0].segments
        return "".join(self.request.segments if own is None else own)

    def failures(self, failure: HttpFailure) -> list[Output]:
        """Return the outputs of a request that failed."""
        empty = [Output(self.request.id, query.index) for query in self.queries]
        return [failed(output, failure.message, failure.error.__name__) for output in empty]


@dataclass(frozen=True, slots=True)
class FirstToken:
    """The most probable first tokens: text -> log-probability in nats. n_context: tokens of the prompt; 0: unknown."""

    top: Mapping[str, float]
    n_context: int


def questions_of(requests: Sequence[Request], *, is_chat: bool) -> list[LetterQuestion]:
    """Return the questions of requests; nothing is sent.

    Raises: UsageError for a query that the first token does not decide: a choice that is not a single letter or digit,
        or a context that is not a conversation where messages are sent.
    """
    questions: list[LetterQuestion] = []
    for request in requests:
        contexts: dict[object, list[LoglikelihoodQuery]] = {}
        for query in request.queries:
            if isinstance(query, RollingQuery):
                raise UsageError(f"{request.id}: the first token's log-probabilities do not give those of a whole text")
            if isinstance(query, LoglikelihoodQuery):
                contexts.setdefault(query.segments, []).append(query)
        for segments, queries in contexts.items():
            if segments is not None and is_chat:
                raise UsageError(
                    f"{request.id} has a context of its own for some choices (as with --circular), which a chat "
                    "endpoint cannot be sent; use a completions endpoint (--model local-completions)"
                )
            questions.append(LetterQuestion(request, tuple(queries), _letters(request, queries)))
    return questions


def _letters(request: Request, queries: Sequence[LoglikelihoodQuery]) -> tuple[str, ...]:
    letters = tuple(query.continuation.strip() for query in queries)
    strange = next((letter for letter in letters if len(letter) != 1), None)
    if strange is not None:
        raise UsageError(
            f"{request.id}: choice {strange[:60]!r} is not a single letter, and top_logprobs decides by the first "
            "token; add --prompt_style letter, or omit the task"
        )
    if len(set(letters)) < len(letters):
        raise UsageError(f"{request.id}: two choices have the same letter: {', '.join(letters)}")
    return letters


def first_token_call(prompts: PromptMaker, question: LetterQuestion) -> HttpCall[LetterQuestion, FirstToken]:
    """Return the call that asks a question: its context as text, or as messages."""
    arguments = prompts.arguments
    prompt = prompts.context_of(question.request) if arguments.is_chat else question.text
    read = partial(read_first_token, is_chat=arguments.is_chat)
    return HttpCall(question, _body(arguments, prompt), read)


def _body(arguments: OpenAIArguments, prompt: Prompt) -> dict[str, object]:
    """Return the request for one token with the log-probabilities of the most probable ones."""
    n_top = arguments.top_logprobs
    if not arguments.is_chat:
        body: dict[str, object] = {"prompt": prompt, "max_tokens": 1, "logprobs": n_top}
    else:
        limit = "max_completion_tokens" if arguments.provider.takes_new_limit else "max_tokens"
        body = {"messages": prompt, limit: 1, "logprobs": True, "top_logprobs": n_top}
    seed = {"seed": arguments.seed} if arguments.provider.takes_seed else {}
    return {"model": arguments.model, "temperature": 0, **seed, **body}


def read_first_token(answer: object, *, is_chat: bool) -> FirstToken:
    """Return the most probable first tokens in an answer.

    Raises: HttpFailure if there are none.
    """
    logprobs = choice_of(answer).get("logprobs")
    pairs = list(_pairs(logprobs, is_chat=is_chat)) if isinstance(logprobs, Mapping) else []
    if not pairs:
        raise HttpFailure(
            MalformedAnswer,
            "the answer contains no log-probabilities of the first token; omit top_logprobs, and have the questions "
            "answered by generation (--prompt_style cot)",
            shows_all=True,
        )
    top: dict[str, float] = {}
    for text, nats in pairs:
        if not isinstance(text, str) or isinstance(nats, bool) or not isinstance(nats, int | float):
            raise HttpFailure(MalformedAnswer, f"top_logprobs contains {text!r:.40}: {nats!r:.40}")
        if not math.isfinite(nats):
            raise HttpFailure(NonFiniteLogits, f"the log-probabilities contain {nats}")
        if nats > ROUNDING:
            raise HttpFailure(MalformedAnswer, f"top_logprobs contains {text!r:.40}: {nats}; expected at most 0")
        top[text] = max(float(nats), top.get(text, -math.inf))  # parts of characters may share one text
    return FirstToken(top, count_of(answer, "prompt_tokens"))


def _pairs(logprobs: Mapping[str, object], *, is_chat: bool) -> Iterator[tuple[object, object]]:
    """Yield text and log-probability of each alternative; nothing where the answer has another form."""
    tokens = logprobs.get("content" if is_chat else "top_logprobs")
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    if is_chat:
        alternatives = first.get("top_logprobs") if isinstance(first, Mapping) else None
        for alternative in alternatives if isinstance(alternatives, list) else ():
            if isinstance(alternative, Mapping):
                yield alternative.get("token"), alternative.get("logprob")
    elif isinstance(first, Mapping):
        yield from first.items()


@dataclass(slots=True)
class FirstTokenTally:
    """Makes outputs of first tokens, and counts what they leave open."""

    n_questions: int = 0
    n_choices_outside: int = 0  # not among the given tokens
    n_undecided: int = 0  # questions that nothing decides

    def outputs(self, question: LetterQuestion, first: FirstToken) -> list[Output]:
        """Return one output per choice; all with an error where the question is undecided."""
        letter_nats = [_nats_of(letter, first.top) for letter in question.letters]
        inside = [nats for nats in letter_nats if nats is not None]
        n_outside, lowest, highest = len(letter_nats) - len(inside), min(first.top.values()), max(first.top.values())
        self.n_questions += 1
        self.n_choices_outside += n_outside
        plain = [
            Output(question.request.id, query.index, n_context_tokens=first.n_context, n_tokens=1)
            for query in question.queries
        ]
        if not inside or (n_outside and max(inside) <= lowest):
            self.n_undecided += 1
            why = (
                f"undecided: {n_outside} of {len(letter_nats)} choices are not among the {len(first.top)} most "
                "probable first tokens; ask for more with top_logprobs=, if the server allows it, or use "
                "--prompt_style cot"
            )
            return [failed(output, why, None) for output in plain]
        return [
            _scored(output, nats, lowest=lowest, highest=highest)
            for output, nats in zip(plain, letter_nats, strict=True)
        ]

    def facts(self, n_top: int) -> dict[str, JsonValue]:
        """Return the counts, to be recorded with an attempt."""
        return {
            "top_logprobs": n_top,
            "n_questions": self.n_questions,
            "n_choices_outside": self.n_choices_outside,
            "n_undecided": self.n_undecided,
        }


def _nats_of(letter: str, top: Mapping[str, float]) -> float | None:
    """Return the log-probability of a letter, with or without a space before it; None if neither is given."""
    return max((top[text] for text in (letter, f" {letter}") if text in top), default=None)


def _scored(plain: Output, nats: float | None, *, lowest: float, highest: float) -> Output:
    if nats is None:
        return replace(plain, total_nats=lowest, is_greedy=False, finish_reason=BOUND)
    return replace(plain, total_nats=nats, is_greedy=nats == highest, finish_reason=FIRST_TOKEN)
