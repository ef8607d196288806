"""The one thread on which a model is loaded and run.

OpenMP keeps a pool of workers for every thread that ever ran a parallel region. Once all pools together have more
threads than there are processors, libgomp puts workers to sleep between regions, and products of a single token take
four times as long. So the thread that decodes also loads, and no other thread computes.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

__all__ = ["EngineThread"]

T = TypeVar("T")
Task = Callable[[], None]


class EngineThread:
    """Runs functions one after the other, until it is closed; a daemon, so that it never keeps the process alive."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._last: Future[object] | None = None
        threading.Thread(target=self._run, name="engine", daemon=True).start()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the thread and return its result. Raises: what it raises."""
        return self.start(function).result()

    def start(self, function: Callable[[], T]) -> "Future[T]":
        """Run a function on the thread after those before it; the future has its result."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                future.set_exception(error)

        self._last = future  # type: ignore[assignment]  # only waited for
        self._tasks.put(run)
        return future

    def close(self, seconds: float) -> None:
        """Take nothing more, and wait for what is in progress, at most so long."""
        self._tasks.put(None)
        if self._last is not None:
            wait([self._last], seconds)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
