"""Standard input, output and error as the caller left them: closed, full, or in an encoding that lacks characters."""

import os
import sys
from contextlib import suppress

__all__ = ["discard_output", "prepare_streams", "stdout_failure"]

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


def prepare_streams() -> None:
    """Make the standard streams usable.

    A closed descriptor (`>&-`) is opened on the null device, else the next file opened, a database perhaps, gets its
    number and whatever a library prints is written into that file. Characters that the encoding lacks
    (`PYTHONIOENCODING=ascii`) are written as escapes instead of raising UnicodeEncodeError.
    """
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)
        sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - as long as the process
        sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def stdout_failure() -> OSError | None:
    """Return why standard output cannot be written, None where it can; it is tried with an empty line.

    Flushing alone does not tell: what was too long for the buffer is gone from it.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def discard_output() -> None:
    """Send standard output, and standard error if it fails, to the null device: both are flushed at the exit."""
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
