"""Several processes that score for one run: `--workers N`, or the processes that torchrun or accelerate started.

The driver tokenises, looks into the cache and writes; only spans travel. Sorted spans are cut into contiguous ranges,
so that a prefix is computed in one place, and each worker takes the next range when it is free. A range does not
depend on who scores it, so results do not depend on N beyond float32's noise. A worker that dies gives its range back;
without its driver a worker ends by itself.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path
from typing import Any

import numpy as np

from evalstone.engine.options import EngineInfo, EngineSettings
from evalstone.engine.spans import IntArray, SpanBatch, SpanFailure, SpanScore, WindowReport
from evalstone.engine.trie import common_prefixes, sorted_order
from evalstone.errors import ModelUnavailable
from evalstone.settings import cache_folder, process_of, thread_count

RANGES_PER_WORKER = 4  # so that one slow range does not hold up the end
SMALLEST_RANGE = 2048  # distinct tokens: below this, starting a range costs more than it spreads
SEARCH = 0.02  # share of a range around its ideal end in which the cheapest place to cut is looked for
ATTEMPTS = 2  # how often a range is given out again after its worker died
POLL_SECONDS = 0.2
START_SECONDS = 600.0  # for all workers to load the model

Result = SpanScore | SpanFailure
Observer = Callable[[WindowReport], None]


@dataclass(frozen=True, slots=True)
class SpanRange:
    """A contiguous part of the sorted spans.

    Shapes: indices int64 [n]. Units: tokens of model input, as asked and as computed.
    """

    indices: IntArray
    n_tokens: int
    n_distinct: int


def ranges_of(spans: SpanBatch, n_ranges: int) -> list[SpanRange]:
    """Return the sorted spans in at most `n_ranges` contiguous parts of nearly equal cost.

    A cut makes the path above it be computed twice, so each is put where neighbours share least, near its ideal place.
    """
    if not len(spans):
        return []
    order = sorted_order(spans)
    begins, lengths = spans.offsets[:-1][order], np.diff(spans.offsets)[order] - 1
    shared = common_prefixes(spans.tokens, begins, lengths)
    costs = np.cumsum(lengths - shared)
    total = int(costs[-1])
    edges = {0, len(order)}
    reach = SEARCH * total / n_ranges
    for k in range(1, n_ranges):
        ideal = total * k / n_ranges
        low, high = np.searchsorted(costs, [ideal - reach, ideal + reach])
        low, high = max(int(low), 1), min(max(int(high), int(low) + 1), len(order))
        if low < high:
            edges.add(low + int(np.argmin(shared[low:high])))
    bounds = sorted(edges)
    parts = []
    for first, last in pairwise(bounds):
        before = int(costs[first - 1]) if first else 0
        n_distinct = int(costs[last - 1]) - before + int(shared[first])
        parts.append(SpanRange(order[first:last], int(lengths[first:last].sum()), n_distinct))
    return parts


@dataclass(slots=True, eq=False)
class _Worker:
    """One process at the other end of a connection, and the range it has."""

    connection: Connection
    info: EngineInfo | None = None  # None: still loading
    task: "_Task | None" = None


@dataclass(slots=True, eq=False)
class _Task:
    """One range on its way: which of its spans have results, and its last report."""

    part: SpanRange
    job: int
    done: set[int] = field(default_factory=set)
    sent: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # as the worker counts them
    report: tuple[int, int] = (0, 0)  # tokens asked and distinct that are done
    attempts: int = 0

    def left(self) -> IntArray:
        """Return the spans that still need a result."""
        return np.asarray([i for i in self.part.indices.tolist() if i not in self.done], dtype=np.int64)


class EnginePool:
    """Several engines behind the face of one: `score`, `info`, `close`."""

    def __init__(self, source: str, settings: EngineSettings, n_workers: int) -> None:
        self._n_workers = n_workers
        self._source = source
        self._job = 0
        self._is_closing = False
        threads = settings.n_threads or max(1, thread_count() // n_workers)
        self._settings = replace(settings, n_threads=threads)
        self._workers: list[_Worker] = []
        self._arrived: list[Connection] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._key = key = secrets.token_bytes(32)
        self._listener = Listener(authkey=key, backlog=64)
        threading.Thread(target=self._accept, name="workers", daemon=True).start()
        n_joined = max(0, process_of()[1] - 1)
        for _ in range(max(1, n_workers - n_joined)):
            self._start(key)
        self._invitation = invite(self._listener.address, key) if n_joined else None
        try:
            self.info = self._wait_for_all()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------------------------------- processes

    def _start(self, key: bytes) -> None:
        """Start one process; what it must know goes through its standard input, where no one else can read it."""
        command = [sys.executable, "-m", "evalstone.models.worker_process"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._log)
        self._processes.append(process)
        if process.stdin is not None:
            with process.stdin:
                process.stdin.write(json.dumps({"address": self._listener.address, "key": key.hex()}).encode())

    def _accept(self) -> None:
        """Take connections as they come, until the pool is closed; who has not the key is turned away."""
        while not self._is_closing:
            try:
                self._arrived.append(self._listener.accept())
            except (OSError, EOFError, AuthenticationError):
                continue

    def _welcome(self) -> None:
        """Send the model's place to workers that have just connected."""
        while self._arrived:
            connection = self._arrived.pop()
            worker = _Worker(connection)
            self._workers.append(worker)
            self._send(worker, ("load", self._source, self._settings, len(self._workers) - 1))

    def _wait_for_all(self) -> EngineInfo:
        """Return the first worker's engine information once every worker is ready.

        Raises: ModelUnavailable if a worker cannot load the model, dies, or does not come.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._welcome()
            for message, worker in self._messages():
                if message is None:
                    raise self._lost("a worker ended while it loaded the model")
                if message[0] == "failed":
                    raise ModelUnavailable(str(message[1]))
                worker.info = message[1]
            infos = [worker.info for worker in self._workers if worker.info is not None]
            if len(infos) == self._n_workers:
                return infos[0]
            died = [process for process in self._processes if process.poll() is not None]
            if died or time.monotonic() > deadline:
                raise self._lost(f"{len(infos)} of {self._n_workers} workers came")

    def _lost(self, what: str) -> ModelUnavailable:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        told = f"; its last words: {lines[-1]}" if lines else ""
        return ModelUnavailable(f"{what} (model '{self._source}'){told}; run with fewer --workers, or more memory")

    def _messages(self) -> Iterator[tuple[Any, _Worker]]:
        """Yield what workers say within a moment; None from one that is gone."""
        by_connection = {worker.connection: worker for worker in self._workers}
        for ready in wait(list(by_connection), timeout=POLL_SECONDS) if by_connection else ():
            worker = by_connection[ready]  # type: ignore[index]
            try:
                yield worker.connection.recv(), worker
            except (EOFError, OSError):
                self._workers.remove(worker)
                yield None, worker
        if not by_connection:
            time.sleep(POLL_SECONDS)

    @staticmethod
    def _send(worker: _Worker, message: tuple[Any, ...]) -> None:
        try:
            worker.connection.send(message)
        except OSError:  # it is gone; its end of the connection says so at the next wait
            return

    # --------------------------------------------------------------------------------------------- scoring

    def score(self, spans: SpanBatch, on_window: Observer | None = None) -> Iterator[Result]:
        """Yield the score of each span, or why it has none, as any worker knows it.

        Raises: ModelUnavailable if no worker is left, or a range kills its workers again and again.
        """
        total = int(spans.tokens.size) - len(spans)
        n_ranges = min(self._n_workers * RANGES_PER_WORKER, max(1, total // SMALLEST_RANGE))
        self._job += 1
        tasks = [_Task(part, self._job) for part in ranges_of(spans, n_ranges)]
        todo = tasks[::-1]
        n_distinct = sum(task.part.n_distinct for task in tasks)
        started = time.perf_counter()
        while any(len(task.done) < task.part.indices.size for task in tasks):
            self._give_out(todo, spans)
            for message, worker in self._messages():
                if message is None:
                    self._take_back(worker, todo)
                    continue
                yield from self._receive(message, worker)
                if on_window is not None:
                    asked, distinct = (sum(task.report[k] for task in tasks) for k in (0, 1))
                    on_window(WindowReport(asked, total, distinct, n_distinct, time.perf_counter() - started))

    def _give_out(self, todo: list[_Task], spans: SpanBatch) -> None:
        """Give the next range to each worker that is free."""
        for worker in self._workers:
            if worker.task is None and worker.info is not None and todo:
                worker.task = todo.pop()
                worker.task.sent = worker.task.left()
                part = spans.subset(worker.task.sent)
                self._send(worker, ("score", part.tokens, part.offsets, part.n_scored))
        if not self._workers:
            raise self._lost("no worker is left")

    def _take_back(self, worker: _Worker, todo: list[_Task]) -> None:
        """Put a dead worker's range back."""
        task, worker.task = worker.task, None
        if task is None or task.job != self._job:
            return
        task.attempts += 1
        if task.attempts > ATTEMPTS:
            raise self._lost(f"{task.attempts} workers ended while they scored the same {task.part.indices.size} spans")
        todo.append(task)

    def _receive(self, message: tuple[Any, ...], worker: _Worker) -> Iterator[Result]:
        """Yield the results in a worker's message.

        Raises: ModelUnavailable if the worker reports that scoring as a whole failed.
        """
        if message[0] == "failed":
            raise ModelUnavailable(str(message[1]))
        task = worker.task
        if message[0] != "results" or task is None:
            return
        _, results, report, is_last = message
        if is_last:
            worker.task = None
        if task.job != self._job:  # of an earlier call that was given up
            return
        task.report = (task.part.n_tokens, task.part.n_distinct) if is_last else report
        task.done.update(int(task.sent[local]) for local, *_ in results)
        for local, nats, is_greedy, error in results:
            index = int(task.sent[local])
            if error is None:
                yield SpanScore(index, nats, is_greedy)
            else:
                yield SpanFailure(index, error.replace(f"span {local}", f"span {index}", 1))

    def close(self) -> None:
        """End all workers."""
        if self._invitation is not None:
            self._invitation.unlink(missing_ok=True)
        for worker in self._workers:
            self._send(worker, ("close",))
            worker.connection.close()
        self._workers.clear()
        self._is_closing = True
        with suppress(OSError, EOFError, AuthenticationError):
            Client(self._listener.address, authkey=self._key).close()  # wakes the thread that waits for connections
        self._listener.close()
        for process in self._processes:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()


def folder_of_launch() -> Path:
    """Return where processes of one launcher meet: they have the same parent, and the folder is this user's."""
    return cache_folder() / "launched" / str(os.getppid())


def invite(address: Any, key: bytes) -> Path:
    """Write where the driver listens, for this user's eyes only, and return the file."""
    path = folder_of_launch() / "invitation.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"address": address, "key": key.hex()}, file)
    draft.replace(path)
    return path
