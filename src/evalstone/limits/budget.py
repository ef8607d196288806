"""What is left to the template that this thread is rendering: rounds of loops, processor time, characters."""

import threading
import time
from typing import Any

__all__ = ["MAX_CHARACTERS", "MAX_PARTS", "MAX_ROUNDS", "MAX_SECONDS", "Budget", "TemplateTooLarge", "weigh"]

MAX_ROUNDS = 1_000_000  # of all loops, macros and calls in one rendering
MAX_CHARACTERS = 20_000_000  # of one text; about fifty times the longest prompt of any task we know
MAX_TOTAL = 10 * MAX_CHARACTERS  # of all texts and lists that one rendering makes on the way
MAX_SECONDS = 10.0  # of this thread's processor time
LARGE = 10_000  # characters: what makes as much may take long enough to look at the clock
MAX_PARTS = 1_000_000  # of a value that is written out


class TemplateTooLarge(Exception):
    """A rendering went past a limit; the message names it."""


class Budget(threading.local):
    """What is left. The clock is that of the thread's processor time: a busy machine fails no honest template."""

    rounds = MAX_ROUNDS
    characters = MAX_TOTAL
    deadline = 0.0  # set by the first look at the clock, which few renderings need

    def begin(self) -> None:
        """Give a rendering all of it."""
        self.rounds = MAX_ROUNDS
        self.characters = MAX_TOTAL
        self.deadline = 0.0

    def step(self) -> None:
        """Count a round. Raises: TemplateTooLarge."""
        self.rounds = rounds = self.rounds - 1
        if rounds < 0:
            raise TemplateTooLarge(f"its loops went past {MAX_ROUNDS:,} rounds")
        if not rounds & 63:
            self.check_clock()

    def check_clock(self) -> None:
        """Raise TemplateTooLarge once the time is up."""
        now = time.thread_time()
        if not self.deadline:
            self.deadline = now + MAX_SECONDS
        elif now > self.deadline:
            raise TemplateTooLarge(f"it took more than {MAX_SECONDS:.0f} s")

    def make(self, size: int) -> None:
        """Count a text or list of this size, before it is made where that is possible. Raises: TemplateTooLarge."""
        if size > MAX_CHARACTERS:
            raise TemplateTooLarge(f"a value would have {size:,} characters or parts; the limit is {MAX_CHARACTERS:,}")
        self.characters -= size
        if size > LARGE:
            self.check_clock()
        if self.characters < 0:
            raise TemplateTooLarge(f"its values have more than {MAX_TOTAL:,} characters or parts in all")


def weigh(value: Any) -> int:
    """Return about how many characters a value has when it is written out.

    A list may hold another many times over, which holds a third many times over: what is small in memory can be
    endless as text, so every part is counted as often as it would be written.

    Raises: TemplateTooLarge as soon as the count is past the limits.
    """
    size, n_parts, left = 0, 0, [value]
    while left:
        part = left.pop()
        n_parts += 1
        if isinstance(part, str | bytes):
            size += len(part)
        elif isinstance(part, dict):
            left += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            left += part
        if size > MAX_CHARACTERS or n_parts + len(left) > MAX_PARTS:
            raise TemplateTooLarge(
                f"a value would have more than {MAX_CHARACTERS:,} characters or {MAX_PARTS:,} parts when written out"
            )
    return size + n_parts
