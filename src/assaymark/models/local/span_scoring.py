"""Scored queries on their way through an engine: pieces of queries go in one after another, outputs come out.

One engine scores a piece before it accepts the next. A pool of workers begins the next piece while the last ranges of
the previous one are being scored, so an output may belong to an earlier piece than the one added last.
"""

from collections.abc import Callable, Iterator, Sequence

from assaymark.engine.spans import SpanScore
from assaymark.models.model import OutputCache
from assaymark.models.progress import ProgressTally
from assaymark.models.text.spans import Pending, PreparedQuery, TokenSpan, known_outputs, span_batch
from assaymark.models.token_engine import ScoreQueue, SpanResult, TokenEngine
from assaymark.records import Output
from assaymark.stopping import StopAfterReports, under_way


class SpanScoring:
    """All scored queries of one call of `answer`; the engine is only requested when there is something to score."""

    def __init__(self, engine: Callable[[], TokenEngine], cache: OutputCache | None, tally: ProgressTally) -> None:
        self._engine = engine
        self._cache = cache
        self._tally = tally
        self._pending = Pending()
        self._queue: ScoreQueue | None = None
        self._n_workers = 1
        self._n_batches = 0
        self._spans: dict[tuple[int, int], TokenSpan] = {}  # spans without a result yet, by batch and position in it

    def take(self, queries: Sequence[PreparedQuery]) -> Iterator[Output]:
        """Add a piece; yield the outputs that are known, until the next piece can be added."""
        self._tally.read(len(queries))
        unknown: list[PreparedQuery] = []
        yield from known_outputs(queries, self._cache, unknown)
        ready, spans = self._pending.add(unknown)
        yield from map(self._pending.answer, ready)
        if not spans:
            return
        if self._queue is None:
            engine = self._engine()
            self._queue, self._n_workers = engine.queue(), engine.n_workers
        self._spans |= {(self._n_batches, position): span for position, span in enumerate(spans)}
        self._n_batches += 1
        on_window = StopAfterReports(self._tally.on_window(), self._n_workers)
        with under_way():
            yield from self._outputs(self._queue.add(span_batch(spans), on_window=on_window))

    def finish(self) -> Iterator[Output]:
        """Yield the outputs that are still missing."""
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
            yield from (
                prepared.failure(result.reason, result.kind.__name__) for prepared in self._pending.failed(span)
            )
