"""Several processes that answer for one run: `--workers N`, on one machine or a cluster, or those of a launcher.

The driver tokenises, looks into the cache and writes the store; only tokens travel. Sorted work is cut into contiguous
ranges, so that a beginning is computed in one place, and each worker takes the next range when it is free. A range
does not depend on who answers it, so results do not depend on N beyond float32's noise. A worker that dies gives its
range back. Where batches follow each other, ranges of the next are given out while the last ones of the former are
still being answered, so nobody waits between them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

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
from evalstone.models.text.stops import StopTexts
from evalstone.models.token_engine import FollowText, TextResult
from evalstone.models.workers.links import Links, Worker
from evalstone.models.workers.range_jobs import RangeJob, RangeTask
from evalstone.models.workers.ranges import GeneratedUnits, RangeReport, ranges_of, ranges_of_texts
from evalstone.models.workers.token_costs import TokenCosts

__all__ = ["EnginePool", "PoolQueue"]

GENERATION_RANGES = 4  # of texts for each worker: nobody knows how long they will be
SMALLEST_GENERATION = 128  # texts in a range: fewer leave slots empty while its last texts are written
ATTEMPTS = 2  # how often a range is given out again after its worker died
OPEN_BATCHES = 3  # being answered at once: bounds memory where one range takes very long


class EnginePool:
    """Several engines behind the face of one: `score`, `generate`, `info`, `generation_defaults`, `close`."""

    def __init__(self, links: Links, costs: TokenCosts | None = None) -> None:
        self._links = links
        self._costs = costs
        self._n_workers = links.n_workers  # work is cut for these even after one died, so that the cuts stay the same
        self._jobs: list[RangeJob] = []  # that lack results, in the order in which they came
        self._given: dict[Worker, RangeTask] = {}

    @property
    def n_workers(self) -> int:
        """The number of workers that are alive."""
        return len(self._links.workers)

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
        queue = self.queue()
        for _, result in chain(queue.add(spans, on_window), queue.finish()):
            yield result

    def queue(self) -> "PoolQueue":
        """Return what takes batches of spans in a row; what an earlier call left unanswered is given up."""
        self._jobs.clear()
        return PoolQueue(self)

    def generate(
        self,
        prompts: Sequence[GenerationPrompt],
        stops: StopTexts,
        on_step: Callable[[GenerationReport], None] | None = None,
    ) -> Iterator[GeneratedSequence | GenerationFailure]:
        """Yield each prompt's continuations, or why there is none, as any worker has finished them.

        Raises: ModelUnavailable as `score`.
        """
        units = GeneratedUnits.of(prompts)
        most = max(self._n_workers, min(self._n_workers * GENERATION_RANGES, len(units) // SMALLEST_GENERATION))
        parts = ranges_of_texts(units, min(most, len(units)))
        n_prompt = sum(part.n_distinct for part in parts)
        started = time.perf_counter()

        def order(left: IntArray) -> tuple[Any, ...]:
            wanted = units.grouped(left)
            chosen = [replace(prompts[place], repeats=repeats) for place, repeats in wanted.items()]
            return "write", chosen, stops.subset(list(wanted))

        def tell(so_far: RangeReport) -> None:
            if on_step is not None:
                counts = (so_far.n_generated, so_far.n_slot_steps, so_far.n_sequences_done)
                seconds = time.perf_counter() - started
                on_step(GenerationReport(so_far.n_distinct, n_prompt, *counts, len(units), seconds))

        self._jobs = [RangeJob(parts, order, tell)]
        for _, unit, result in self.results():
            yield replace(result, index=int(units.places[unit]))

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult]:
        """Yield the result alone: what workers write comes in one piece."""
        del follow
        yield from self.generate([prompt], stops)

    def begin(self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None, number: int) -> None:
        """Take a batch behind those that are open."""
        n_tokens = int(spans.tokens.size) - len(spans)
        parts = ranges_of(spans, self._n_workers, self._costs)
        n_distinct = sum(part.n_distinct for part in parts)
        started = time.perf_counter()

        def order(left: IntArray) -> tuple[Any, ...]:
            part = spans.subset(left)
            return "score", part.tokens, part.offsets, part.n_scored

        def tell(so_far: RangeReport) -> None:
            if on_window is not None:
                seconds = time.perf_counter() - started
                on_window(WindowReport(so_far.n_tokens, n_tokens, so_far.n_distinct, n_distinct, seconds))

        self._jobs.append(RangeJob(parts, order, tell, number))

    def results(self, *, until_hungry: bool = False) -> Iterator[tuple[RangeJob, int, Any]]:
        """Yield (job, unit, result) until nothing lacks one, or until there is little left to give to workers.

        Raises: ModelUnavailable if no worker is left, a range kills its workers, or one reports a failure.
        """
        while True:
            self._jobs = [job for job in self._jobs if not job.is_done]
            self._give_out()
            if not self._jobs or (until_hungry and self._is_hungry()):
                return
            for message, worker in self._links.messages():
                if message is None:
                    self._take_back(worker)
                else:
                    yield from self._receive(message, worker)

    def _is_hungry(self) -> bool:
        """Say whether there is less left to give out than one range for each worker."""
        return len(self._jobs) < OPEN_BATCHES and sum(len(job.todo) for job in self._jobs) < self.n_workers

    def _give_out(self) -> None:
        """Give the next range to each worker that is free."""
        if self._jobs and not self._links.workers:
            raise self._links.lost("no worker is left")
        for worker in self._links.workers:
            job = next((job for job in self._jobs if job.todo), None)
            if job is None:
                return
            if worker not in self._given and worker.info is not None:
                task = self._given[worker] = job.todo.popleft()
                task.sent = task.left()
                worker.send(job.order(task.sent))

    def _take_back(self, worker: Worker) -> None:
        """Put a dead worker's range back."""
        task = self._given.pop(worker, None)
        if task is None or task.job not in self._jobs:
            return
        task.attempts += 1
        if task.attempts > ATTEMPTS:
            n_units = task.part.indices.size
            raise self._links.lost(f"{task.attempts} workers ended while they answered the same {n_units} asks")
        task.job.todo.appendleft(task)

    def _receive(self, message: tuple[Any, ...], worker: Worker) -> Iterator[tuple[RangeJob, int, Any]]:
        """Yield the results in a worker's message, and tell how far their job is.

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
            self._give_out()  # before its results are taken in: what becomes of them may take a while
        if task.job not in self._jobs:  # of an earlier call that was given up
            return
        task.heard(report, is_last=is_last)
        for local, result in results:
            unit = int(task.sent[local])
            task.done.add(unit)
            yield task.job, unit, result
        task.job.tell()

    def close(self) -> None:
        """End all workers."""
        self._jobs.clear()
        self._given.clear()
        self._links.close()


class PoolQueue:
    """Batches of spans in a row, scored by a pool: the next one is begun before the last one is finished."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self._n_batches = 0

    def add(
        self, spans: SpanBatch, on_window: Callable[[WindowReport], None] | None = None
    ) -> Iterator[tuple[int, SpanScore | SpanFailure]]:
        """Take a batch; yield (number of a batch, result) as results are known, until the next batch may come.

        Raises: ModelUnavailable as `EnginePool.score`.
        """
        self._pool.begin(spans, on_window, self._n_batches)
        self._n_batches += 1
        yield from self._results(until_hungry=True)

    def finish(self) -> Iterator[tuple[int, SpanScore | SpanFailure]]:
        """Yield the results that batches still lack.

        Raises: ModelUnavailable as `EnginePool.score`.
        """
        yield from self._results(until_hungry=False)

    def _results(self, *, until_hungry: bool) -> Iterator[tuple[int, SpanScore | SpanFailure]]:
        for job, index, result in self._pool.results(until_hungry=until_hungry):
            yield job.number, replace(result, index=index)
