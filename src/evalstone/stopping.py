"""Stopping politely: the first signal lets the answers under way arrive, the second one stops at once.

Whoever handles signals calls `request`. While a model has answers under way the request is only noted, and the model
looks for it where nothing would be lost: between windows, or when the last open HTTP request has its answer. At any
other moment there is nothing to wait for. Without a handler that calls `request` nothing here has an effect.
"""

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

__all__ = [
    "GRACE_SECONDS",
    "StopAfterReports",
    "is_requested",
    "pending",
    "raise_if_requested",
    "request",
    "reset",
    "under_way",
]

GRACE_SECONDS = 30.0  # how long answers under way are waited for
Report = TypeVar("Report")


class _State:
    """Of this process: signals are its main thread's."""

    n_under_way = 0
    cause: BaseException | None = None
    timer: threading.Timer | None = None


def request(cause: BaseException, number: int) -> bool:
    """Ask for the end, to be raised as `cause`; after the grace the signal of this number is raised again.

    Returns False where `cause` must be raised now: nothing is under way, or the end was requested before.
    """
    if _State.n_under_way == 0 or _State.cause is not None:
        return False
    _State.cause = cause
    _State.timer = threading.Timer(GRACE_SECONDS, _thread.interrupt_main, [number])
    _State.timer.daemon = True
    _State.timer.start()
    return True


def pending(cause: BaseException) -> BaseException:
    """Return what was requested first, else `cause`."""
    return _State.cause or cause


def is_requested() -> bool:
    """Return whether no further answers should be asked for."""
    return _State.cause is not None


def raise_if_requested() -> None:
    """Raise what was requested, if anything was."""
    if _State.cause is not None:
        raise _State.cause


def reset() -> None:
    """Forget a request, at the beginning and at the end of a command."""
    if _State.timer is not None:
        _State.timer.cancel()
    _State.cause = _State.timer = None
    _State.n_under_way = 0


@contextmanager
def under_way() -> Iterator[None]:
    """Say that a model is answering, and that it looks for a request itself."""
    _State.n_under_way += 1
    try:
        yield
    finally:
        _State.n_under_way = max(0, _State.n_under_way - 1)


class StopAfterReports(Generic[Report]):
    """Passes an engine's reports on; raises a requested end once every worker has reported what it was doing."""

    def __init__(self, then: Callable[[Report], None] | None, n_workers: int = 1) -> None:
        self._then = then
        self._n_left = n_workers

    def __call__(self, report: Report) -> None:
        """Take the report that follows a window's results."""
        if self._then is not None:
            self._then(report)
        if is_requested():
            self._n_left -= 1
            if self._n_left <= 0:
                raise_if_requested()
