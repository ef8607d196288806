"""Several processes that answer for one run: `--workers N`, on one machine or a cluster, or those of a launcher.

The driver tokenises, looks into the cache and writes the store; only tokens travel. Sorted work is cut into contiguous
ranges, so that a beginning is computed in one place, and each worker takes the next range when it is free. A range
does not depend on who answers it, so results do not depend on N beyond float32's noise. A worker that dies gives its
range back.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evalstone.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
)
from evalstone.engine.options import EngineInfo
from evalstone.engine.spans import IntArray, SpanBatch, SpanFailure, SpanScore, WindowReport
from evalstone.errors import ModelUnavailable
from evalstone.models.stops import StopTexts
from evalstone.models.work_ranges import RangeReport, WorkRange, WrittenUnits, ranges_of, ranges_of_texts, total
from evalstone.models.worker_links import Links, Worker

__all__ = ["EnginePool"]

RANGES_PER_WORKER = 4  # so that one slow range does not hold up the end
SMALLEST_RANGE = 2048  # distinct tokens: below this, starting a range costs more than it spreads
SMALLEST_WRITTEN = 128  # texts in a range: fewer leave slots empty while its last texts are written
ATTEMPTS = 2  # how often a range is given out again after its worker died


@dataclass(slots=True, eq=False)
class _Task:
    """One range on its way: which of its units have results, and its last report."""

    part: WorkRange
    job: int
    done: set[int] = field(default_factory=set)
    sent: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # as the worker counts them
    report: RangeReport = field(default_factory=RangeReport)
    attempts: int = 0

    def left(self) -> IntArray:
        """Return the units that still need a result."""
        return np.asarray([i for i in self.part.indices.tolist() if i not in self.done], dtype=np.int64)


class EnginePool:
    """Several engines behind the face of one: `score`, `generate`, `info`, `generation_defaults`, `close`."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._n_workers = links.n_workers
        self._job = 0
        self._given: dict[Worker, _Task] = {}

    @property
    def info(self) -> EngineInfo:
        """What runs at each worker; they are alike.

        Raises: ModelUnavailable if no worker is left.
        """
        for worker in self._links.workers:
            if worker.info is not None:
                return worker.info
        raise self._links.lost("no worker is left")

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """What the model's own generation_config says.

        Raises: ModelUnavailable if no worker is left.
        """
        for worker in self._links.workers:
            if worker.defaults is not None:
                return worker.defaults
        raise self._links.lost("no worker is left")

    def score(
        self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None = None
    ) -> Iterator[SpanScore | SpanFailure]:
        """Yield the score of each span, or why it has none, as any worker knows it.

        Raises: ModelUnavailable if no worker is left, or a range kills its workers again and again.
        """
        n_tokens = int(spans.tokens.size) - len(spans)
        parts = ranges_of(spans, self._n_workers * RANGES_PER_WORKER, smallest=SMALLEST_RANGE)
        n_distinct = sum(part.n_distinct for part in parts)
        started = time.perf_counter()

        def order(left: IntArray) -> tuple[Any, ...]:
            part = spans.subset(left)
            return "score", part.tokens, part.offsets, part.n_scored

        def tell(so_far: RangeReport) -> None:
            if on_window is not None:
                seconds = time.perf_counter() - started
                on_window(WindowReport(so_far.n_tokens, n_tokens, so_far.n_distinct, n_distinct, seconds))

        for index, result in self._results(parts, order, tell):
            if isinstance(result, SpanScore):
                yield replace(result, index=index)
            else:
                yield SpanFailure(index, result.message.replace(f"span {result.index}", f"span {index}", 1))

    def generate(
        self,
        prompts: Sequence[GenerationPrompt],
        stops: StopTexts,
        on_step: Callable[[GenerationReport], None] | None = None,
    ) -> Iterator[GeneratedSequence | GenerationFailure]:
        """Yield each prompt's continuations, or why there is none, as any worker has finished them.

        Raises: ModelUnavailable as `score`.
        """
        units = WrittenUnits.of(prompts)
        most = max(self._n_workers, min(self._n_workers * RANGES_PER_WORKER, len(units) // SMALLEST_WRITTEN))
        parts = ranges_of_texts(units, min(most, len(units)))
        n_prompt = sum(part.n_distinct for part in parts)
        started = time.perf_counter()

        def order(left: IntArray) -> tuple[Any, ...]:
            wanted = units.grouped(left)
            chosen = [replace(prompts[place], repeats=repeats) for place, repeats in wanted.items()]
            return "write", chosen, stops.subset(list(wanted))

        def tell(so_far: RangeReport) -> None:
            if on_step is not None:
                counts = (so_far.n_written, so_far.n_slot_steps, so_far.n_sequences_done)
                seconds = time.perf_counter() - started
                on_step(GenerationReport(so_far.n_distinct, n_prompt, *counts, len(units), seconds))

        for unit, result in self._results(parts, order, tell):
            yield replace(result, index=int(units.places[unit]))

    def _results(
        self,
        parts: Sequence[WorkRange],
        order: Callable[[IntArray], tuple[Any, ...]],
        tell: Callable[[RangeReport], None],
    ) -> Iterator[tuple[int, Any]]:
        """Yield (unit, result) of all ranges.

        `order` says what a worker is told to have these units answered; `tell` hears how far all ranges are together.
        """
        self._job += 1
        tasks = [_Task(part, self._job) for part in parts]
        todo = tasks[::-1]
        while any(len(task.done) < task.part.indices.size for task in tasks):
            self._give_out(todo, order)
            for message, worker in self._links.messages():
                if message is None:
                    self._take_back(worker, todo)
                    continue
                yield from self._receive(message, worker)
                tell(total([task.report for task in tasks]))

    def _give_out(self, todo: list[_Task], order: Callable[[IntArray], tuple[Any, ...]]) -> None:
        """Give the next range to each worker that is free."""
        for worker in self._links.workers:
            if worker not in self._given and worker.info is not None and todo:
                task = self._given[worker] = todo.pop()
                task.sent = task.left()
                worker.send(order(task.sent))
        if not self._links.workers:
            raise self._links.lost("no worker is left")

    def _take_back(self, worker: Worker, todo: list[_Task]) -> None:
        """Put a dead worker's range back."""
        task = self._given.pop(worker, None)
        if task is None or task.job != self._job:
            return
        task.attempts += 1
        if task.attempts > ATTEMPTS:
            n_units = task.part.indices.size
            raise self._links.lost(f"{task.attempts} workers ended while they answered the same {n_units} asks")
        todo.append(task)

    def _receive(self, message: tuple[Any, ...], worker: Worker) -> Iterator[tuple[int, Any]]:
        """Yield the results in a worker's message.

        Raises: ModelUnavailable if the worker reports that answering as a whole failed.
        """
        if message[0] == "failed":
            raise ModelUnavailable(str(message[1]))
        task = self._given.get(worker)
        if message[0] != "results" or task is None:
            return
        _, results, report, is_last = message
        if is_last:
            del self._given[worker]
        if task.job != self._job:  # of an earlier call that was given up
            return
        whole = replace(report, n_tokens=task.part.n_tokens, n_distinct=task.part.n_distinct)
        task.report = whole if is_last else report
        for local, result in results:
            unit = int(task.sent[local])
            task.done.add(unit)
            yield unit, result

    def close(self) -> None:
        """End all workers."""
        self._given.clear()
        self._links.close()
