"""Signals that ask a command to end: the first lets the answers under way arrive, a second one ends it at once.

What came is stored either way; see `stopping`.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from evalstone import stopping

__all__ = ["Terminated", "heeding_signals"]

HEEDED = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C; a queueing system's warning before its kill; a closed terminal
STANDARD_ERROR = 2


class Terminated(SystemExit):
    """The command was asked to end by a signal; `code` is the shell's code for it."""

    code: int


@contextmanager
def heeding_signals() -> Iterator[None]:
    """Within it a signal to end raises KeyboardInterrupt or Terminated, once the answers under way have arrived.

    A signal that whoever started us had ignored (`nohup`), or handles, is left alone.
    """
    if current_thread() is not main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in HEEDED if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number in numbers if before[number] in {signal.SIG_DFL, signal.default_int_handler}]
    stopping.reset()
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        stopping.reset()


def _end(number: int, _frame: FrameType | None) -> None:
    cause: BaseException = KeyboardInterrupt() if number == signal.SIGINT else Terminated(128 + number)
    if not stopping.request(cause, number):
        raise stopping.pending(cause)
    line = (
        f"\nstopping: answers under way are waited for, at most {stopping.GRACE_SECONDS:.0f} s; "
        "press Ctrl-C (or send the signal) again to stop at once\n"
    )
    os.write(STANDARD_ERROR, line.encode())  # a buffered stream may be in the middle of a write
