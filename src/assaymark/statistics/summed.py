"""Estimates from what a database returns: sums of weighted values, and sorted values of which a quantile is wanted."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from assaymark.errors import DataError
from assaymark.statistics.distributions import binomial_sf, two_sided_z
from assaymark.statistics.estimate import IntervalEstimate, effective_wilson
from assaymark.statistics.intervals import check_confidence, t_interval, wilson

__all__ = ["estimate_from_sums", "estimate_quantile"]

EXACT_UP_TO = 200  # values: beyond, the normal approximation of the ranks is as good


def estimate_from_sums(
    n: int,
    weights: float,
    squared_weights: float,
    values: float,
    squared: float,
    squares: float,
    *,
    extremes: tuple[float, float],
    is_share: bool,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Return a weighted mean with its interval from sums over values x with weights w (1 over a sampling rate).

    mean = Σwx / Σw (Hajek), with the linearised error √(n/(n-1) Σw²(x - mean)²) / Σw. Zeros and ones of equal weights
    get Wilson's interval, other values of [0, 1] Wilson's with the effective number, all others Student's.

    Args:
        n: values.
        weights: Σw.
        squared_weights: Σw².
        values: Σwx.
        squared: Σw²x.
        squares: Σw²x².
        extremes: the smallest and the largest value.
        is_share: whether only values in [0, 1] are possible.
        confidence: of the interval.

    Returns: the estimate; without an interval for equal values that are no shares, or a single one.

    Raises: DataError for no values or weights.
    Source: Särndal, Swensson and Wretman 1992, section 5.7; Kish 1965 (effective number).
    """
    check_confidence(confidence)
    if n < 1 or weights <= 0 or squared_weights <= 0:
        raise DataError(f"{n} values with weights of {weights:g} together; expected at least one, with a weight")
    mean = values / weights
    n_effective = weights**2 / squared_weights
    df = max(n_effective - 1, 1.0)
    # the difference of large sums may be a little below 0 where all values are equal
    spread = max(squares - 2 * mean * squared + mean**2 * squared_weights, 0.0)
    spread = 0.0 if extremes[0] == extremes[1] else spread
    stderr = math.sqrt(n / (n - 1) * spread) / weights if n > 1 else None
    if is_share:
        mean = min(max(mean, extremes[0]), extremes[1])  # a rounding error would be refused
        is_equal = abs(n_effective - n) < 1e-9 * n
        is_binary = is_equal and math.isclose(squared, squares, rel_tol=1e-9, abs_tol=1e-12)
        interval = (
            wilson(mean * n, n, confidence)
            if is_binary
            else effective_wilson(mean, stderr or 0.0, n_effective, df, confidence)
        )
        method = "wilson" if is_binary else "effective wilson"
        return IntervalEstimate(mean, interval.low, interval.high, stderr, method, n, confidence, df=df)
    if not stderr:
        return IntervalEstimate(mean, None, None, stderr, "none: all values are equal", n, confidence)
    interval = t_interval(mean, stderr, df, confidence)
    return IntervalEstimate(mean, interval.low, interval.high, stderr, "t", n, confidence, df=df)


def estimate_quantile(ordered: Sequence[float], share: float, confidence: float = 0.95) -> IntervalEstimate:
    """Return a quantile with an interval between two of the values, which needs no distribution.

    The k-th smallest value is above the quantile only if fewer than k values are below it, so the ends are those of a
    binomial distribution. An end beyond the smallest or largest value is None.

    Args:
        ordered: ascending, at least one.
        share: 0.5 for the median.
        confidence: of the interval; it is at least that up to 200 values, and about that beyond.

    Raises: DataError.
    Source: Conover 1999, section 3.2.
    """
    check_confidence(confidence)
    n = len(ordered)
    if n < 1 or not 0 < share < 1:
        raise DataError(f"the {share} quantile of {n} values; expected a share between 0 and 1, and values")
    value = float(ordered[min(max(math.ceil(share * n), 1), n) - 1])
    low, high = _ranks(n, share, confidence)
    ends = [float(ordered[k - 1]) if 1 <= k <= n else None for k in (low, high)]
    return IntervalEstimate(value, ends[0], ends[1], None, "order statistics", n, confidence)


@lru_cache(maxsize=4096)
def _ranks(n: int, share: float, confidence: float) -> tuple[int, int]:
    """Return the ranks of the ends, from 1; 0 and n + 1 where an end is beyond the values."""
    if n > EXACT_UP_TO:
        half = two_sided_z(confidence) * math.sqrt(n * share * (1 - share))
        return math.floor(n * share - half), math.ceil(n * share + half) + 1
    tail, ranks = (1 - confidence) / 2, range(1, n + 1)
    # P(B >= k) falls with k: the low rank is the last with P(B < k) <= tail, the high one the first with P(B >= k)
    low = bisect_left(ranks, True, key=lambda k: 1 - binomial_sf(k, n, share) > tail)
    high = bisect_left(ranks, True, key=lambda k: binomial_sf(k, n, share) <= tail) + 1
    return low, high
