"""Score letter choices by the first token that a server generates, where it gives no log-probabilities of prompts.

One request per question asks for one token with its `top_logprobs` most probable alternatives. A choice's
log-probability is that of its letter as the first token, with or without a space before it, whichever is more probable.
Some servers list the generated token among the alternatives, some do not, and vLLM adds it to the list if it is not one
of the most probable ones: it counts with its own log-probability.

A letter that is not among the alternatives is less probable than all of them: its output has the lowest given
log-probability as an upper bound, marked as such, and no probability is made up. The generated token does not count for
this bound, because a drawn token may be less probable than a letter that is not listed. If no choice of a question is
among the alternatives, or the best one may be tied with one that is not, the question is undecided and fails.

Source: OpenAI's API reference (chat: `logprobs`, `top_logprobs`; completions: `logprobs`); llama.cpp's server (chat's
    form for completions too); vLLM (`return_tokens_as_token_ids`: `token_id:33`, with `bytes` beside it).
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.errors import MalformedAnswer, NonFiniteLogits, UsageError
from assaymark.models.server.arguments import OpenAIArguments
from assaymark.models.server.bodies import ROUNDING, Prompt, choice_of, count_of
from assaymark.models.server.failures import HttpFailure
from assaymark.models.server.http_calls import HttpCall
from assaymark.models.server.prompts import PromptMaker
from assaymark.models.text.spans import failed
from assaymark.records import BOUND, FIRST_TOKEN, JsonValue, LoglikelihoodQuery, Output, Request, RollingQuery

_MARKS = str.maketrans({"\u0120": " ", "\u2581": " ", "\u010a": "\n"})  # of byte-level BPE and SentencePiece
_BYTE = re.compile(r"<0x([0-7][0-9A-Fa-f])>")  # SentencePiece's token of an ASCII character that it does not know


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
    """The most probable first tokens.

    top: text -> log-probability in nats, with the generated token. bound: upper bound of all other tokens, in nats.
    n_context: tokens of the prompt; 0: unknown.
    """

    top: Mapping[str, float]
    bound: float
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
    return HttpCall(question, _body(arguments, prompt), read_first_token)


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


def read_first_token(answer: object) -> FirstToken:
    """Return the most probable first tokens in an answer.

    Raises: HttpFailure if there are none.
    """
    logprobs = choice_of(answer).get("logprobs")
    generated, listed = _pairs(logprobs) if isinstance(logprobs, Mapping) else ([], [])
    if not listed:
        raise HttpFailure(
            MalformedAnswer,
            "the answer contains no log-probabilities of the first token; omit top_logprobs, and have the questions "
            "answered by generation (--prompt_style cot)",
            shows_all=True,
        )
    top: dict[str, float] = {}
    for text, nats in (*listed, *generated):
        if not isinstance(text, str) or isinstance(nats, bool) or not isinstance(nats, int | float):
            raise HttpFailure(MalformedAnswer, f"top_logprobs contains {text!r:.40}: {nats!r:.40}")
        if not math.isfinite(nats):
            raise HttpFailure(NonFiniteLogits, f"the log-probabilities contain {nats}")
        if nats > ROUNDING:
            raise HttpFailure(MalformedAnswer, f"top_logprobs contains {text!r:.40}: {nats}; expected at most 0")
        top[text] = max(float(nats), top.get(text, -math.inf))  # parts of characters may share one text
    drawn = {text for text, _ in generated}
    others = [top[text] for text, _ in listed if isinstance(text, str) and text not in drawn]
    return FirstToken(top, min(others, default=max(top.values())), count_of(answer, "prompt_tokens"))


Pairs = list[tuple[object, object]]  # text and log-probability


def _pairs(logprobs: Mapping[str, object]) -> tuple[Pairs, Pairs]:
    """Return the generated token, if it is given, and its alternatives; none where the answer has another form."""
    of_chat = _first(logprobs.get("content"))
    if isinstance(of_chat, Mapping):
        alternatives = of_chat.get("top_logprobs")
        generated = [_pair(of_chat)] if of_chat.get("logprob") is not None else []
    else:
        alternatives = _first(logprobs.get("top_logprobs"))
        text, nats = _first(logprobs.get("tokens")), _first(logprobs.get("token_logprobs"))
        generated = [] if text is None or nats is None else [_pair({"token": text, "logprob": nats})]
    if isinstance(alternatives, Mapping):
        return generated, [_pair({"token": text, "logprob": nats}) for text, nats in alternatives.items()]
    listed = alternatives if isinstance(alternatives, list) else []
    return generated, [_pair(each) for each in listed if isinstance(each, Mapping)]


def _first(values: object) -> object:
    return values[0] if isinstance(values, list) and values else None


def _pair(token: Mapping[str, object]) -> tuple[object, object]:
    """Return a token's text without its tokenizer's marks, and its log-probability."""
    text, content = token.get("token"), token.get("bytes")
    if not isinstance(text, str):
        return text, token.get("logprob")
    if text.startswith("token_id:") and isinstance(content, list):
        text = bytes(content).decode("utf-8", "replace")
    elif byte := _BYTE.fullmatch(text):
        text = chr(int(byte[1], 16))
    return text.translate(_MARKS), token.get("logprob")


@dataclass(slots=True)
class FirstTokenTally:
    """Makes outputs from first tokens, and counts undecided questions."""

    n_questions: int = 0
    n_choices_outside: int = 0  # not among the given tokens
    n_undecided: int = 0  # questions that nothing decides
    n_elsewhere: int = 0  # questions whose most probable first token is no choice: the model would say something else

    def outputs(self, question: LetterQuestion, first: FirstToken) -> list[Output]:
        """Return one output per choice; all with an error where the question is undecided."""
        # a drawn token below the bound leaves open how probable its letter's other spelling is
        found = (
            max((nats for text, nats in first.top.items() if text.lstrip() == letter), default=None)
            for letter in question.letters
        )
        letter_nats = [None if nats is None or nats < first.bound else nats for nats in found]
        inside = [nats for nats in letter_nats if nats is not None]
        best = max(first.top, key=lambda text: first.top[text])
        other = _other_spelling(best, question.letters)
        is_another = other is not None and inside and letter_nats[other] != max(inside)
        n_outside, lowest, highest = len(letter_nats) - len(inside), first.bound, max(first.top.values())
        self.n_questions += 1
        self.n_choices_outside += n_outside
        plain = [
            Output(question.request.id, query.index, n_context_tokens=first.n_context, n_tokens=1)
            for query in question.queries
        ]
        if is_another:
            self.n_undecided += 1
            why = (
                f"undecided: the most probable first token is {best!r}, another spelling of a choice than the one that "
                "is scored; use --prompt_style cot"
            )
            return [failed(output, why, None) for output in plain]
        if not inside or (n_outside and max(inside) <= lowest):
            self.n_undecided += 1
            why = (
                f"undecided: {n_outside} of {len(letter_nats)} choices are not among the {len(first.top)} most "
                "probable first tokens; ask for more with top_logprobs=, if the server allows it, or use "
                "--prompt_style cot"
            )
            return [failed(output, why, None) for output in plain]
        self.n_elsewhere += max(inside) < highest
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
            "n_elsewhere": self.n_elsewhere,
        }


def _other_spelling(text: str, letters: Sequence[str]) -> int | None:
    """Return the position of the letter that a token is in another spelling: `b`, `(B`, `B.` or a full-width B."""
    bare = re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", text)).casefold()
    folded = [letter.casefold() for letter in letters]
    return None if text.strip() in letters or folded.count(bare) != 1 else folded.index(bare)


def _scored(plain: Output, nats: float | None, *, lowest: float, highest: float) -> Output:
    if nats is None:
        return replace(plain, total_nats=lowest, is_greedy=False, finish_reason=BOUND)
    return replace(plain, total_nats=nats, is_greedy=nats == highest, finish_reason=FIRST_TOKEN)
