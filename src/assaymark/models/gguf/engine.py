"""llama.cpp with the interface of our own engine: spans scored, prompts continued, token ids in and out.

Spans are sorted, so that a sequence shares the keys and values of the one before it as far as both are equal.
Log-probabilities are computed here from llama.cpp's logits, in float64. Texts are sampled and stopped by this package's
rules, one after another.
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from assaymark.engine.generation import (
    FinishReason,
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
    StepObserver,
    uniform,
)
from assaymark.engine.options import EngineInfo
from assaymark.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowObserver, WindowReport
from assaymark.engine.trie import sorted_order
from assaymark.errors import ModelUnavailable, NonFiniteLogits, PlanError, PromptTooLong, UsageError
from assaymark.models.gguf.llama_cpp import LlamaSession
from assaymark.models.text.stops import StopTexts
from assaymark.models.token_engine import FollowText, ScoreQueue, SequentialQueue, SpanResult, TextResult

__all__ = ["GgufEngine"]

REPORT_SECONDS = 0.2
TokenizerLike = object


class GgufEngine:
    """A `TokenEngine` around a session of llama.cpp."""

    n_workers = 1

    def __init__(
        self, session: LlamaSession, info: EngineInfo, defaults: GenerationDefaults, tokenizer: TokenizerLike
    ) -> None:
        self._session: LlamaSession | None = session
        self._tokenizer = tokenizer
        self.info = info
        self.generation_defaults = defaults

    def _open(self) -> LlamaSession:
        if self._session is None:
            raise ModelUnavailable("the engine is closed; load it again")
        return self._session

    def _check(self, tokens: npt.NDArray[np.integer]) -> None:
        """Raise PlanError for a token that the model does not have."""
        if tokens.size and (int(tokens.min()) < 0 or int(tokens.max()) >= self.info.vocab_size):
            raise PlanError(
                f"token ids reach {int(tokens.max())}; the model in the GGUF file has 0 to {self.info.vocab_size - 1}: "
                "is this the model's own tokenizer?"
            )

    # ------------------------------------------------------------------------------------------------ scoring

    def queue(self) -> ScoreQueue:
        """Return a queue that scores one batch after another."""
        return SequentialQueue(self.score)

    def score(self, spans: SpanBatch, on_window: WindowObserver | None = None) -> Iterator[SpanResult]:
        """Yield the score or the failure of each span.

        Raises: PlanError if a token is not in the vocabulary; ModelUnavailable if llama.cpp fails as a whole.
        """
        session = self._open()
        self._check(spans.tokens)
        total, done = int(spans.tokens.size) - len(spans), 0
        started = reported = time.perf_counter()
        for index in sorted_order(spans).tolist():
            tokens, n_scored = spans.sequence(index).tolist(), int(spans.n_scored[index])
            if len(tokens) - 1 > (self.info.max_length or len(tokens)):
                reason = f"{len(tokens) - 1} input tokens; the context has {self.info.max_length} positions"
                yield SpanFailure(index, PromptTooLong, reason)
                continue
            yield _score(index, session.logits(tokens[:-1], n_scored), tokens[-n_scored:])
            done += len(tokens) - 1
            now = time.perf_counter()
            if on_window is not None and (now - reported > REPORT_SECONDS or done == total):
                reported = now
                on_window(WindowReport(done, total, done, total, now - started))

    # --------------------------------------------------------------------------------------------- generation

    def generate(
        self, prompts: Sequence[GenerationPrompt], stops: StopTexts, on_step: StepObserver | None = None
    ) -> Iterator[TextResult]:
        """Yield each prompt's continuations, one after another; equal greedy ones are generated once.

        Raises: PlanError, UsageError for settings that are not supported.
        """
        for prompt in prompts:
            self._check(prompt.tokens)
            if prompt.other:
                name, value = next(iter(prompt.other.items()))
                raise UsageError(f"generation setting {name}={value} is not supported with --model gguf; omit it")
        n_prompt, n_sequences = sum(int(p.tokens.size) for p in prompts), sum(len(p.repeats) for p in prompts)
        started, n_read, n_generated, n_done = time.perf_counter(), 0, 0, 0
        for index in sorted(range(len(prompts)), key=lambda at: prompts[at].tokens.tolist()):
            prompt = prompts[index]
            first: TextResult | None = None
            for repeat in prompt.repeats:
                if first is None or prompt.sampling is not None:
                    first = self._continue(prompt, index, repeat, stops)
                    yield first
                else:
                    yield _again(first, repeat)
                n_done += 1
                n_generated += len(first.tokens) if isinstance(first, GeneratedSequence) else 0
            n_read += int(prompt.tokens.size)
            if on_step is not None:
                seconds = time.perf_counter() - started
                on_step(GenerationReport(n_read, n_prompt, n_generated, n_generated, n_done, n_sequences, seconds))

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult | None]:
        """Yield None after each token and finally the result."""
        self._check(prompt.tokens)
        yield from self._steps(prompt, 0, prompt.repeats[0], stops, follow)

    def _continue(self, prompt: GenerationPrompt, index: int, repeat: int, stops: StopTexts) -> TextResult:
        """Return one continuation, or its failure."""
        return next(each for each in self._steps(prompt, index, repeat, stops, None) if each is not None)

    def _steps(
        self, prompt: GenerationPrompt, index: int, repeat: int, stops: StopTexts, follow: FollowText | None
    ) -> Iterator[TextResult | None]:
        """Yield None after each token, finally the sequence or its failure."""
        session, has_stopped = self._open(), stops.check(self._tokenizer)
        limit = self.info.max_length
        if limit is not None and prompt.tokens.size + prompt.max_new_tokens > limit:
            reason = f"{prompt.tokens.size} tokens and {prompt.max_new_tokens} to generate; the context has {limit}"
            yield GenerationFailure(index, repeat, PromptTooLong, reason)
            return
        tokens: list[int] = prompt.tokens.tolist()
        generated: list[int] = []
        reason_of_end: FinishReason = "length"
        while len(generated) < prompt.max_new_tokens:
            row = session.logits([*tokens, *generated], 1)[0]
            if not np.isfinite(row.max()):
                yield GenerationFailure(index, repeat, NonFiniteLogits, "logits are not finite")
                return
            generated.append(_choose(row, prompt, repeat, tokens, generated))
            if follow is not None:
                follow(generated)
            if generated[-1] in prompt.eos_ids:
                reason_of_end = "eos"
                break
            if has_stopped(index, repeat, generated):
                reason_of_end = "stop"
                break
            yield None
        yield GeneratedSequence(index, repeat, tuple(generated), reason_of_end)

    def close(self) -> None:
        """Free the weights."""
        if self._session is not None:
            self._session.close()
        self._session = None


def _score(index: int, logits: npt.NDArray[np.float32], targets: Sequence[int]) -> SpanScore | SpanFailure:
    """Return the sum of the targets' log-probabilities. Shapes: logits [n_scored, vocabulary]."""
    rows = logits.astype(np.float64)
    best = rows.max(axis=1)
    own = rows[np.arange(len(targets)), list(targets)]
    total = float((own - best - np.log(np.exp(rows - best[:, None]).sum(axis=1))).sum())
    if not np.isfinite(total):
        return SpanFailure(index, NonFiniteLogits, "log-probabilities are not finite; use a file of another format")
    return SpanScore(index, total, bool((rows.argmax(axis=1) == list(targets)).all()))


def _choose(
    row: npt.NDArray[np.float32], prompt: GenerationPrompt, repeat: int, before: list[int], generated: list[int]
) -> int:
    """Return the next token; random numbers are those of our own engine, so equal logits give equal texts."""
    if prompt.repetition_penalty != 1.0:
        seen = np.unique([*before, *generated])
        row[seen] = np.where(
            row[seen] < 0, row[seen] * prompt.repetition_penalty, row[seen] / prompt.repetition_penalty
        )
    if prompt.sampling is None:
        return int(row.argmax())
    from assaymark.engine.sampling import choose_one

    return choose_one(row, prompt.sampling, uniform(prompt.seed, prompt.key, repeat, len(generated)))


def _again(first: TextResult, repeat: int) -> TextResult:
    if isinstance(first, GeneratedSequence):
        return GeneratedSequence(first.index, repeat, first.tokens, first.finish_reason)
    return GenerationFailure(first.index, repeat, first.kind, first.reason)
