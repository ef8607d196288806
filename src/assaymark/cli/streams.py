"""Standard streams that are closed, full, or in an encoding that lacks characters."""

import os
import sys
from contextlib import suppress

__all__ = ["discard_output", "prepare_streams", "stdout_failure"]

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


def prepare_streams() -> None:
    """Make the standard streams usable.

    A closed descriptor (`>&-`) is opened on the null device. Otherwise the next file opened, such as a database, would
    get its number, and prints of libraries would be written into that file. Characters that the encoding lacks
    (`PYTHONIOENCODING=ascii`) are written as escapes instead of raising UnicodeEncodeError.
    """
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)
        sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - open as long as the process
        sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def stdout_failure() -> OSError | None:
    """Try to write an empty line to standard output; return the error, None if it worked.

    Flushing alone does not show a failure: text too long for the buffer is no longer in it.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def discard_output() -> None:
    """Redirect standard output, and standard error if it fails, to the null device: Python flushes both at exit."""
    streams = [(sys.stdout, STANDARD_OUTPUT)]
    try:
        sys.stderr.flush()
    except OSError:
        streams.append((sys.stderr, STANDARD_ERROR))
    for stream, number in streams:
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number if stream is None else stream.fileno())
            os.close(null)
