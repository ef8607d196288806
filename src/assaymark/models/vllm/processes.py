"""The processes that vLLM starts for a model: they never outlive their owner, and their output is kept aside.

vLLM's engine and its workers are processes that wait for messages, even after the process that started them was killed,
and would keep the model in memory for ever. Ctrl-C in a terminal reaches them at the same time as their owner, which
waits for their results. vLLM calls `follow` in each of its processes as a plug-in, before a model is loaded;
in processes that do not belong to a model of this package it does nothing.
"""

import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from types import FrameType

from assaymark import settings
from assaymark.platforms import wait_for_end

OWNER = "ASSAYMARK_VLLM_OWNER"
STANDARD_ERROR = 2
_ERROR = re.compile(r"\b(\w+(?:Error|Exception): (?!.*root cause above).+)$", re.MULTILINE)  # the end of a traceback


@contextmanager
def own_processes() -> Iterator[None]:
    """Make this process the owner of the processes that vLLM starts in the block."""
    before = os.environ.get(OWNER)
    os.environ[OWNER] = f"{os.getpid()}@{socket.gethostname()}"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(OWNER, None)
        else:
            os.environ[OWNER] = before


def follow() -> None:
    """In a process that vLLM started for us: end with the owner, and leave Ctrl-C to it."""
    number, _, host = (settings.read(OWNER) or "").partition("@")
    if not number or int(number) == os.getpid() or host != socket.gethostname():
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(int(number),), daemon=True, name="owner").start()


def _end_with(owner: int) -> None:
    wait_for_end(owner)
    os._exit(1)  # at once, even if other threads are waiting


class _Interrupted(BaseException):
    """Ctrl-C while vLLM starts."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the block in which vLLM starts, since vLLM then ignores KeyboardInterrupt and keeps waiting."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise _Interrupted

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except _Interrupted:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


class Aside:
    """The standard error of vLLM's processes, which inherit it when they start.

    With VLLM_LOGGING_LEVEL=ERROR, as the command line sets it, their output is kept in a file, and only the cause of a
    failure is taken from it.
    """

    def __init__(self) -> None:
        is_kept = settings.read("VLLM_LOGGING_LEVEL") == "ERROR" and _writes_to_standard_error()
        self._file = TemporaryFile() if is_kept else None  # noqa: SIM115 - as long as the processes

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Let processes that start in the block write to the file; this process's own output is still shown."""
        if self._file is None:
            yield
            return
        sys.stderr.flush()
        shown, before = os.dup(STANDARD_ERROR), sys.stderr
        os.dup2(self._file.fileno(), STANDARD_ERROR)
        sys.stderr = os.fdopen(shown, "w", buffering=1, encoding=before.encoding, errors=before.errors)
        try:
            yield
        finally:
            os.dup2(shown, STANDARD_ERROR)
            sys.stderr.close()
            sys.stderr = before

    def cause_of(self, error: BaseException) -> str:
        """Return the cause of a failure: the last error in the file, else the first line of `error`."""
        own = str(error).strip().splitlines() or [type(error).__name__]
        if self._file is None:
            return own[0]
        self._file.seek(0)
        named = _ERROR.findall(self._file.read().decode(errors="replace"))
        return named[-1] if named else own[0]


def _writes_to_standard_error() -> bool:
    """Return whether this process writes to the real standard error, as its processes do; notebooks do not."""
    try:
        return sys.stderr.fileno() == STANDARD_ERROR
    except (AttributeError, OSError, ValueError):
        return False
