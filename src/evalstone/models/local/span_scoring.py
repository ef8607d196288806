"""Scored asks on their way through an engine: pieces of a run's asks go in one after another, outputs come out.

One engine scores a piece before it takes the next. A pool of workers begins the next piece while the last ranges of
the one before are being scored, so an output may belong to an earlier piece than the last one put in.
"""

from collections.abc import Callable, Iterator, Sequence

from evalstone.engine.spans import SpanScore
from evalstone.models.model import OutputCache
from evalstone.models.progress import ProgressTally
from evalstone.models.text.spans import Asked, Pending, Span, answered_before, span_batch
from evalstone.models.token_engine import ScoreQueue, SpanResult, TokenEngine
from evalstone.records import Output
from evalstone.stopping import StopAfterReports, under_way

__all__ = ["SpanScoring"]


class SpanScoring:
    """All scored asks of one call of `answer`; the engine is only asked for when there is something to score."""

    def __init__(
        self,
        engine: Callable[[], TokenEngine],
        cache: OutputCache | None,
        tally: ProgressTally,
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._tally = tally
        self._pending = Pending()
        self._queue: ScoreQueue | None = None
        self._n_workers = 1
        self._n_batches = 0
        self._spans: dict[tuple[int, int], Span] = {}  # that lack their result, by batch and place in it

    def take(self, queries: Sequence[Asked]) -> Iterator[Output]:
        """Take a piece; yield the outputs that are known, until the next piece may come."""
        self._tally.read(len(queries))
        unknown: list[Asked] = []
        yield from answered_before(queries, self._cache, unknown)
        ready, spans = self._pending.add(unknown)
        yield from map(self._pending.answer, ready)
        if not spans:
            return
        if self._queue is None:
            engine = self._engine()
            self._queue, self._n_workers = engine.queue(), engine.n_workers
        self._spans |= {(self._n_batches, place): span for place, span in enumerate(spans)}
        self._n_batches += 1
        on_window = StopAfterReports(self._tally.on_window(), self._n_workers)
        with under_way():
            yield from self._outputs(self._queue.add(span_batch(spans), on_window=on_window))

    def finish(self) -> Iterator[Output]:
        """Yield the outputs that are still lacking."""
        if self._queue is not None:
            with under_way():
                yield from self._outputs(self._queue.finish())

    def _outputs(self, results: Iterator[tuple[int, SpanResult]]) -> Iterator[Output]:
        """Yield the outputs that these results complete."""
        for number, result in results:
            span = self._spans.pop((number, result.index))
            if isinstance(result, SpanScore):
                yield from map(self._pending.answer, self._pending.scored(span, result.total_nats, result.is_greedy))
                continue
            yield from (asked.failure(result.reason, result.kind.__name__) for asked in self._pending.failed(span))
