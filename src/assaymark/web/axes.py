"""Axes of plots: where values lie between two ends, and round ticks with their texts."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date

import numpy as np
import numpy.typing as npt

__all__ = ["Axis", "date_axis", "log_axis", "number_axis"]

MOST_TICKS, MOST_LOG_TICKS = 7, 10
MARGIN = 0.04  # of an axis's length, free at both ends
LARGEST = 1e300  # the difference of two larger numbers may be infinite
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 360)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high`, in the units of its scale (days, logarithms)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]  # position in [0, 1], text
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return where a value lies, in [0, 1]."""
        return ((math.log10(value) if self.is_log else value) - self.low) / (self.high - self.low)

    def all_at(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return where values lie, in [0, 1]. Shapes: [values], both."""
        return np.asarray(((np.log10(values) if self.is_log else values) - self.low) / (self.high - self.low))


def number_axis(values: Iterable[float], shown: Callable[[float], str]) -> Axis:
    """Return an axis of numbers, whose ticks are 1, 2 or 5 times a power of ten apart."""
    found = list(values)
    low, high = _ends(found, abs(found[0]) * MARGIN or 1.0)
    step = 10.0 ** math.floor(math.log10((high - low) / MOST_TICKS))
    step = next(step * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (step * factor) <= MOST_TICKS)
    ticks = [round(number * step, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return _axis(low, high, [(tick, shown(tick)) for tick in ticks])


def log_axis(values: Iterable[float], unit: str = "") -> Axis:
    """Return a logarithmic axis of positive numbers with ticks at 1, 2 and 5 times powers of ten, or at the powers."""
    low, high = _ends([math.log10(value) for value in values], MARGIN)
    powers = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1, 2, 5), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low <= math.log10(tick) <= high]
        if len(inside) <= MOST_LOG_TICKS:
            break
    return _axis(low, high, [(math.log10(tick), f"{tick:g}{unit}") for tick in inside], is_log=True)


def date_axis(days: Iterable[date]) -> Axis:
    """Return an axis of days with ticks at the first day of months. Values: days as `date.toordinal` counts them."""
    low, high = _ends([float(day.toordinal()) for day in days], 31.0)
    first, last = (date.fromordinal(round(end)) for end in (low, high))
    n_months = 12 * (last.year - first.year) + last.month - first.month
    step = next((months for months in MONTHS if n_months / months <= MOST_TICKS), MONTHS[-1])
    beginning = 12 * first.year + first.month - 1
    starts = [date(month // 12, month % 12 + 1, 1) for month in range(beginning, beginning + n_months + 1)
              if month % step == 0]  # fmt: skip
    return _axis(low, high, [(start.toordinal(), f"{start:%b %Y}") for start in starts if low <= start.toordinal()])


def _ends(values: list[float], alone: float) -> tuple[float, float]:
    """Return the ends of an axis; `alone` is the room on both sides where all values are equal."""
    low, high = min(values), max(values)
    room = (high - low) * MARGIN or alone
    return max(low - room, -LARGEST), min(high + room, LARGEST)


def _axis(low: float, high: float, ticks: Iterable[tuple[float, str]], *, is_log: bool = False) -> Axis:
    return Axis(low, high, tuple(((tick - low) / (high - low), text) for tick, text in ticks), is_log)
