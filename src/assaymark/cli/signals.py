"""Signals that end a command: the first waits for the responses in flight, a second one stops at once.

Responses received before that are stored either way; see `stopping`.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from assaymark import stopping

# Ctrl-C; a queueing system's warning before its kill; a closed terminal; Ctrl-Break of Windows
HANDLED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
STANDARD_ERROR = 2


class Terminated(SystemExit):
    """The command was ended by a signal; `code` is the shell's exit code for it."""

    code: int


@contextmanager
def handle_signals() -> Iterator[None]:
    """Within the block, raise KeyboardInterrupt or Terminated for a signal once the responses in flight have arrived.

    A signal that the parent process ignores (`nohup`), or that has a handler already, is not changed.
    """
    if current_thread() is not main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in HANDLED if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    ours = [number for number in numbers if before[number] in {signal.SIG_DFL, signal.default_int_handler}]
    stopping.reset()
    for number in ours:
        signal.signal(number, _end)
    stopping.handles(ours)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        stopping.handles(())
        stopping.reset()


def _end(number: int, _frame: FrameType | None) -> None:
    cause: BaseException = KeyboardInterrupt() if number == signal.SIGINT else Terminated(128 + number)
    if not stopping.request(cause, number):
        raise stopping.pending(cause)
    line = (
        f"\nstopping: waiting for the responses in flight, at most {stopping.GRACE_SECONDS:.0f} s; "
        "press Ctrl-C (or send the signal) again to stop at once\n"
    )
    os.write(STANDARD_ERROR, line.encode())  # a buffered stream may be in the middle of a write
