"""Scored asks on their way through an engine: pieces of a run's asks go in one after another, outputs come out.

One engine scores a piece before it takes the next. A pool of workers begins the next piece while the last ranges of
the one before are being scored, so an output may belong to an earlier piece than the last one put in.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from evalstone.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowReport
from evalstone.models.asked_spans import Asked, Pending, Span, answered_before, span_batch
from evalstone.models.model import OutputCache
from evalstone.models.progress import ProgressTally
from evalstone.models.vllm_engine import VllmEngine
from evalstone.models.workers import EnginePool
from evalstone.records import Output
from evalstone.stopping import StopAfterReports, under_way

if TYPE_CHECKING:
    from evalstone.engine.engine import Engine

__all__ = ["SpanScoring"]

Result = tuple[int, SpanScore | SpanFailure]  # the number of a batch, and what became of one of its spans


class _Line(Protocol):
    """What takes batches of spans in a row."""

    def add(self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None = None) -> Iterator[Result]:
        """Take a batch; yield what is known until the next may come."""

    def finish(self) -> Iterator[Result]:
        """Yield what batches still lack."""


class _OneByOne:
    """The line of a single engine."""

    def __init__(self, engine: "Engine | VllmEngine") -> None:
        self._engine = engine
        self._n_batches = 0

    def add(self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None = None) -> Iterator[Result]:
        """Yield all results of a batch."""
        number, self._n_batches = self._n_batches, self._n_batches + 1
        for result in self._engine.score(spans, on_window=on_window):
            yield number, result

    def finish(self) -> Iterator[Result]:
        """Yield nothing: no batch lacks any."""
        yield from ()


class SpanScoring:
    """All scored asks of one call of `answer`; the engine is only asked for when there is something to score."""

    def __init__(
        self,
        engine: "Callable[[], Engine | EnginePool | VllmEngine]",
        cache: OutputCache | None,
        tally: ProgressTally,
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._tally = tally
        self._pending = Pending()
        self._line: _Line | None = None
        self._n_workers = 1
        self._n_batches = 0
        self._spans: dict[tuple[int, int], Span] = {}  # that lack their result, by batch and place in it

    def take(self, asks: Sequence[Asked]) -> Iterator[Output]:
        """Take a piece; yield the outputs that are known, until the next piece may come."""
        self._tally.read(len(asks))
        unknown: list[Asked] = []
        yield from answered_before(asks, self._cache, unknown)
        ready, spans = self._pending.add(unknown)
        yield from map(self._pending.answer, ready)
        if not spans:
            return
        if self._line is None:
            engine = self._engine()
            if isinstance(engine, EnginePool):
                self._line, self._n_workers = engine.line(), engine.n_workers
            else:
                self._line = _OneByOne(engine)
        self._spans |= {(self._n_batches, place): span for place, span in enumerate(spans)}
        self._n_batches += 1
        on_window = StopAfterReports(self._tally.on_window(), self._n_workers)
        with under_way():
            yield from self._outputs(self._line.add(span_batch(spans), on_window=on_window))

    def finish(self) -> Iterator[Output]:
        """Yield the outputs that are still lacking."""
        if self._line is not None:
            with under_way():
                yield from self._outputs(self._line.finish())

    def _outputs(self, results: Iterator[Result]) -> Iterator[Output]:
        """Yield the outputs that these results complete."""
        for number, result in results:
            span = self._spans.pop((number, result.index))
            if isinstance(result, SpanScore):
                yield from map(self._pending.answer, self._pending.scored(span, result.total_nats, result.is_greedy))
                continue
            yield from (asked.failure(result.reason, result.kind.__name__) for asked in self._pending.failed(span))
