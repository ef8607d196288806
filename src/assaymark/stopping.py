"""Graceful stop: the first signal lets responses in flight arrive, the second one stops at once.

The signal handler calls `request`. While a model has queries in flight the request is only recorded, and the model
checks for it at points where nothing is lost: between windows, or after the last open HTTP request. At any other moment
there is nothing to wait for. Without a handler that calls `request` this module has no effect.
"""

import _thread
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

GRACE_SECONDS = 30.0  # maximum wait for responses in flight
Report = TypeVar("Report")


class ServedToTheEnd(SystemExit):
    """This process worked for another one's run (torchrun starts several), which has ended."""

    def __init__(self) -> None:
        super().__init__(0)


class _State:
    """State of this process: signals belong to its main thread."""

    n_under_way = 0
    cause: BaseException | None = None
    timer: threading.Timer | None = None
    handled: tuple[int, ...] = ()  # signals whose handler calls `request`


def handles(numbers: Sequence[int]) -> None:
    """Note the signals whose handler calls `request`, for `ending_at_once`."""
    _State.handled = tuple(numbers)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let the handled signals end the process by themselves while native code holds the interpreter's lock.

    Python's handlers run between two instructions of the interpreter, so nobody would hear a signal while a tokenizer
    is parsed for minutes. Nothing is lost: while requests are in flight, or in other threads, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread() or _State.n_under_way or not _State.handled:
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _State.handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def request(cause: BaseException, number: int) -> bool:
    """Request a stop, to be raised as `cause`; after the grace period the signal with this number is raised again.

    Returns False if `cause` must be raised now: nothing is in flight, or a stop was already requested.
    """
    if _State.n_under_way == 0 or _State.cause is not None:
        return False
    _State.cause = cause
    _State.timer = threading.Timer(GRACE_SECONDS, _thread.interrupt_main, [number])
    _State.timer.daemon = True
    _State.timer.start()
    return True


def pending(cause: BaseException) -> BaseException:
    """Return the cause of the first request, else `cause`."""
    return _State.cause or cause


def is_requested() -> bool:
    """Return whether no further queries should be started."""
    return _State.cause is not None


def raise_if_requested() -> None:
    """Raise the requested cause, if any."""
    if _State.cause is not None:
        raise _State.cause


def reset() -> None:
    """Clear a request, at the beginning and at the end of a command."""
    if _State.timer is not None:
        _State.timer.cancel()
    _State.cause = _State.timer = None
    _State.n_under_way = 0


@contextmanager
def under_way() -> Iterator[None]:
    """Mark that a model is computing and checks for a request itself."""
    _State.n_under_way += 1
    try:
        yield
    finally:
        _State.n_under_way = max(0, _State.n_under_way - 1)


class StopAfterReports(Generic[Report]):
    """Passes an engine's reports on; raises a requested stop once every worker has reported its present work."""

    def __init__(self, then: Callable[[Report], None] | None, n_workers: int = 1) -> None:
        self._then = then
        self._n_left = n_workers

    def __call__(self, report: Report) -> None:
        """Receive the report that follows a window's results."""
        if self._then is not None:
            self._then(report)
        if is_requested():
            self._n_left -= 1
            if self._n_left <= 0:
                raise_if_requested()
