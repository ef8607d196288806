"""Estimates from a database's results: sums of weighted values, sorted values for quantiles, and means of drawn scores.

A score that a rule gives was drawn with a known probability.
"""

import math
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import binomial_sf, t_quantile, two_sided_z
from assaymark.statistics.estimate import (
    IntervalEstimate,
    cluster_sums,
    effective_wilson,
    estimate_mean,
    without_rounding,
)
from assaymark.statistics.intervals import as_floats, check_confidence, t_interval, wilson

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
    n_clusters: int | None = None,
    has_equal_weights: bool = False,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Return a weighted mean with its interval from sums over values x with weights w (1 over a sampling rate).

    Values may depend on each other within clusters (sessions), of which W = Σw and A = Σwx are the sums; without
    clusters each value is one. mean = ΣA / ΣW (Hajek), with the linearised error √(C/(C-1) Σ(A - W mean)²) / ΣW over C
    clusters. Zeros and ones of equal weights without clusters get Wilson's interval, other values of [0, 1] Wilson's
    with the effective number, all others Student's.

    Args:
        n: values.
        weights: Σw.
        squared_weights: ΣW².
        values: Σwx.
        squared: ΣWA.
        squares: ΣA².
        extremes: the smallest and the largest value.
        is_share: whether only values in [0, 1] are possible.
        n_clusters: C; None: each value is one.
        has_equal_weights: whether all w are known to be the same, so that clusters differ only by their sizes.

    Returns: the estimate; without an interval for equal values that are no shares, a single one, or one cluster.

    Raises: DataError for no values or weights, or more clusters than values.
    Source: Särndal, Swensson and Wretman 1992, section 5.7; Kish 1965 (effective number); Miller 2024 (arXiv
        2411.00640) equation 4, with the factor of Liang and Zeger.
    """
    check_confidence(confidence)
    if n < 1 or weights <= 0 or squared_weights <= 0:
        raise DataError(f"{n} values with weights of {weights:g} together; expected at least one, with a weight")
    n_independent = n if n_clusters is None else n_clusters
    if not 1 <= n_independent <= n:
        raise DataError(f"{n_independent} clusters of {n} values; expected at least one, and at most as many")
    is_clustered = n_independent < n
    mean = values / weights
    if is_clustered and n_independent < 2:
        mean = min(max(mean, extremes[0]), extremes[1])
        return IntervalEstimate(mean, None, None, None, "none: one cluster", n, confidence, n_independent)
    n_effective = float(n_independent) if is_clustered and has_equal_weights else weights**2 / squared_weights
    df = max(n_effective - 1, 1.0)
    # the difference of large sums may be a little above or below 0 where all clusters have one mean
    spread = squares - 2 * mean * squared + mean**2 * squared_weights
    spread = 0.0 if extremes[0] == extremes[1] or spread <= 1e-13 * squares else spread
    stderr = math.sqrt(n_independent / (n_independent - 1) * spread) / weights if n_independent > 1 else None
    clusters = n_independent if is_clustered else None
    prefix = "clustered " if is_clustered else ""
    if is_share:
        mean = min(max(mean, extremes[0]), extremes[1])  # a rounding error would be refused
        is_equal = abs(n_effective - n) < 1e-9 * n
        is_binary = not is_clustered and is_equal and math.isclose(squared, squares, rel_tol=1e-9, abs_tol=1e-12)
        interval = (
            wilson(mean * n, n, confidence)
            if is_binary
            else effective_wilson(mean, stderr or 0.0, n_effective, df, confidence)
        )
        method = "wilson" if is_binary else f"{prefix or 'effective '}wilson"
        return IntervalEstimate(mean, interval.low, interval.high, stderr, method, n, confidence, clusters, df)
    if not stderr:
        return IntervalEstimate(mean, None, None, stderr, "none: all values are equal", n, confidence, clusters)
    interval = t_interval(mean, stderr, df, confidence)
    return IntervalEstimate(mean, interval.low, interval.high, stderr, f"{prefix}t", n, confidence, clusters, df)


def estimate_quantile(
    values: Floats, share: float, clusters: NDArray[np.intp] | None = None, confidence: float = 0.95
) -> IntervalEstimate:
    """Return a quantile with an interval between two of the values, which needs no distribution.

    The k-th smallest value is above the quantile only if fewer than k values are below it, so the ends are those of a
    binomial distribution. An end beyond the smallest or largest value is None. Values that depend on each other within
    clusters say as much as fewer independent ones, n* = p(1 - p) / SE² with the clustered error of the share p of
    values up to the quantile (at most n, and less for few clusters): the ranks are those of n* values, spread over n.

    Args:
        values: at least one, in any order. Shape: [n].
        share: 0.5 for the median.
        clusters: the number of each value's cluster, from 0. Shape: [n]. None: values are independent.
        confidence: of the interval; without clusters it is at least that up to 200 values, and about that beyond.

    Returns: the estimate; without an interval where all values are of one cluster.

    Raises: DataError.
    Source: Conover 1999, section 3.2; Woodruff 1952, with the effective number of Korn and Graubard 1998.
    """
    check_confidence(confidence)
    n = len(values)
    if n < 1 or not 0 < share < 1:
        raise DataError(f"the {share} quantile of {n} values; expected a share between 0 and 1, and values")
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    rank = min(max(math.ceil(share * n), 1), n)
    value = float(ordered[rank - 1])
    if clusters is None:
        low, high, n_clusters = *_ranks(n, share, confidence), None
    else:
        n_clusters = len(np.unique(clusters))
        if n_clusters < 2:
            return IntervalEstimate(value, None, None, None, "none: one cluster", n, confidence, n_clusters)
        n_effective = _effective_number(clusters[order], rank, n_clusters, confidence)
        low, high = _ranks(n_effective, share, confidence)
        step = (n + 1) / (n_effective + 1)
        low, high = math.floor(low * step), n + 1 if high > n_effective else math.ceil(high * step)
    ends = [float(ordered[k - 1]) if 1 <= k <= n else None for k in (low, high)]
    method = "order statistics" if clusters is None else "clustered order statistics"
    return IntervalEstimate(value, ends[0], ends[1], None, method, n, confidence, n_clusters)


def _effective_number(clusters: NDArray[np.intp], rank: int, n_clusters: int, confidence: float) -> int:
    """Return how many independent values say as much of the share of values up to `rank`. clusters: by value."""
    n = len(clusters)
    deviations = np.full(n, -rank / n)
    deviations[:rank] += 1.0
    sums = np.bincount(clusters, weights=deviations)
    variance = n_clusters / (n_clusters - 1) * float((sums**2).sum()) / n**2
    shrinks = (two_sided_z(confidence) / t_quantile(0.5 + confidence / 2, n_clusters - 1)) ** 2
    p = rank / n
    independent = p * (1 - p) / variance if variance > 0 and p < 1 else n_clusters
    return max(math.floor(min(independent, n) * shrinks), 1)


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


def estimate_sampled_mean(
    values: Sequence[float],
    rates: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    is_share: bool | None = None,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Estimate the mean that all traces would have, of those that were drawn, each at its own rate.

    The mean is sum(y / r) / sum(1 / r), Hajek's form of the Horvitz-Thompson estimate. Its error is that of a ratio,
    linearised, over clusters: it holds for the application that made the traces, not for these traces alone, so it is
    above 0 at a rate of 1 too. At one rate it is `estimate_mean`. Of shares the interval is Wilson's with the effective
    number of scores, otherwise Student's.

    Args:
        rates: the probability with which each was drawn, 0 < r <= 1.
        clusters: a label per score; those of one label (a session) may depend on each other. None: none do.
        is_share: whether only values in [0, 1] are possible; None: whether these are.

    Returns: the estimate; without an interval where all scores are of one cluster.

    Raises: DataError for no scores, counts that differ, or a rate outside (0, 1].
    Source: Hajek 1971; Särndal, Swensson and Wretman 1992, section 5.7; Kish 1965 (effective number).
    """
    scores, drawn = as_floats(values), as_floats(rates, "rates")
    n_labels = len(scores) if clusters is None else len(clusters)
    if not len(scores) == len(drawn) == n_labels:
        raise DataError(f"{len(scores)} scores, {len(drawn)} rates and {n_labels} clusters; expected equal numbers")
    if drawn.min() <= 0 or drawn.max() > 1:
        raise DataError(f"rates are from {drawn.min():g} to {drawn.max():g}; expected more than 0 and at most 1")
    n_clusters = len(scores) if clusters is None else len(set(clusters))
    weights = 1.0 / drawn
    total = float(weights.sum())
    mean = float((weights * scores).sum()) / total
    if n_clusters < 2:
        return IntervalEstimate(mean, None, None, None, "none: one cluster", len(scores), confidence, n_clusters)
    if drawn.min() == drawn.max():
        labels = clusters if n_clusters < len(scores) else None
        binary, bounds = (False, (-math.inf, math.inf)) if is_share is False else (None, None)
        return estimate_mean(values, binary=binary, clusters=labels, confidence=confidence, bounds=bounds)
    residuals = weights * (scores - mean)
    sums = weights
    if clusters is not None:
        residuals, sums = cluster_sums(residuals, clusters), cluster_sums(weights, clusters)
    stderr = without_rounding(math.sqrt(n_clusters / (n_clusters - 1) * float((residuals**2).sum())) / total, scores)
    n_effective = total**2 / float((sums**2).sum())
    df = max(n_effective - 1.0, 1.0)
    if (scores.min() >= 0 and scores.max() <= 1) if is_share is None else is_share:
        interval, method = effective_wilson(mean, stderr, n_effective, df, confidence), "weighted wilson"
    elif stderr == 0:
        method = "none: all scores are equal"
        return IntervalEstimate(mean, None, None, None, method, len(scores), confidence, n_clusters)
    else:
        interval, method = t_interval(mean, stderr, df, confidence), "weighted t"
    n = len(scores)
    return IntervalEstimate(mean, interval.low, interval.high, stderr, method, n, confidence, n_clusters, df)
