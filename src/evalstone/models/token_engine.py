"""What turns tokens into log-probabilities and texts: the interface that every engine of a local model implements.

`OwnEngine` (this package's engine in this process), `EnginePool` (several of them, here or on a cluster) and
`VllmEngine` implement it. A model that is answered by another engine differs from `LocalModel` only in the engine it
starts; nothing asks which one it is.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from evalstone.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    StepObserver,
)
from evalstone.engine.options import EngineInfo
from evalstone.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowObserver
from evalstone.models.text.stops import StopTexts

__all__ = ["FollowText", "ScoreQueue", "SequentialQueue", "SpanResult", "TextResult", "TokenEngine"]

SpanResult = SpanScore | SpanFailure
TextResult = GeneratedSequence | GenerationFailure
FollowText = Callable[[Sequence[int]], None]
"""Called with all tokens of a text that is being generated, after each new one."""


class ScoreQueue(Protocol):
    """Scores batches of spans in a row; results say to which batch, counted from 0, they belong."""

    def add(self, spans: SpanBatch, on_window: WindowObserver | None = None) -> Iterator[tuple[int, SpanResult]]:
        """Take a batch; yield results, of earlier batches too, until the next batch may come."""

    def finish(self) -> Iterator[tuple[int, SpanResult]]:
        """Yield the results that are still missing."""


class TokenEngine(Protocol):
    """One model that scores and generates token sequences.

    Raises: ModelUnavailable from any method where the engine as a whole has failed or was closed.
    """

    @property
    def info(self) -> EngineInfo:
        """What runs, as it is recorded with each attempt of a run."""

    @property
    def n_workers(self) -> int:
        """How many processes answer."""

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """What the model's own generation_config says."""

    def queue(self) -> ScoreQueue:
        """Return a new queue for scoring; what an earlier one left unanswered is given up."""

    def generate(
        self, prompts: Sequence[GenerationPrompt], stops: StopTexts, on_step: StepObserver | None = None
    ) -> Iterator[TextResult]:
        """Yield each prompt's continuations, or why there is none, in any order and as soon as each is finished.

        Raises: PlanError for foreign tokens; UsageError for settings that the engine does not have.
        """

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult | None]:
        """Yield None after each step of generating one continuation, and at last the result.

        An engine that does not generate step by step calls `follow` never and yields the result alone.
        """

    def close(self) -> None:
        """Free weights and processes."""


class SequentialQueue:
    """The queue of an engine that finishes one batch before it takes the next."""

    def __init__(self, score: Callable[[SpanBatch, WindowObserver | None], Iterator[SpanResult]]) -> None:
        self._score = score
        self._n_batches = 0

    def add(self, spans: SpanBatch, on_window: WindowObserver | None = None) -> Iterator[tuple[int, SpanResult]]:
        """Yield all results of a batch."""
        number, self._n_batches = self._n_batches, self._n_batches + 1
        for result in self._score(spans, on_window):
            yield number, result

    def finish(self) -> Iterator[tuple[int, SpanResult]]:
        """Yield nothing: no batch lacks any."""
        yield from ()
