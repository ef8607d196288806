"""Apply regular expressions from files to texts from models, with a time limit and the results of `re`.

`re` cannot be interrupted, and the package `regex`, which can, gives other results. So `re` is used: in this process if
the worst case of the pattern on this text is short (`regex_cost`), else in a separate process, which is started once
and killed by its limit of processor time. See docs/decisions/0011-regular-expressions-with-a-time-limit.md.

The worst case is estimated from the pattern alone. `re` tries one path through a pattern after another. The number of
paths is at most the product over its choices: n for a repeat that may match anything from nothing to the whole text,
the number of branches of an alternative, n for the position where a match may begin. A repeat whose body has choices of
its own has n ** n paths, or infinitely many: such patterns are "unbounded", as is anything not recognised here.
"""

import atexit
import marshal
import os
import re
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, cast

from assaymark.errors import DataError

_parser = re._parser  # type: ignore[attr-defined] # noqa: SLF001 - the public name, sre_parse, is deprecated
FREE = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "RANGE", "CATEGORY", "NEGATE", "FAILURE"})
LARGE = 1e9


@dataclass(frozen=True, slots=True)
class PathCount:
    """The number of paths through a pattern: at most `ways` * n ** `power`. If unbounded, the power is infinite."""

    ways: float = 1.0
    power: float = 0.0

    def times(self, other: "PathCount") -> "PathCount":
        """Return the cost of one part after another."""
        return PathCount(min(self.ways * other.ways, LARGE), self.power + other.power)

    def plus(self, other: "PathCount") -> "PathCount":
        """Return the cost of one part or another."""
        return PathCount(min(self.ways + other.ways, LARGE), max(self.power, other.power))

    def steps(self, n_characters: int) -> float:
        """Return the worst-case number of steps of searching a text."""
        n = float(n_characters + 1)
        exponent = self.power + 1
        return float("inf") if exponent > 8 else self.ways * n**exponent


ONE, UNBOUNDED = PathCount(), PathCount(LARGE, float("inf"))


@lru_cache(maxsize=4096)
def cost_of(pattern: str, flags: int = 0) -> PathCount:
    """Return the cost of a pattern that compiles."""
    return _of_all(_parser.parse(pattern, flags))


def _of_all(parts: Iterable[Any]) -> PathCount:
    cost = ONE
    for operator, argument in parts:
        cost = cost.times(_of(str(operator), argument))
    return cost


def _of(name: str, argument: Any) -> PathCount:
    """Return the cost of one part of a parsed pattern."""
    if name in FREE:
        return ONE
    if name == "SUBPATTERN":
        return _of_all(argument[3])
    if name == "BRANCH":
        branches = [_of_all(branch) for branch in argument[1]]
        total = branches[0]
        for branch in branches[1:]:
            total = total.plus(branch)
        return total
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _of_repeat(*argument)
    if name in ("ASSERT", "ASSERT_NOT"):
        return _of_all(argument[1])
    if name == "ATOMIC_GROUP":
        return _of_all(argument)
    return PathCount(1.0, 1.0) if name in ("GROUPREF", "GROUPREF_IGNORE") else UNBOUNDED


def _of_repeat(least: int, most: int, body: Any) -> PathCount:
    inner = _of_all(body)
    if most == least == 1 or (most <= 1 and inner == ONE):
        return PathCount(float(most - least + 1), 0.0)
    if most == _parser.MAXREPEAT:
        return PathCount(1.0, 1.0) if inner == ONE else UNBOUNDED
    if inner == ONE:
        return PathCount(float(most - least + 1), 0.0)
    if most > 4:
        return UNBOUNDED
    cost = PathCount(float(most - least + 1), 0.0)
    for _ in range(most):
        cost = cost.times(inner)
    return cost


MAX_SECONDS = 2.0  # processor time for one pattern and one text; ordinary patterns take milliseconds
CLOCK_SECONDS = 10.0  # instead, on Windows, where no timer counts a process's own time; starting it takes part of them
MOST_STEPS = 2e7  # worst-case steps allowed in this process: about 0.2 s at most
MOST_TIMEOUTS = 10  # per pattern, after which the pattern counts as faulty, not the texts
WORKER = Path(__file__).with_name("regex_worker.py")


class RegexTooSlow(DataError):
    """A pattern took too long on a text."""


class _PatternWorker:
    """The process that runs slow patterns. One for each process of ours; used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self.n_timeouts: Counter[str] = Counter()

    def run(self, request: tuple[str, str, int, str, str, int]) -> list[object] | str:
        """Return the worker's result. Raises: RegexTooSlow; re.error; DataError after too many time-outs."""
        pattern = request[1]
        with self._lock:
            if self.n_timeouts[pattern] >= MOST_TIMEOUTS:
                raise DataError(
                    f"the regular expression {pattern!r:.200} took more than {MAX_SECONDS:g} s on {MOST_TIMEOUTS} "
                    "texts; correct it: repeats inside repeats, as in (a+)+, are the usual cause"
                )
            reply = self._exchange(marshal.dumps(request))
            if reply is None:
                self.n_timeouts[pattern] += 1
                raise RegexTooSlow(
                    f"the regular expression {pattern!r:.200} took more than {MAX_SECONDS:g} s on a text of "
                    f"{len(request[3]):,} characters"
                )
        is_answer, result = reply
        if not is_answer:
            raise re.error(str(result))
        return result

    def _exchange(self, data: bytes) -> tuple[bool, list[object] | str] | None:
        """Return the reply to a message, None if the worker died while computing it."""
        send, receive = self._pipes()
        timer = threading.Timer(CLOCK_SECONDS, cast("subprocess.Popen[bytes]", self._process).kill)
        if sys.platform == "win32":
            timer.start()
        try:
            send.write(struct.pack("<Q", len(data)) + data)
            send.flush()
            head = receive.read(8)
            content = receive.read(struct.unpack("<Q", head)[0]) if len(head) == 8 else b""
        except BrokenPipeError:
            content = b""
        except BaseException:  # after Ctrl-C here the next message would get this one's reply
            self._end()
            raise
        finally:
            timer.cancel()
        if not content:
            self._end()
            return None
        reply: tuple[bool, list[object] | str] = marshal.loads(content)  # noqa: S302 - of our own child
        return reply

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the pipes to and from the worker; start it if necessary."""
        process = self._process
        if process is None or self._owner != os.getpid() or process.poll() is not None:
            command = [sys.executable, "-I", "-S", str(WORKER), str(MAX_SECONDS)]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._process, self._owner = process, os.getpid()  # a fork must not share its parent's pipes
        return cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)

    def close(self) -> None:
        """End the worker, unless it is a parent process's; one that a thread uses ends with its pipes."""
        if self._owner == os.getpid() and self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # unsent data is lost anyway
                cast("IO[bytes]", pipe).close()
        process.wait()


_worker = _PatternWorker()
atexit.register(_worker.close)


def compiled(pattern: object, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern compiled. Raises: DataError with the pattern and the position of the error."""
    if not isinstance(pattern, str):
        raise DataError(f"a regular expression is {pattern!r:.100}; expected text (quote it in YAML)")
    try:
        return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        raise DataError(f"the regular expression {pattern!r:.200} does not compile: {error}") from None


def _is_quick(pattern: re.Pattern[str], text: str) -> bool:
    return cost_of(pattern.pattern, pattern.flags & ~re.UNICODE).steps(len(text)) <= MOST_STEPS


def findall(pattern: re.Pattern[str] | str, text: str) -> list[object]:
    """Return the result of `re.findall`. Raises: RegexTooSlow; DataError for a pattern that does not compile."""
    regex = compiled(pattern) if isinstance(pattern, str) else pattern
    if _is_quick(regex, text):
        return regex.findall(text)
    return list(_worker.run(("findall", regex.pattern, regex.flags, str(text), "", 0)))


def search(pattern: str, text: str, flags: int = 0) -> tuple[str | None, ...] | None:
    """Return the whole match of `re.search` and its groups; None without a match. Raises: as `findall`."""
    regex = compiled(pattern, flags)
    if _is_quick(regex, text):
        match = regex.search(text)
        return None if match is None else (match[0], *match.groups())
    found = _worker.run(("search", regex.pattern, regex.flags, str(text), "", 0))
    return cast("tuple[str | None, ...]", tuple(found)) or None


def sub(pattern: str, replacement: str, text: str, count: int = 0) -> str:
    """Return the result of `re.sub`. Raises: as `findall`; re.error for a bad replacement."""
    regex = compiled(pattern)
    if _is_quick(regex, text):
        return regex.sub(replacement, text, count)
    return str(_worker.run(("sub", regex.pattern, regex.flags, str(text), replacement, count)))
