"""The remaining budget of the template that this thread is rendering: loop rounds, processor time, characters."""

import threading
import time
from typing import Any

__all__ = ["MAX_CHARACTERS", "MAX_PARTS", "MAX_ROUNDS", "MAX_SECONDS", "Budget", "TemplateTooLarge", "weigh"]

MAX_ROUNDS = 1_000_000  # rounds of all loops, macros and calls in one rendering
MAX_CHARACTERS = 20_000_000  # maximum of one text; about fifty times the longest prompt of any task we know
MAX_TOTAL = 10 * MAX_CHARACTERS  # of all texts and lists that one rendering creates
MAX_SECONDS = 10.0  # processor time of this thread
LARGE = 10_000  # characters: after values of this size the clock is checked
MAX_PARTS = 1_000_000  # of a value that is converted to text


class TemplateTooLarge(Exception):
    """A rendering exceeded a limit; the message names it."""


class Budget(threading.local):
    """The remaining budget; its clock is the thread's processor time, so a busy machine fails no valid template."""

    rounds = MAX_ROUNDS
    characters = MAX_TOTAL
    deadline = 0.0  # set by the first check of the clock, which few renderings reach

    def begin(self) -> None:
        """Restore the full budget for a new rendering."""
        self.rounds = MAX_ROUNDS
        self.characters = MAX_TOTAL
        self.deadline = 0.0

    def step(self) -> None:
        """Count a round. Raises: TemplateTooLarge."""
        self.rounds = rounds = self.rounds - 1
        if rounds < 0:
            raise TemplateTooLarge(f"its loops exceeded {MAX_ROUNDS:,} rounds")
        if not rounds & 63:
            self.check_clock()

    def check_clock(self) -> None:
        """Raise TemplateTooLarge once the time is used up."""
        now = time.thread_time()
        if not self.deadline:
            self.deadline = now + MAX_SECONDS
        elif now > self.deadline:
            raise TemplateTooLarge(f"it took more than {MAX_SECONDS:.0f} s")

    def make(self, size: int) -> None:
        """Count a text or list of this size, before it is created if possible. Raises: TemplateTooLarge."""
        if size > MAX_CHARACTERS:
            raise TemplateTooLarge(f"a value would have {size:,} characters or parts; the limit is {MAX_CHARACTERS:,}")
        self.characters -= size
        if size > LARGE:
            self.check_clock()
        if self.characters < 0:
            raise TemplateTooLarge(f"its values have more than {MAX_TOTAL:,} characters or parts in all")


def weigh(value: Any) -> int:
    """Return the approximate number of characters of a value converted to text.

    A list may contain another one many times, which contains a third one many times: a value that is small in memory
    can be endless as text, so every part is counted as often as it would be written.

    Raises: TemplateTooLarge as soon as the count exceeds the limits.
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
                f"a value would have more than {MAX_CHARACTERS:,} characters or {MAX_PARTS:,} parts as text"
            )
    return size + n_parts
