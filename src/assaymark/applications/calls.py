"""Call a target for many rows at once; each call ends in a value or a failure, within its time limit.

Functions run in threads, coroutine functions in one event loop. Neither can be stopped from outside: a call that does
not return within its limit is given up, its thread (or its loop, if it blocks the loop) is left behind, and another one
takes the next call. So a call that hangs costs its own row, not the run.
"""

import asyncio
import heapq
import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from assaymark import stopping
from assaymark.errors import AssaymarkError, ModelUnavailable, Retryable

T = TypeVar("T")
Made = TypeVar("Made")

MOST_LEFT_BEHIND = 200  # calls that never returned, in one process: more would use up its threads
FIRST_PAUSE_S = 0.5  # before a call is tried again; doubled each time
LONGEST_PAUSE_S = 30.0
LOOP_ANSWERS_S = 1.0  # a loop that does not react for this long is blocked
_GRACE_S = 2.0  # for calls that keep their own limit, as processes and HTTP requests do


@dataclass(frozen=True, slots=True)
class CallRules:
    """How a target is called. timeout_s: of one try; retries: tries after the first, of a call that failed."""

    concurrency: int = 8
    timeout_s: float = 300.0
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call. start: makes the call; an awaitable that it returns is awaited."""

    about: T
    start: Callable[[], object]
    is_async: bool = False
    keeps_limit: bool = False  # it ends by itself when its time is over


@dataclass(frozen=True, slots=True)
class CallEnd(Generic[T]):
    """How a call ended. seconds: of its last try."""

    about: T
    value: object
    error: BaseException | None
    seconds: float
    is_timed_out: bool = False
    n_tries: int = 1


class LoopThread:
    """An event loop in a thread of its own, so that the caller may be a plain program or a notebook."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="application", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def start(self, coroutine: Coroutine[object, object, Made]) -> Future[Made]:
        """Start a coroutine and return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def is_blocked(self) -> bool:
        """Return whether the loop does not react: a coroutine on it computes or waits without `await`."""
        reacted = threading.Event()
        self._loop.call_soon_threadsafe(reacted.set)
        return not reacted.wait(LOOP_ANSWERS_S)

    def close(self) -> None:
        """Cancel what is still running and end the thread; a blocked loop is left behind."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop)

    async def _cancel(self) -> None:
        own = asyncio.current_task()
        running = [task for task in asyncio.all_tasks() if task is not own]
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=LOOP_ANSWERS_S) if running else None
        await self._loop.shutdown_asyncgens()
        self._loop.call_soon(self._loop.stop)


def run_calls(
    calls: Iterable[Call[T]], rules: CallRules, on_silence: Callable[[], None] = lambda: None
) -> Iterator[CallEnd[T]]:
    """Yield the end of each call, in the order in which they end; `on_silence` is called every second without one.

    When a stop is requested (`stopping`), no more calls are made and those in progress are waited for.

    Raises: ModelUnavailable if so many calls never returned that no more can be made.
    """
    running = _Running(iter(calls), rules)
    with stopping.under_way():
        try:
            while (ended := running.next(on_silence)) is not None:
                yield ended
            stopping.raise_if_requested()
        finally:
            running.close()


@dataclass(slots=True)
class _Try(Generic[T]):
    """A call in progress."""

    call: Call[T]
    n_tries: int
    deadline: float
    worker: "_CallThread | None" = None
    future: Future[None] | None = None


@dataclass(slots=True)
class _CallThread:
    """A thread that makes one call after another, until it is sent None."""

    results: "queue.SimpleQueue[tuple[int, object, BaseException | None, float]]"
    loop: Callable[[], LoopThread]
    calls: "queue.SimpleQueue[tuple[int, Callable[[], object]] | None]" = field(default_factory=queue.SimpleQueue)

    def run(self) -> None:
        while (item := self.calls.get()) is not None:
            number, start = item
            began = time.perf_counter()
            try:
                value, error = start(), None
                if inspect.isawaitable(value):  # a plain function that returns a coroutine
                    value = self.loop().start(_awaited(value)).result()
            except BaseException as raised:  # noqa: BLE001 - whatever a target raises, SystemExit too, is its failure
                value, error = None, raised
            self.results.put((number, value, error, time.perf_counter() - began))


async def _awaited(value: Awaitable[Made]) -> Made:
    return await value


class _Running(Generic[T]):
    """The calls of one iteration."""

    def __init__(self, calls: Iterator[Call[T]], rules: CallRules) -> None:
        self._calls, self._rules = calls, rules
        self._results: queue.SimpleQueue[tuple[int, object, BaseException | None, float]] = queue.SimpleQueue()
        self._tries: dict[int, _Try[T]] = {}
        self._idle: list[_CallThread] = []
        self._workers: list[_CallThread] = []
        self._later: list[tuple[float, int, Call[T], int]] = []  # when, order, call, tries so far: to be tried again
        self._number = 0
        self._left_behind: set[int] = set()  # calls that were given up and are still running
        self._loop: LoopThread | None = None
        self._lock = threading.Lock()
        self._is_exhausted = False

    def next(self, on_silence: Callable[[], None]) -> CallEnd[T] | None:
        """Return how the next call ended; None at the end."""
        while True:
            self._fill()
            if not self._tries and not self._later:
                return None
            if stopping.is_requested() and not self._tries:  # calls that wait for another try are left for the next run
                return None
            ended = self._wait(on_silence)
            if ended is not None:
                return ended

    def _fill(self) -> None:
        """Start calls up to the allowed number in progress."""
        while len(self._tries) < self._rules.concurrency and not stopping.is_requested():
            if self._later and self._later[0][0] <= time.monotonic():
                _, _, call, n_tries = heapq.heappop(self._later)
                self._start(call, n_tries + 1)
                continue
            call_or_none = None if self._is_exhausted else next(self._calls, None)
            if call_or_none is None:
                self._is_exhausted = True
                return
            self._start(call_or_none, 1)

    def _start(self, call: Call[T], n_tries: int) -> None:
        if len(self._left_behind) > MOST_LEFT_BEHIND:
            raise ModelUnavailable(
                f"{len(self._left_behind)} calls of the target did not return within {self._rules.timeout_s:g} s and "
                "are still running; give it a time limit of its own, or raise timeout_s"
            )
        self._number += 1
        limit = self._rules.timeout_s + (_GRACE_S if call.keeps_limit else 0)
        made = self._tries[self._number] = _Try(call, n_tries, time.monotonic() + limit)
        if call.is_async:
            made.future = self._own_loop().start(self._run_async(self._number, call.start))
            return
        if not self._idle:
            worker = _CallThread(self._results, self._own_loop)
            self._workers.append(worker)
            self._idle.append(worker)
            threading.Thread(target=worker.run, name="application", daemon=True).start()
        made.worker = self._idle.pop()
        made.worker.calls.put((self._number, call.start))

    def _own_loop(self) -> LoopThread:
        with self._lock:  # workers need it too, for functions that return coroutines
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop

    async def _run_async(self, number: int, start: Callable[[], object]) -> None:
        began = time.perf_counter()
        try:
            value, error = await cast("Awaitable[object]", start()), None
        except BaseException as raised:  # noqa: BLE001 - as in a thread; a cancelled call was given up before
            value, error = None, raised
        self._results.put((number, value, error, time.perf_counter() - began))

    def _wait(self, on_silence: Callable[[], None]) -> CallEnd[T] | None:
        """Wait for a result, a deadline, a call to be tried again, or a second."""
        now = time.monotonic()
        next_times = [made.deadline for made in self._tries.values()]
        if self._later and len(self._tries) < self._rules.concurrency:
            next_times.append(self._later[0][0])
        pause = min(1.0, max(0.0, min(next_times, default=now) - now))
        try:
            number, value, error, seconds = self._results.get(timeout=pause) if pause else self._results.get_nowait()
        except queue.Empty:
            on_silence()
            return self._given_up()
        made = self._tries.pop(number, None)
        if made is None:  # it was given up before
            self._left_behind.discard(number)
            return None
        if made.worker is not None:
            self._idle.append(made.worker)
        return self._ended(made, value, error, seconds)

    def _given_up(self) -> CallEnd[T] | None:
        """Return a call whose time is over, if any."""
        now = time.monotonic()
        late = next((number for number, made in self._tries.items() if made.deadline <= now), None)
        if late is None:
            return None
        made = self._tries.pop(late)
        if made.future is None:
            self._left_behind.add(late)
        elif self._loop is not None:
            made.future.cancel()
            if self._loop.is_blocked():
                self._left_behind.add(late)
                self._loop = None  # the next call gets another loop
        return self._ended(made, None, None, self._rules.timeout_s, is_timed_out=True)

    def _ended(
        self, made: _Try[T], value: object, error: BaseException | None, seconds: float, *, is_timed_out: bool = False
    ) -> CallEnd[T] | None:
        """Return the end of a call; None if it is to be tried again."""
        has_failed = is_timed_out or error is not None
        if has_failed and made.n_tries <= self._rules.retries and (error is None or _may_differ(error)):
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (made.n_tries - 1))
            self._number += 1
            heapq.heappush(self._later, (time.monotonic() + pause, self._number, made.call, made.n_tries))
            return None
        return CallEnd(made.call.about, value, error, seconds, is_timed_out, made.n_tries)

    def close(self) -> None:
        """End the idle threads; those whose call does not return end when it does."""
        for worker in self._workers:
            worker.calls.put(None)
        for made in self._tries.values():
            if made.future is not None:
                made.future.cancel()
        if self._loop is not None:
            self._loop.close()


def _may_differ(error: BaseException) -> bool:
    """Return whether another try may succeed: errors of this package state it, any other may be temporary."""
    return isinstance(error, Retryable) or (isinstance(error, Exception) and not isinstance(error, AssaymarkError))
