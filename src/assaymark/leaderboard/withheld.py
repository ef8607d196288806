"""Tasks whose questions and answers are not shown: those of gated data sets, unless the host allows them.

Gated data sets are given out under terms; GPQA's authors ask that its questions are not published in plain text. Scores
are shown, texts are not: no question, no answer, and no search in them.
"""

from functools import lru_cache

from assaymark.errors import UsageError
from assaymark.leaderboard.about import task_card

__all__ = ["WITHHELD", "TextsWithheld", "is_gated"]

WITHHELD = "(withheld: the data set is gated)"


class TextsWithheld(UsageError):
    """A sample was requested whose texts are not shown."""


@lru_cache(maxsize=10_000)
def is_gated(task: str) -> bool:
    """Return whether a task's data set is gated, by its card."""
    return bool(task_card(task).get("gated"))
