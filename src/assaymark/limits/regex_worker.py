"""The process that runs patterns which might never end; it is killed by its limit of processor time.

It is run by its path and imports the standard library only, so that it starts at once.

Messages on standard input and output are marshalled, each after its length in 8 bytes: (what, pattern, flags, text,
replacement, count) one way, (True, result) or (False, error) the other way.
"""

import marshal
import re
import signal
import struct
import sys


def answer(
    what: str, pattern: str, flags: int, text: str, replacement: str, count: int
) -> list[str] | list[tuple[str, ...]] | list[str | None] | str:
    """Return the result of `re`; of "search" the match and its groups. Only "sub" uses replacement and count."""
    compiled = re.compile(pattern, flags)
    if what == "search":
        match = compiled.search(text)
        return [] if match is None else [match[0], *match.groups()]
    if what == "findall":
        return compiled.findall(text)
    return compiled.sub(replacement, text, count)


def allow(seconds: float) -> None:
    """Set the processor time after which this process is killed, even in the middle of a match; 0: never."""
    if sys.platform != "win32":  # there the parent kills this process by the clock
        signal.setitimer(signal.ITIMER_PROF, seconds)


def main(seconds: float) -> None:
    """Process requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    while head := sys.stdin.buffer.read(8):
        request = marshal.loads(sys.stdin.buffer.read(struct.unpack("<Q", head)[0]))  # noqa: S302 - our own parent's
        allow(seconds)
        try:
            result = (True, answer(*request))
        except Exception as error:  # noqa: BLE001 - sent to the parent
            result = (False, f"{type(error).__name__}: {error}")
        allow(0.0)
        data = marshal.dumps(result)
        sys.stdout.buffer.write(struct.pack("<Q", len(data)) + data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
