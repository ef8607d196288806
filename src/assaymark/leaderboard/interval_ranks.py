"""The ranks that a row may have, from simultaneous intervals, in O(n log n).

Each interval is stretched so that all of them hold at once (Bonferroni: confidence 1 - alpha / n for each, whatever
their dependence). A row is then significantly below the rows whose low end lies above its high end. The rank sets hold
simultaneously, too; a paired test of two rows (the compare page) detects smaller differences.

Source: rank confidence sets after Mogstad, Romano, Shaikh and Wilhelm 2024, from simultaneous marginal intervals as in
Klein, Wright and Wieczorek 2020.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.distributions import two_sided_z

Integers = NDArray[np.int64]
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Ranks:
    """Arrays over rows; 0 where a row has no value and so no rank."""

    rank: Integers  # 1 + number of rows with a higher value
    best: Integers
    worst: Integers


def stretched(values: Floats, lows: Floats, highs: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Return the ends of the intervals at the confidence at which all of them hold together.

    Each arm is lengthened by the ratio of the normal quantiles. NaN where there is no interval.
    """
    n = max(int(np.isfinite(lows).sum()), 1)
    factor = two_sided_z(1.0 - (1.0 - confidence) / n) / two_sided_z(confidence)
    return values - factor * (values - lows), values + factor * (highs - values)


def interval_ranks(values: Floats, lows: Floats, highs: Floats, *, groups: Ints | None = None) -> Ranks:
    """Return each row's rank and set of ranks, 1 is best.

    Args:
        values: higher is better; NaN has no rank.
        lows: ends of each row's own interval; NaN where unknown: the row may then have any rank.
        highs: as `lows`.
        groups: rows with different codes are ranked separately.

    Shapes: all [rows].
    """
    rank, best, worst = (np.zeros(len(values), dtype=np.int64) for _ in range(3))
    codes = np.zeros(len(values), dtype=np.int64) if groups is None else groups
    for code in np.unique(codes):
        at = np.flatnonzero((codes == code) & np.isfinite(values))
        if len(at):
            rank[at], best[at], worst[at] = _ranks(values[at], lows[at], highs[at])
    return Ranks(rank, best, worst)


def _ranks(values: Floats, lows: Floats, highs: Floats) -> tuple[Integers, Integers, Integers]:
    n = len(values)
    low, high = stretched(values, lows, highs)
    low, high = np.where(np.isfinite(low), low, -np.inf), np.where(np.isfinite(high), high, np.inf)
    ordered, low_ends, high_ends = np.sort(values), np.sort(low), np.sort(high)
    rank = 1 + n - np.searchsorted(ordered, values, side="right")
    best = 1 + n - np.searchsorted(low_ends, high, side="right")  # low ends above this row's high end
    worst = n - np.searchsorted(high_ends, low, side="left")  # high ends below this row's low end
    return rank, best, worst


def tier_starts(values: Floats, lows: Floats, highs: Floats) -> NDArray[np.bool_]:
    """Return where tiers begin among rows sorted from the best: at each row significantly below the first of its tier.

    The first row begins none. Shapes: all [rows].
    """
    low, high = stretched(values, lows, highs)
    starts = np.zeros(len(values), dtype=bool)
    top: float | None = None
    for place, (bottom, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if math.isnan(bottom):
            continue
        if top is None:
            top = bottom
        elif end < top:
            starts[place], top = True, bottom
    return starts
