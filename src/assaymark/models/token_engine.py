"""The interface that every engine of a local model implements: tokens in, log-probabilities or texts out.

`OwnEngine` (this package's engine in this process), `EnginePool` (several of them, here or on a cluster) and
`VllmEngine` implement it. Models on different engines differ from `LocalModel` only in the engine they start; no other
code depends on which engine it is.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from assaymark.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    StepObserver,
)
from assaymark.engine.options import EngineInfo
from assaymark.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowObserver
from assaymark.models.text.stops import StopTexts

SpanResult = SpanScore | SpanFailure
TextResult = GeneratedSequence | GenerationFailure
FollowText = Callable[[Sequence[int]], None]
"""Called with all tokens of a text that is being generated, after each new one."""


class ScoreQueue(Protocol):
    """Scores batches of spans one after another; each result carries the number of its batch, counted from 0."""

    def add(self, spans: SpanBatch, on_window: WindowObserver | None = None) -> Iterator[tuple[int, SpanResult]]:
        """Add a batch; yield results, also of earlier batches, until the next batch can be added."""

    def finish(self) -> Iterator[tuple[int, SpanResult]]:
        """Yield the results that are still missing."""


class TokenEngine(Protocol):
    """One model that scores and generates token sequences.

    Raises: ModelUnavailable from any method if the engine as a whole has failed or was closed.
    """

    @property
    def info(self) -> EngineInfo:
        """The engine's configuration, as recorded with each attempt of a run."""

    @property
    def n_workers(self) -> int:
        """The number of processes that answer."""

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """The defaults in the model's own generation_config."""

    def queue(self) -> ScoreQueue:
        """Return a new queue for scoring; unfinished work of an earlier queue is dropped."""

    def generate(
        self, prompts: Sequence[GenerationPrompt], stops: StopTexts, on_step: StepObserver | None = None
    ) -> Iterator[TextResult]:
        """Yield each prompt's continuations, or its failure, in any order, each as soon as it is finished.

        Raises: PlanError for token ids outside the vocabulary; UsageError for settings the engine does not support.
        """

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult | None]:
        """Yield None after each step of generating one continuation, and finally the result.

        An engine that does not generate step by step never calls `follow` and yields only the result.
        """

    def close(self) -> None:
        """Free weights and processes."""


class SequentialQueue:
    """The queue of an engine that finishes one batch before it accepts the next."""

    def __init__(self, score: Callable[[SpanBatch, WindowObserver | None], Iterator[SpanResult]]) -> None:
        self._score = score
        self._n_batches = 0

    def add(self, spans: SpanBatch, on_window: WindowObserver | None = None) -> Iterator[tuple[int, SpanResult]]:
        """Yield all results of a batch."""
        number, self._n_batches = self._n_batches, self._n_batches + 1
        for result in self._score(spans, on_window):
            yield number, result

    def finish(self) -> Iterator[tuple[int, SpanResult]]:
        """Yield nothing: every batch was finished by `add`."""
        yield from ()
