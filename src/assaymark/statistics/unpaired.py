"""Comparison of two results on different samples, or of a result with a published number.

Without the other side's answers nothing can be paired, so only larger differences can be detected. Shares get
Newcombe's interval, which has positive width at 0% and 100%, and the pooled score test; graded means get Welch's test.
"""

import math
from dataclasses import dataclass

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import normal_cdf, t_cdf
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.intervals import as_floats, t_interval, wilson


@dataclass(frozen=True, slots=True)
class UnpairedComparison:
    """B minus A on different samples."""

    difference: float
    low: float
    high: float
    p: float  # two-sided, of no difference
    n_a: int
    n_b: int
    method: str
    confidence: float = 0.95


def compare_shares(right_a: int, n_a: int, right_b: int, n_b: int, *, confidence: float = 0.95) -> UnpairedComparison:
    """Compare two proportions of correct answers.

    Interval: d - √((p_b - l_b)² + (u_a - p_a)²), d + √((u_b - p_b)² + (p_a - l_a)²) with Wilson's ends l, u.
    Source: Newcombe 1998 (difference of independent proportions), method 10; p: pooled score test (Pearson 1900).
    Raises: DataError for impossible counts.
    """
    interval_a, interval_b = wilson(right_a, n_a, confidence), wilson(right_b, n_b, confidence)
    p_a, p_b = right_a / n_a, right_b / n_b
    difference = p_b - p_a
    low = difference - math.hypot(p_b - interval_b.low, interval_a.high - p_a)
    high = difference + math.hypot(interval_b.high - p_b, p_a - interval_a.low)
    pooled = (right_a + right_b) / (n_a + n_b)
    stderr = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_a + 1.0 / n_b))
    p = 2.0 * normal_cdf(-abs(difference) / stderr) if stderr > 0 else 1.0
    return UnpairedComparison(difference, low, high, p, n_a, n_b, "Newcombe interval, score test", confidence)


def compare_means(a: Floats, b: Floats, *, confidence: float = 0.95) -> UnpairedComparison:
    """Compare the means of graded scores of different samples. Source: Welch 1947.

    Raises: DataError for fewer than two scores on a side, or no spread on either.
    """
    first, second = as_floats(a, "A's scores"), as_floats(b, "B's scores")
    if min(len(first), len(second)) < 2:
        raise DataError(f"{len(first)} and {len(second)} scores; expected at least 2 on either side")
    parts = (first.var(ddof=1) / len(first), second.var(ddof=1) / len(second))
    stderr = math.sqrt(sum(parts))
    if stderr == 0:
        raise DataError("all scores are equal on each side: the error of the difference is unknown")
    df = sum(parts) ** 2 / (parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1))
    difference = float(second.mean() - first.mean())
    interval = t_interval(difference, stderr, df, confidence)
    p = 2.0 * t_cdf(-abs(difference) / stderr, df)
    return UnpairedComparison(difference, interval.low, interval.high, p, len(first), len(second), "Welch", confidence)


def compare_with_claim(
    estimate: IntervalEstimate, claimed: float, claimed_n: int, *, confidence: float = 0.95
) -> UnpairedComparison:
    """Compare our estimate of a share with a published one; the difference is ours minus the published value.

    The published answers are not known, so `round(claimed · n)` of n are assumed correct, and the results independent.
    If both are on the same questions, the true uncertainty is smaller, so this test is conservative.

    Raises: DataError if the estimate or the published value is not a share.
    """
    if not (0.0 <= claimed <= 1.0 and 0.0 <= estimate.value <= 1.0 and claimed_n > 0):
        raise DataError(
            f"claimed {claimed} of n = {claimed_n} against {estimate.value}; expected shares from 0 to 1, not percent"
        )
    ours = round(estimate.value * estimate.n)
    return compare_shares(round(claimed * claimed_n), claimed_n, ours, estimate.n, confidence=confidence)
