"""What the votes of a file can be divided by: the category or language of the prompt, and the month of the vote."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assaymark.arena.vote_columns import VoteColumns
from assaymark.arena.votes import Over
from assaymark.datasets.rows import Rows

__all__ = ["month_of", "parts_of"]

_MILLISECONDS = 1e11  # a number of seconds above it would be after the year 5000


def parts_of(rows: Rows, columns: VoteColumns, used: Sequence[int]) -> dict[Over, NDArray[Any]]:
    """Return the part of each used row for each kind that the file has; "" where it is not known. Shapes: [votes]."""
    found: dict[Over, NDArray[Any]] = {}
    if columns.category is not None:
        found["category"] = _texts(rows[columns.category], used)
    if columns.language is not None:
        found["language"] = _texts(rows[columns.language], used)
    if columns.time is not None:
        values = rows[columns.time]
        found["time"] = np.array([month_of(values[index]) for index in used], dtype=object)
    return found


def month_of(value: Any) -> str:
    """Return the month, in UTC, of a number of seconds or milliseconds since 1970, a date, or an ISO 8601 text.

    "" where it is none of these. Example: `2024-06`.
    """
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, int | float) or _is_number(str(value)):
            seconds = float(value)
            moment = datetime.fromtimestamp(seconds / 1000 if seconds > _MILLISECONDS else seconds, UTC)
        else:
            moment = datetime.fromisoformat(str(value).strip())
    except (ValueError, OverflowError, OSError):
        return ""
    return (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m")


def _is_number(text: str) -> bool:
    """Return whether a text is a number of seconds; 20240601 is a date."""
    try:
        return math.isfinite(float(text)) and len(text.partition(".")[0]) > len("20240601")
    except ValueError:
        return False


def _texts(values: Sequence[Any], used: Sequence[int]) -> NDArray[Any]:
    return np.array(["" if values[index] is None else str(values[index]).strip() for index in used], dtype=object)
