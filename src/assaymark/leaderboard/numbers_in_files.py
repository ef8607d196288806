"""Numbers in the cells of users' CSV files: published tables and ratings."""

import math
from collections.abc import Mapping
from pathlib import Path

from assaymark.errors import DataError

MISSING = frozenset({"", "na", "n/a", "nan", "-", "–"})


def number_in(path: Path, line: int, record: Mapping[str, str | None], heading: str) -> float | None:
    """Return the number in a cell, without its percent sign; None for a cell that states that there is none.

    Raises: DataError with file, line and heading for a cell that is not a finite number.
    """
    text = (record.get(heading) or "").strip().rstrip("%")
    if text.lower() in MISSING:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{path}, line {line}: {heading} is {text[:40]!r}; expected a number, or nothing")
    return value
