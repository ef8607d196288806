"""A polite end by another process is told from a kill: what came is stored before the command ends."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

__all__ = ["Terminated", "heeding_signals"]

HEEDED = ("SIGTERM", "SIGHUP")  # a queueing system's warning before its kill; a terminal that was closed


class Terminated(SystemExit):
    """The command was asked to end by a signal; `code` is the shell's code for it."""

    code: int


@contextmanager
def heeding_signals() -> Iterator[None]:
    """Within it a signal to end raises Terminated, unless whoever started us had it ignored (`nohup`)."""
    if current_thread() is not main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in HEEDED if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: FrameType | None) -> None:
    raise Terminated(128 + number)
