"""Generate queries answered by the engine: equal ones are generated once, and outputs are yielded as they finish."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from assaymark.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
)
from assaymark.engine.spans import WindowReport
from assaymark.errors import ModelError, NonFiniteLogits, Permanent, PromptTooLong, UsageError
from assaymark.models.model import OutputCache
from assaymark.models.text.generation_prompts import ConfigChoice, GenerationInput, prompt_of
from assaymark.models.text.reasoning import ends_in_reasoning, opened_reasoning
from assaymark.models.text.stops import REPLACEMENT, FinalText, StopTexts, final_text
from assaymark.models.token_engine import TokenEngine
from assaymark.records import GenerateQuery, JsonValue, Output, Request

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LONGEST_TAG = 32  # tokens of a prompt's end that may open the reasoning, with white space after it
CHUNK = 64_000_000  # characters: bounds memory; slots become idle at the end of each piece


@dataclass(frozen=True, slots=True)
class GenerationRules:
    """The rules that decide a text besides its query: the tokenizer, the end of reasoning, and whose defaults apply."""

    tokenizer: "PreTrainedTokenizerBase"
    think_end: str | int | None = None
    choice: ConfigChoice = "model"


@dataclass(slots=True)
class Work:
    """The queries of one piece: outputs known without the model, and the texts still to be generated.

    wanted: cache key -> the queries and repeats that wait for that text.
    """

    known: list[Output] = field(default_factory=list)
    wanted: dict[str, list[tuple[GenerationInput, int]]] = field(default_factory=dict)


def sort_out(queries: Sequence[GenerationInput], cache: OutputCache | None) -> Work:
    """Return the outputs that are already known or failed, and the texts that must be generated."""
    work = Work()
    pairs = [(prepared, repeat) for prepared in queries for repeat in range(prepared.settings.repeats)]
    keys = [
        prepared.cache_key(repeat) for prepared, repeat in pairs if prepared.error is None and prepared.is_cacheable
    ]
    cached = cache.find(list(dict.fromkeys(keys))) if cache is not None and keys else {}
    for prepared, repeat in pairs:
        if prepared.error is not None:
            work.known.append(prepared.failure(repeat))
            continue
        key = prepared.cache_key(repeat)
        earlier = cached.get(key)
        if earlier is not None and earlier.text is not None:
            work.known.append(_again(earlier, prepared, repeat))
        else:
            work.wanted.setdefault(key, []).append((prepared, repeat))
    return work


def _again(earlier: Output, prepared: GenerationInput, repeat: int) -> Output:
    return replace(
        earlier,
        request_id=prepared.request_id,
        ask_index=prepared.ask_index,
        repeat=repeat,
        n_cut_tokens=prepared.n_cut_tokens,
        from_cache=True,
    )


class Generation:
    """One piece in progress: the engine's prompts and the queries that wait for each."""

    def __init__(self, work: Work, rules: GenerationRules, defaults: GenerationDefaults) -> None:
        self._rules = rules
        self._defaults = defaults
        own = rules.tokenizer.eos_token_id
        eos: frozenset[int] = frozenset() if own is None else frozenset({int(own)})
        self._waiting: dict[tuple[int, int], list[tuple[GenerationInput, int]]] = {}
        positions: dict[tuple[str, int], int] = {}
        firsts: list[GenerationInput] = []
        repeats: list[list[int]] = []
        for waiting in work.wanted.values():
            prepared, repeat = waiting[0]
            position = positions.setdefault((prepared.digest, prepared.settings.seed), len(positions))
            if position == len(firsts):
                firsts.append(prepared)
                repeats.append([])
            repeats[position].append(repeat)
            self._waiting[position, repeat] = waiting
        pairs = zip(firsts, repeats, strict=True)
        self.prompts = [prompt_of(prepared, wanted, defaults, rules.choice, eos) for prepared, wanted in pairs]
        self.stops = StopTexts(tuple(prepared.stops for prepared in firsts), rules.think_end)

    def described(self) -> dict[str, JsonValue]:
        """Return facts recorded with an attempt: whose defaults applied, their values, texts left to transformers."""
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
        """Return the part of the first prompt's text that later tokens cannot change."""
        stops, think_end = self.stops.of_prompts[0], self._rules.think_end
        final = final_text(self._rules.tokenizer, tokens, stops, think_end)
        if think_end is not None and final.reasoning is None:
            return ""  # the reasoning may still continue
        n_held = max(map(len, stops), default=1)
        return final.text[: max(0, len(final.text) - n_held)].rstrip(REPLACEMENT)

    def outputs(self, result: GeneratedSequence | GenerationFailure) -> Iterator[Output]:
        """Yield the outputs that a finished sequence completes."""
        waiting = self._waiting.pop((result.index, result.repeat))
        if isinstance(result, GenerationFailure):
            yield from (prepared.failure(repeat, result.reason, result.kind.__name__) for prepared, repeat in waiting)
            return
        tokenizer, first = self._rules.tokenizer, waiting[0][0]
        final = final_text(tokenizer, result.tokens, first.stops, self._rules.think_end)
        opened = opened_reasoning(str(tokenizer.decode(first.tokens[-LONGEST_TAG:].tolist())))
        if ends_in_reasoning(final, self._rules.think_end, is_cut=result.finish_reason == "length", opened=opened):
            whole = str(tokenizer.decode(list(result.tokens), skip_special_tokens=True))
            final = FinalText("", whole, is_unfinished=True)
        for prepared, repeat in waiting:
            yield prepared.output(repeat, final, len(result.tokens), result.finish_reason)


def pieces_of(requests: Sequence[Request]) -> Iterator[list[Request]]:
    """Yield the requests that have a generate query, in order, in pieces of about CHUNK characters."""
    piece: list[Request] = []
    n_characters = 0
    for request in requests:
        if any(isinstance(query, GenerateQuery) for query in request.queries):
            piece.append(request)
            n_characters += sum(map(len, request.segments)) + sum(len(image.data) for image in request.images)
        if n_characters >= CHUNK:
            yield piece
            piece, n_characters = [], 0
    if piece:
        yield piece


def as_window(
    observe: Callable[[WindowReport], None], prompts: Sequence[GenerationPrompt]
) -> Callable[[GenerationReport], None]:
    """Return an observer of steps that reports to `observe` in tokens: those generated and those expected.

    Until the first sequence ends, each is expected to reach its maximum length; afterwards a token is the last one as
    often as it was so far. The time left follows from the tokens generated since the first, since prompts are read many
    times faster.
    """
    n_prompt = sum(int(p.tokens.size) * len(p.repeats) for p in prompts)
    most = sum(p.max_new_tokens * len(p.repeats) for p in prompts)
    first: list[tuple[float, int]] = []  # seconds and tokens when the first were generated

    def on_step(report: GenerationReport) -> None:
        longest, n_open = most / max(report.n_sequences, 1), report.n_sequences - report.n_sequences_done
        at_most = longest * n_open - max(report.n_generated - longest * report.n_sequences_done, 0.0)
        expected = (
            min(at_most, report.n_generated / report.n_sequences_done * n_open) if report.n_sequences_done else at_most
        )
        n_new, left = report.n_generated + round(expected), None
        if report.n_generated and not first:
            first.append((report.seconds, report.n_generated))
        elif first and report.n_generated > first[0][1]:
            each = (report.seconds - first[0][0]) / (report.n_generated - first[0][1])
            left = (each * expected, each * at_most)
        done, n_distinct = report.n_prompt_done + report.n_generated, report.n_prompt + n_new
        observe(WindowReport(done, n_prompt + n_new, done, n_distinct, report.seconds, report.note, left))

    return on_step


def for_one_text(request: Request) -> Request:
    """Return a request for one text of its first generate query. Raises: UsageError if it has none."""
    for query in request.queries:
        if isinstance(query, GenerateQuery):
            return replace(request, queries=(replace(query, settings=replace(query.settings, repeats=1)),))
    raise UsageError(f"{request.id} has no generate query")


def failure_of(output: Output) -> ModelError:
    """Return the error of a failed output, as an exception."""
    kinds = {kind.__name__: kind for kind in (PromptTooLong, NonFiniteLogits)}
    return kinds.get(output.error_kind or "", Permanent)(output.error or "no answer")


def text_of(output: Output) -> str:
    """Return the text of an output.

    Raises: ModelError if the output failed.
    """
    if output.text is None:
        raise failure_of(output)
    return output.text


def stream_pieces(engine: TokenEngine, generation: Generation) -> Iterator[str]:
    """Yield the one text of `generation` as it grows; what may still become part of a stop text is held back.

    An engine that does not generate step by step yields the text in one piece.
    Raises: ModelError if the query failed.
    """
    tokens: list[int] = []

    def follow(generated: Sequence[int]) -> None:
        tokens[:] = generated

    sent = ""
    for result in engine.stream(generation.prompts[0], generation.stops, follow):
        if result is not None:
            for output in generation.outputs(result):
                rest = text_of(output)[len(sent) :]
                if rest:
                    yield rest
            return
        text = generation.safe_text(tokens)
        if len(text) > len(sent) and text.startswith(sent):
            yield text[len(sent) :]
            sent = text
