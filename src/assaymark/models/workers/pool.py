"""Several processes that compute one run: `--workers N`, on one machine or a cluster, or those of a launcher.

The driver tokenises, reads the cache and writes the store; only tokens are transported. Sorted work is split into
contiguous ranges, so that a shared prefix is computed by one worker, and each worker gets the next range when it is
free. A range does not depend on its worker, so results do not depend on N beyond float32 rounding. The range of a
worker that died is assigned again. If batches follow each other, ranges of the next are assigned while the last ones of
the previous batch are still in progress, so no worker waits between them.

The work in progress: batches split into ranges, the worker of each, and the missing results.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import cast

import numpy as np

from assaymark.engine.generation import (
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
)
from assaymark.engine.options import EngineInfo
from assaymark.engine.spans import IntArray, SpanBatch, SpanFailure, SpanScore, WindowReport
from assaymark.errors import ModelUnavailable
from assaymark.models.text.stops import StopTexts
from assaymark.models.token_engine import FollowText, SpanResult, TextResult
from assaymark.models.workers.links import Links, RemoteWorker, WorkerMessage, WorkerOrder
from assaymark.models.workers.ranges import (
    GeneratedUnits,
    RangeReport,
    TokenCosts,
    WorkRange,
    ranges_of,
    ranges_of_texts,
    total,
)


@dataclass(slots=True, eq=False)
class RangeTask:
    """One range in progress: which of its units have results, and its last report."""

    part: WorkRange
    job: "RangeJob"
    done: set[int] = field(default_factory=set)
    sent: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # in the worker's order
    report: RangeReport = field(default_factory=RangeReport)
    attempts: int = 0

    def left(self) -> IntArray:
        """Return the units that still need a result."""
        return np.asarray([i for i in self.part.indices.tolist() if i not in self.done], dtype=np.int64)

    def record(self, report: RangeReport, *, is_last: bool) -> None:
        """Record the worker's progress; after a takeover it counts only the units that were left."""
        whole = replace(report, n_tokens=self.part.n_tokens, n_distinct=self.part.n_distinct)
        self.report = whole if is_last else report


class RangeJob:
    """One batch in progress.

    `order` returns the message that makes a worker compute these units; `on_progress` receives the total progress.
    """

    def __init__(
        self,
        parts: Sequence[WorkRange],
        order: Callable[[IntArray], WorkerOrder],
        on_progress: Callable[[RangeReport], None],
        number: int = 0,
    ) -> None:
        self.number = number
        self.order = order
        self._on_progress = on_progress
        self._tasks = [RangeTask(part, self) for part in parts]
        self.todo = deque(self._tasks)

    @property
    def is_done(self) -> bool:
        """Whether every unit has its result."""
        return all(len(task.done) == task.part.indices.size for task in self._tasks)

    def report(self) -> None:
        """Report the progress."""
        self._on_progress(total([task.report for task in self._tasks]))


GENERATION_RANGES = 4  # ranges of texts per worker: several, since the lengths are unknown
SMALLEST_GENERATION = 128  # texts in a range: fewer leave slots idle while its last texts are generated
ATTEMPTS = 2  # how often a range is assigned again after its worker died
OPEN_BATCHES = 3  # batches in progress at once: bounds memory if one range takes very long


class EnginePool:
    """Several engines behind the interface of one: `score`, `generate`, `info`, `generation_defaults`, `close`."""

    def __init__(self, links: Links, costs: TokenCosts | None = None) -> None:
        self._links = links
        self._costs = costs
        self._n_workers = links.n_workers  # ranges are made for this number even after one died
        self._jobs: list[RangeJob] = []  # jobs without all their results, in order of arrival
        self._assigned: dict[RemoteWorker, RangeTask] = {}

    @property
    def n_workers(self) -> int:
        """The number of workers that are alive."""
        return len(self._links.workers)

    @property
    def info(self) -> EngineInfo:
        """The configuration of the workers' engines, which are alike.

        Raises: ModelUnavailable if no worker is left.
        """
        for worker in self._links.workers:
            if worker.info is not None:
                return worker.info
        raise self._links.lost("no worker is left")

    @property
    def generation_defaults(self) -> GenerationDefaults:
        """The defaults in the model's own generation_config.

        Raises: ModelUnavailable if no worker is left.
        """
        for worker in self._links.workers:
            if worker.defaults is not None:
                return worker.defaults
        raise self._links.lost("no worker is left")

    def score(
        self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None = None
    ) -> Iterator[SpanScore | SpanFailure]:
        """Yield the score or the failure of each span, in order of arrival.

        Raises: ModelUnavailable if no worker is left, or a range repeatedly kills its workers.
        """
        queue = self.queue()
        for _, result in chain(queue.add(spans, on_window), queue.finish()):
            yield result

    def queue(self) -> "PoolQueue":
        """Return a queue for consecutive batches of spans; unfinished work of an earlier call is dropped."""
        self._jobs.clear()
        return PoolQueue(self)

    def generate(
        self,
        prompts: Sequence[GenerationPrompt],
        stops: StopTexts,
        on_step: Callable[[GenerationReport], None] | None = None,
    ) -> Iterator[GeneratedSequence | GenerationFailure]:
        """Yield each prompt's continuations or failures, in order of arrival.

        Raises: ModelUnavailable as `score`.
        """
        units = GeneratedUnits.of(prompts)
        most = max(self._n_workers, min(self._n_workers * GENERATION_RANGES, len(units) // SMALLEST_GENERATION))
        parts = ranges_of_texts(units, min(most, len(units)))
        n_prompt = sum(part.n_distinct for part in parts)
        started = time.perf_counter()

        def order(left: IntArray) -> WorkerOrder:
            wanted = units.grouped(left)
            chosen = [replace(prompts[position], repeats=repeats) for position, repeats in wanted.items()]
            return "generate", chosen, stops.subset(list(wanted))

        def notify(so_far: RangeReport) -> None:
            if on_step is not None:
                counts = (so_far.n_generated, so_far.n_slot_steps, so_far.n_sequences_done)
                seconds = time.perf_counter() - started
                on_step(GenerationReport(so_far.n_distinct, n_prompt, *counts, len(units), seconds))

        self._jobs = [RangeJob(parts, order, notify)]
        for _, unit, result in self.results():
            yield replace(cast("TextResult", result), index=int(units.positions[unit]))

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult]:
        """Yield only the result: workers return a text in one piece."""
        del follow
        yield from self.generate([prompt], stops)

    def begin(self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None, number: int) -> None:
        """Add a batch after those in progress."""
        n_tokens = int(spans.tokens.size) - len(spans)
        parts = ranges_of(spans, self._n_workers, self._costs)
        n_distinct = sum(part.n_distinct for part in parts)
        started = time.perf_counter()

        def order(left: IntArray) -> WorkerOrder:
            part = spans.subset(left)
            return "score", part.tokens, part.offsets, part.n_scored

        def notify(so_far: RangeReport) -> None:
            if on_window is not None:
                seconds = time.perf_counter() - started
                on_window(WindowReport(so_far.n_tokens, n_tokens, so_far.n_distinct, n_distinct, seconds))

        self._jobs.append(RangeJob(parts, order, notify, number))

    def results(self, *, until_low: bool = False) -> Iterator[tuple[RangeJob, int, SpanResult | TextResult]]:
        """Yield (job, unit, result) until all results are there, or until little work is left to assign.

        Raises: ModelUnavailable if no worker is left, a range kills its workers, or a worker reports a failure.
        """
        while True:
            self._jobs = [job for job in self._jobs if not job.is_done]
            self._assign_ranges()
            if not self._jobs or (until_low and self._is_low()):
                return
            for message, worker in self._links.messages():
                if message is None:
                    self._reassign(worker)
                else:
                    yield from self._receive(message, worker)

    def _is_low(self) -> bool:
        """Return whether less than one range per worker is left to assign."""
        return len(self._jobs) < OPEN_BATCHES and sum(len(job.todo) for job in self._jobs) < self.n_workers

    def _assign_ranges(self) -> None:
        """Assign the next range to each free worker."""
        if self._jobs and not self._links.workers:
            raise self._links.lost("no worker is left")
        for worker in self._links.workers:
            job = next((job for job in self._jobs if job.todo), None)
            if job is None:
                return
            if worker not in self._assigned and worker.info is not None:
                task = self._assigned[worker] = job.todo.popleft()
                task.sent = task.left()
                worker.send(job.order(task.sent))

    def _reassign(self, worker: RemoteWorker) -> None:
        """Return a dead worker's range to the queue."""
        task = self._assigned.pop(worker, None)
        if task is None or task.job not in self._jobs:
            return
        task.attempts += 1
        if task.attempts > ATTEMPTS:
            n_units = task.part.indices.size
            raise self._links.lost(f"{task.attempts} workers ended while computing the same {n_units} queries")
        task.job.todo.appendleft(task)

    def _receive(
        self, message: WorkerMessage, worker: RemoteWorker
    ) -> Iterator[tuple[RangeJob, int, SpanResult | TextResult]]:
        """Yield the results in a worker's message, and report the progress of their job.

        Raises: ModelUnavailable if the worker reports a failure as a whole.
        """
        if message[0] == "failed":
            raise ModelUnavailable(str(message[1]))
        task = self._assigned.get(worker)
        if message[0] != "results" or task is None:
            return
        _, results, report, is_last = message
        if is_last:
            del self._assigned[worker]
            self._assign_ranges()  # before yielding its results, since the caller may take a while
        if task.job not in self._jobs:  # it belongs to an earlier call that was abandoned
            return
        task.record(report, is_last=is_last)
        for local, result in results:
            unit = int(task.sent[local])
            task.done.add(unit)
            yield task.job, unit, result
        task.job.report()

    def close(self) -> None:
        """End all workers."""
        self._jobs.clear()
        self._assigned.clear()
        self._links.close()


class PoolQueue:
    """Consecutive batches of spans, scored by a pool: the next one begins before the last one is finished."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._n_batches = 0

    def add(
        self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None = None
    ) -> Iterator[tuple[int, SpanScore | SpanFailure]]:
        """Add a batch; yield (number of a batch, result) as results arrive, until the next batch can be added.

        Raises: ModelUnavailable as `EnginePool.score`.
        """
        self._pool.begin(spans, on_window, self._n_batches)
        self._n_batches += 1
        yield from self._results(until_low=True)

    def finish(self) -> Iterator[tuple[int, SpanScore | SpanFailure]]:
        """Yield the results that are still missing.

        Raises: ModelUnavailable as `EnginePool.score`.
        """
        yield from self._results(until_low=False)

    def _results(self, *, until_low: bool) -> Iterator[tuple[int, SpanScore | SpanFailure]]:
        for job, index, result in self._pool.results(until_low=until_low):
            yield job.number, replace(cast("SpanResult", result), index=index)
