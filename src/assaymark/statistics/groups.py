"""Averages over tasks: micro and macro averages, weighted composites and rescaled scores, with their errors.

A macro average gives every task the same weight, a micro average every sample. Both are linear, so the error is the
root of the weighted sum of squares of the tasks' errors: not their mean, and not that of one large pooled task. These
errors describe the variation over other samples of the same tasks, not over other tasks of their kind.

Comparison of two results on different samples, or of a result with a published number.

Without the other side's answers nothing can be paired, so only larger differences can be detected. Shares get
Newcombe's interval, which has positive width at 0% and 100%, and the pooled score test; graded means get Welch's test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import normal_cdf, t_cdf
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.intervals import as_floats, score_interval, t_interval, wilson, wilson_size


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
    If both are on the same questions, the true uncertainty is smaller, so this test is conservative. Ours counts as
    many answers as its interval is wide for, which are fewer where answers depend on one another.

    Raises: DataError if the estimate or the published value is not a share.
    """
    if not (0.0 <= claimed <= 1.0 and 0.0 <= estimate.value <= 1.0 and claimed_n > 0):
        raise DataError(
            f"claimed {claimed} of n = {claimed_n} against {estimate.value}; expected shares from 0 to 1, not percent"
        )
    n = min(estimate.n, max(1, round(_size(estimate))))
    return compare_shares(round(claimed * claimed_n), claimed_n, round(estimate.value * n), n, confidence=confidence)


Parts = Sequence[IntervalEstimate]


def linear_stderr(stderrs: Sequence[float], weights: Sequence[float]) -> float:
    """Return √Σ (w_t SE_t)²: the error of Σ w_t score_t with independent tasks."""
    if len(stderrs) != len(weights) or not stderrs:
        raise DataError(f"{len(stderrs)} errors and {len(weights)} weights; expected equal numbers, at least 1")
    return math.sqrt(sum((w * error) ** 2 for w, error in zip(weights, stderrs, strict=True)))


Bounds = tuple[float, float] | None


def estimate_composite(
    parts: Sequence[IntervalEstimate | None],
    weights: Sequence[float],
    *,
    confidence: float = 0.95,
    bounds: Bounds = (0.0, 1.0),
    name: str = "composite",
) -> IntervalEstimate:
    """Return Σ w_t value_t with its error and interval.

    For scores between 0 and 1 and weights that sum to 1 the interval is the score interval of proportions
    (`score_interval`), where each member counts as as many right or wrong answers as give its own interval's width
    (`wilson_size`): it stays within [0, 1], and a small member that is all right or all wrong widens it, although its
    standard error is 0. Otherwise it is Student's, with degrees of freedom after Satterthwaite 1946. A single member
    with weight 1 keeps its own interval. Pass `bounds=None` for metrics that are no shares (bits per byte).

    Raises: DataError for a missing member: an incomplete composite is never averaged over the members it has.
    """
    members = _complete(parts, weights)
    if len(members) == 1 and weights[0] == 1.0 and members[0].confidence == confidence:
        return members[0]
    value = float(sum(w * part.value for w, part in zip(weights, members, strict=True)))
    n = sum(part.n for part in members)
    shares = [w * w * _variance(part, value) for w, part in zip(weights, members, strict=True)]
    if any(not math.isfinite(share) for share in shares):
        return IntervalEstimate(value, None, None, None, f"none: a part of this {name} has no error", n, confidence)
    stderr, df = math.sqrt(sum(shares)), _satterthwaite(shares, members)
    averaging = abs(sum(weights) - 1.0) < 1e-9 and min(weights) >= 0
    if bounds == (0.0, 1.0) and averaging and all(0.0 <= part.value <= 1.0 for part in members):
        values = np.array([part.value for part in members])
        sizes = np.array([_size(part) for part in members])
        interval, method = score_interval(values, sizes, np.array(weights), confidence), f"{name} score"
    else:
        interval, method = t_interval(value, stderr, df, confidence), f"{name} t"
    return IntervalEstimate(value, interval.low, interval.high, stderr, method, n, confidence, df=df)


def _complete(parts: Sequence[IntervalEstimate | None], weights: Sequence[float]) -> list[IntervalEstimate]:
    missing = [index for index, part in enumerate(parts) if part is None]
    if missing or not parts or len(parts) != len(weights):
        raise DataError(
            f"{len(parts)} members, {len(missing)} of them missing (positions {missing}), {len(weights)} weights; "
            "expected every member of the composite and one weight each: score the missing tasks first"
        )
    return [part for part in parts if part is not None]


def _variance(part: IntervalEstimate, overall: float) -> float:
    """Return the squared error of one part; that of a single sample is taken from 0s and 1s of the overall mean."""
    if part.stderr is not None:
        return part.stderr**2
    return overall * (1.0 - overall) / part.n if 0.0 <= overall <= 1.0 else math.nan


def _size(part: IntervalEstimate) -> float:
    """Return the number of right or wrong answers that would give a part's interval, else its samples."""
    if part.low is None or part.high is None:
        return float(part.n_clusters or part.n)
    return min(wilson_size(part.value, part.high - part.low, part.confidence), 1e12)


def _satterthwaite(shares: Sequence[float], members: Parts) -> float:
    freedom = [float(part.df or max((part.n_clusters or part.n) - 1, 1)) for part in members]
    bottom = sum(share * share / df for share, df in zip(shares, freedom, strict=True))
    return sum(shares) ** 2 / bottom if bottom > 0 else sum(freedom)
