"""A board's average over its columns: by the board's rule for complete rows, else a labelled mean of some columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from assaymark.leaderboard.rows import Average, IntervalValue, RowScore, ScoreColumn, averaged
from assaymark.statistics.distributions import two_sided_z

CONFIDENCE = 0.95
MOVER = "MOVER from the columns' intervals"
Aggregate = Literal["mean", "weighted", "geometric", "none"]


def average_of(columns: Sequence[ScoreColumn], cells: Mapping[str, RowScore], aggregate: Aggregate) -> Average | None:
    """Return the average of the columns that a row has; None if it has none or the board has no average.

    There is no geometric mean of some columns only, since it would not be comparable.
    """
    wanted = averaged(columns)
    known = [(column, cells[column.key].number) for column in wanted if column.key in cells]
    if aggregate == "none" or not known:
        return None
    if aggregate == "geometric":
        return _geometric([number for _, number in known], len(wanted)) if len(known) == len(wanted) else None
    weights = [column.weight if aggregate == "weighted" else 1.0 for column, _ in known]
    return Average(mean_number([number for _, number in known], weights), len(known))


def mean_number(numbers: Sequence[IntervalValue], weights: Sequence[float] | None = None) -> IntervalValue:
    """Return the weighted mean of independent numbers, with a normal interval from their standard errors.

    The mean of one number is that number. If an error is 0, as for a proportion of 0 or 1, the numbers' own intervals
    are combined instead (`_mover`), so that no mean looks certain.

    Raises: ZeroDivisionError for no numbers or weights of zero.
    """
    if len(numbers) == 1:
        return numbers[0]
    all_weights = [1.0] * len(numbers) if weights is None else list(weights)
    shares = [weight / sum(all_weights) for weight in all_weights]
    value = sum(share * number.value for share, number in zip(shares, numbers, strict=True))
    errors = [number.stderr for number in numbers]
    known = [error for error in errors if error is not None]
    if len(known) != len(errors):
        return IntervalValue(value)
    if min(known) == 0.0:
        ends = [(number.value, number.low, number.high) for number in numbers]
        reach = _mover(shares, ends)
        return (
            IntervalValue(value) if reach is None else _within(value, *reach, f"mean of independent columns, {MOVER}")
        )
    stderr = math.sqrt(sum((share * error) ** 2 for share, error in zip(shares, known, strict=True)))
    return with_interval(value, stderr, "mean of independent columns, normal")


def with_interval(value: float, stderr: float, method: str) -> IntervalValue:
    """Return a mean of shares with the normal interval of its standard error, which ends at 0 and 1.

    (A normalised share may be negative, below chance: then the interval ends at the value itself.)
    """
    reach = two_sided_z(CONFIDENCE) * stderr
    return replace(_within(value, reach, reach, method), stderr=stderr)


def _mover(
    shares: Sequence[float], ends: Sequence[tuple[float, float | None, float | None]]
) -> tuple[float, float] | None:
    """Return how far the interval of a weighted sum reaches below and above it; None if a part has no interval.

    MOVER, the method of variance estimates recovery (Donner and Zou 2012, Statistical Methods in Medical Research 21).
    """
    below = above = 0.0
    for share, (value, low, high) in zip(shares, ends, strict=True):
        if low is None or high is None:
            return None
        below += (share * (value - low)) ** 2
        above += (share * (high - value)) ** 2
    return math.sqrt(below), math.sqrt(above)


def _within(value: float, below: float, above: float, method: str) -> IntervalValue:
    """Return a mean of shares with an interval that ends at 0 and 1, as `with_interval` does."""
    low, high = max(value - below, min(0.0, value)), min(value + above, max(1.0, value))
    return IntervalValue(value, low, high, (below + above) / (2.0 * two_sided_z(CONFIDENCE)), method)


def _geometric(numbers: Sequence[IntervalValue], n_columns: int) -> Average | None:
    if n_columns == 1:
        return Average(numbers[0], 1)
    values = [number.value for number in numbers]
    if min(values) < 0:
        return None
    if min(values) == 0:
        return Average(IntervalValue(0.0), n_columns)
    value = math.exp(sum(math.log(factor) for factor in values) / len(values))
    errors = [number.stderr for number in numbers]
    if 0.0 in errors:
        reach = _mover([1.0 / len(values)] * len(values), [_logarithms(number) for number in numbers])
        if reach is None:
            return Average(IntervalValue(value), n_columns)
        below, above = value * -math.expm1(-reach[0]), value * math.expm1(reach[1])
        return Average(_within(value, below, above, f"geometric mean, {MOVER}"), n_columns)
    if any(error is None for error in errors):
        return Average(IntervalValue(value), n_columns)
    relative = sum((error / factor) ** 2 for error, factor in zip(errors, values, strict=True) if error is not None)
    return Average(with_interval(value, value * math.sqrt(relative) / len(values), "geometric mean"), n_columns)


def _logarithms(number: IntervalValue) -> tuple[float, float | None, float | None]:
    """Return the logarithms of a positive value and its ends; that of an end at 0 is minus infinity."""
    low, high = (
        None if end is None else math.log(end) if end > 0.0 else -math.inf for end in (number.low, number.high)
    )
    return math.log(number.value), low, high
