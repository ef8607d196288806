"""Generate asks answered by the engine: equal ones written once, ends found on text, answers told as they finish."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalstone.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
)
from evalstone.engine.spans import WindowReport
from evalstone.errors import ModelError, NonFiniteLogits, Permanent, PromptTooLong, UsageError
from evalstone.models.model import OutputCache
from evalstone.models.text.generation_prompts import ConfigChoice, GenerationInput, prompt_of
from evalstone.models.text.stops import REPLACEMENT, StopTexts, final_text
from evalstone.models.token_engine import TokenEngine
from evalstone.records import GenerateQuery, JsonValue, Output, Request

CHUNK = 64_000_000  # characters: bounds memory; slots run dry at each end


@dataclass(frozen=True, slots=True)
class WritingRules:
    """What besides the asks decides a text: the tokenizer, where a thought ends, and whose defaults apply."""

    tokenizer: Any
    think_end: str | int | None = None
    choice: ConfigChoice = "model"


@dataclass(slots=True)
class Work:
    """Asks of one piece: outputs that are known without the model, and what is to be written for whom.

    wanted: cache key -> the asks and repeats that wait for it.
    """

    known: list[Output] = field(default_factory=list)
    wanted: dict[str, list[tuple[GenerationInput, int]]] = field(default_factory=dict)


def sort_out(queries: Sequence[GenerationInput], cache: OutputCache | None) -> Work:
    """Return what is known already, what cannot be asked, and what must be written."""
    work = Work()
    pairs = [(asked, repeat) for asked in queries for repeat in range(asked.settings.repeats)]
    kept = [asked.cache_key(repeat) for asked, repeat in pairs if asked.error is None and asked.is_kept]
    found = cache.find(list(dict.fromkeys(kept))) if cache is not None and kept else {}
    for asked, repeat in pairs:
        if asked.error is not None:
            work.known.append(asked.failure(repeat))
            continue
        key = asked.cache_key(repeat)
        earlier = found.get(key)
        if earlier is not None and earlier.text is not None:
            work.known.append(_again(earlier, asked, repeat))
        else:
            work.wanted.setdefault(key, []).append((asked, repeat))
    return work


def _again(earlier: Output, asked: GenerationInput, repeat: int) -> Output:
    return replace(
        earlier,
        request_id=asked.request_id,
        ask_index=asked.ask_index,
        repeat=repeat,
        n_cut_tokens=asked.n_cut_tokens,
        from_cache=True,
    )


class Generation:
    """One piece on its way: the engine's prompts and who waits for each."""

    def __init__(self, work: Work, rules: WritingRules, defaults: GenerationDefaults) -> None:
        self._rules = rules
        self._defaults = defaults
        own = rules.tokenizer.eos_token_id
        eos: frozenset[int] = frozenset() if own is None else frozenset({int(own)})
        self._waiting: dict[tuple[int, int], list[tuple[GenerationInput, int]]] = {}
        places: dict[tuple[str, int], int] = {}
        firsts: list[GenerationInput] = []
        repeats: list[list[int]] = []
        for waiting in work.wanted.values():
            asked, repeat = waiting[0]
            place = places.setdefault((asked.digest, asked.settings.seed), len(places))
            if place == len(firsts):
                firsts.append(asked)
                repeats.append([])
            repeats[place].append(repeat)
            self._waiting[place, repeat] = waiting
        pairs = zip(firsts, repeats, strict=True)
        self.prompts = [prompt_of(asked, wanted, defaults, rules.choice, eos) for asked, wanted in pairs]
        self.stops = StopTexts(tuple(asked.stops for asked in firsts), rules.think_end)

    def described(self) -> dict[str, JsonValue]:
        """Return what belongs to an attempt: whose defaults applied, what they say, what transformers wrote."""
        own = self._defaults
        return {
            "generation_config": self._rules.choice,
            "own": {
                "eos_ids": sorted(own.eos_ids),
                "repetition_penalty": own.repetition_penalty,
                **own.sampling,
                **own.other,
            },
            "n_by_transformers": sum(bool(prompt.other) for prompt in self.prompts),
        }

    def safe_text(self, tokens: Sequence[int]) -> str:
        """Return as much of the first prompt's text as later tokens cannot take back."""
        stops, think_end = self.stops.of_prompts[0], self._rules.think_end
        final = final_text(self._rules.tokenizer, tokens, stops, think_end)
        if think_end is not None and final.reasoning is None:
            return ""  # perhaps still the thought
        n_held = max(map(len, stops), default=1)
        return final.text[: max(0, len(final.text) - n_held)].rstrip(REPLACEMENT)

    def outputs(self, result: GeneratedSequence | GenerationFailure) -> Iterator[Output]:
        """Yield the outputs that a finished sequence answers."""
        waiting = self._waiting.pop((result.index, result.repeat))
        if isinstance(result, GenerationFailure):
            yield from (asked.failure(repeat, result.reason, result.kind.__name__) for asked, repeat in waiting)
            return
        final = final_text(self._rules.tokenizer, result.tokens, waiting[0][0].stops, self._rules.think_end)
        for asked, repeat in waiting:
            yield asked.output(repeat, final, len(result.tokens), result.finish_reason)


def pieces_of(requests: Sequence[Request], size: int = CHUNK) -> Iterator[list[Request]]:
    """Yield the requests that ask for text, in their order, in pieces of about `size` characters."""
    piece: list[Request] = []
    n_characters = 0
    for request in requests:
        if any(isinstance(query, GenerateQuery) for query in request.queries):
            piece.append(request)
            n_characters += sum(map(len, request.segments))
        if n_characters >= size:
            yield piece
            piece, n_characters = [], 0
    if piece:
        yield piece


def as_window(
    observe: Callable[[WindowReport], None], prompts: Sequence[GenerationPrompt]
) -> Callable[[GenerationReport], None]:
    """Return an observer of steps that tells `observe` in tokens: those written and those expected.

    Until sequences end, each is expected to take all it may; then as many as those that ended.
    """
    n_prompt = sum(int(p.tokens.size) * len(p.repeats) for p in prompts)
    most = sum(p.max_new_tokens * len(p.repeats) for p in prompts)

    def told(report: GenerationReport) -> None:
        each = most / max(report.n_sequences, 1)
        if report.n_sequences_done:
            each = min(each, report.n_generated / report.n_sequences_done)
        n_new = report.n_generated + round(each * (report.n_sequences - report.n_sequences_done))
        done = report.n_prompt_done + report.n_generated
        observe(WindowReport(done, n_prompt + n_new, done, report.n_prompt + n_new, report.seconds, report.note))

    return told


def first_text_query(request: Request) -> GenerateQuery:
    """Return the request's first generate ask.

    Raises: UsageError if it has none.
    """
    for query in request.queries:
        if isinstance(query, GenerateQuery):
            return query
    raise UsageError(f"{request.id} asks for no text")


def failure_of(output: Output) -> ModelError:
    """Return the error of an output that has no answer, as an exception."""
    kinds = {kind.__name__: kind for kind in (PromptTooLong, NonFiniteLogits)}
    return kinds.get(output.error_kind or "", Permanent)(output.error or "no answer")


def text_of(output: Output) -> str:
    """Return the text of an output.

    Raises: ModelError where there is no answer.
    """
    if output.text is None:
        raise failure_of(output)
    return output.text


def stream_pieces(engine: TokenEngine, writing: Generation) -> Iterator[str]:
    """Yield the one text of `writing` as it grows; what may still turn out to be part of a stop is held back.

    An engine that does not generate step by step gives the text in one piece.
    Raises: ModelError where there is no answer.
    """
    tokens: list[int] = []

    def follow(written: Sequence[int]) -> None:
        tokens[:] = written

    shown = ""
    for result in engine.stream(writing.prompts[0], writing.stops, follow):
        if result is not None:
            for output in writing.outputs(result):
                rest = text_of(output)[len(shown) :]
                if rest:
                    yield rest
            return
        text = writing.safe_text(tokens)
        if len(text) > len(shown) and text.startswith(shown):
            yield text[len(shown) :]
            shown = text
