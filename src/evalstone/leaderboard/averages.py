"""A board's average over its columns: by the board's rule for complete rows, a labelled mean of some for others."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from evalstone.leaderboard.rows import Average, Cell, Number, ScoreColumn
from evalstone.leaderboard.table import averaged
from evalstone.statistics.distributions import two_sided_z

__all__ = ["CONFIDENCE", "average_of", "mean_number"]

CONFIDENCE = 0.95
Aggregate = Literal["mean", "weighted", "geometric", "none"]


def average_of(columns: Sequence[ScoreColumn], cells: Mapping[str, Cell], aggregate: Aggregate) -> Average | None:
    """Return the average of the columns that a row has; None where it has none or the board makes no average.

    A geometric mean of fewer columns than all would not be the board's rule on fewer, so there is none.
    """
    wanted = averaged(columns)
    known = [(column, cells[column.key].number) for column in wanted if column.key in cells]
    if aggregate == "none" or not known:
        return None
    if aggregate == "geometric":
        return _geometric([number for _, number in known], len(wanted)) if len(known) == len(wanted) else None
    weights = [column.weight if aggregate == "weighted" else 1.0 for column, _ in known]
    return Average(mean_number([number for _, number in known], weights), len(known))


def mean_number(numbers: Sequence[Number], weights: Sequence[float] | None = None) -> Number:
    """Return the mean of independent numbers; its error is the root of the sum of their squared shares.

    Raises: ZeroDivisionError for no numbers or weights of zero.
    """
    given = [1.0] * len(numbers) if weights is None else list(weights)
    shares = [weight / sum(given) for weight in given]
    value = sum(share * number.value for share, number in zip(shares, numbers, strict=True))
    errors = [number.stderr for number in numbers]
    known = [error for error in errors if error is not None]
    if len(known) != len(errors):
        return Number(value)
    stderr = math.sqrt(sum((share * error) ** 2 for share, error in zip(shares, known, strict=True)))
    return with_interval(value, stderr, "mean of independent columns, normal")


def with_interval(value: float, stderr: float, method: str) -> Number:
    """Return a mean of shares with the normal interval of its standard error, which ends at 0 and 1.

    (A normalised share may be negative, below chance: then the interval ends at the value itself.)
    """
    reach = two_sided_z(CONFIDENCE) * stderr
    low, high = max(value - reach, min(0.0, value)), min(value + reach, max(1.0, value))
    return Number(value, low, high, stderr, method)


def _geometric(numbers: Sequence[Number], n_columns: int) -> Average | None:
    values = [number.value for number in numbers]
    if min(values) < 0:
        return None
    if min(values) == 0:
        return Average(Number(0.0), n_columns)
    value = math.exp(sum(math.log(one) for one in values) / len(values))
    errors = [number.stderr for number in numbers]
    if any(error is None for error in errors):
        return Average(Number(value), n_columns)
    relative = sum((error / one) ** 2 for error, one in zip(errors, values, strict=True) if error is not None)
    return Average(with_interval(value, value * math.sqrt(relative) / len(values), "geometric mean"), n_columns)
