"""Estimate of a task's value with an interval; this module alone chooses the method.

Proportions of correct answers get Wilson's interval; graded scores Student's, or BCa if they are skewed; clustered
scores an interval that takes the dependence within clusters (questions about one passage) into account. An interval
has positive width even if all samples are correct.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import t_quantile
from assaymark.statistics.intervals import Interval, as_floats, bca, t_interval, unseen_share, wilson

Family = Literal["perplexity", "bits"]

SKEW_LIMIT = 0.15  # of the mean's distribution, skewness / √n: above it Student's interval misses too often
ROUNDING = 1e-12  # of the largest value: a spread below it is none
BCA_FROM = 20  # samples: with fewer the bootstrap represents the tails badly


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A value with its uncertainty. low and high are None if no interval can be computed, never a guess."""

    value: float
    low: float | None
    high: float | None
    stderr: float | None
    method: str
    n: int  # samples
    confidence: float = 0.95
    n_clusters: int | None = None
    df: float | None = None  # degrees of freedom of stderr, if Student's distribution is used


def estimate_mean(
    values: Sequence[float] | NDArray[np.generic],
    *,
    binary: bool | None = None,
    clusters: Sequence[Hashable] | NDArray[np.generic] | None = None,
    confidence: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> IntervalEstimate:
    """Estimate the mean of one score per sample.

    Args:
        values: one number per sample; the caller excludes (and counts) failed samples.
        binary: whether all scores are 0 or 1; None: determined from the scores.
        clusters: a label per sample; samples with the same label are dependent (one passage, one original question).
            None: samples are independent.
        bounds: smallest and largest possible score; None: (0, 1) if these scores are within it, else none;
            (-inf, inf): none.

    Raises: DataError for no samples, values that are not finite numbers, or clusters that do not match.
    Source: those of `intervals` and `cluster_stderr`.
    """
    scores = as_floats(values)
    n = len(scores)
    is_binary = bool(np.isin(scores, (0.0, 1.0)).all()) if binary is None else binary
    if is_binary and not np.isin(scores, (0.0, 1.0)).all():
        raise DataError("binary=True, but not all scores are 0 or 1; partial credit needs binary=None or False")
    limits = bounds if bounds is not None else ((0.0, 1.0) if scores.min() >= 0 and scores.max() <= 1 else None)
    if clusters is not None:
        return _clustered(scores, clusters, limits, confidence)
    mean = float(scores.mean())
    if is_binary:
        interval = wilson(float(scores.sum()), n, confidence)
        return IntervalEstimate(mean, interval.low, interval.high, stderr_of_mean(scores), "wilson", n, confidence)
    if n == 1 or float(np.ptp(scores)) <= ROUNDING * float(np.abs(scores).max()):
        return _without_spread(mean, n, n, limits, confidence)
    stderr = stderr_of_mean(scores) or 0.0
    interval, method = _graded(scores, mean, stderr, limits, confidence)
    low, high = _clip(interval, limits)
    return IntervalEstimate(mean, low, high, stderr, method, n, confidence, df=n - 1)


def _graded(
    scores: Floats, mean: float, stderr: float, limits: tuple[float, float] | None, confidence: float
) -> tuple[Interval, str]:
    n = len(scores)
    if abs(skewness(scores)) / math.sqrt(n) <= SKEW_LIMIT:
        return t_interval(mean, stderr, n - 1, confidence), "t"
    if n >= BCA_FROM:
        return bca(scores, confidence=confidence, name=("estimate_mean", n)), "bca"
    if limits == (0.0, 1.0):  # no scores in [0, 1] vary more than 0s and 1s of the same mean: wide but conservative
        return wilson(float(scores.sum()), n, confidence), "wilson (bound for graded scores)"
    return t_interval(mean, stderr, n - 1, confidence), "t"


def skewness(values: Floats) -> float:
    """Return the third standardised moment; 0 if all values are equal."""
    deviations = values - values.mean()
    spread = float((deviations**2).mean())
    return float((deviations**3).mean()) / spread**1.5 if spread > 0 else 0.0


def cluster_stderr(
    values: Sequence[float] | Floats, clusters: Sequence[Hashable] | NDArray[np.generic]
) -> tuple[float, int]:
    """Return the clustered standard error of the mean and the number of clusters.

    SE² = C/(C-1) Σ_c (Σ_i d_ic)² / n² with d the deviations from the mean: the ordinary error if every cluster has
    one sample. Source: Miller 2024 (arXiv 2411.00640) equation 4, with the finite-cluster factor of Liang and Zeger.
    Raises: DataError for fewer than two clusters.
    """
    scores = as_floats(values)
    if len(clusters) != len(scores):
        raise DataError(f"{len(clusters)} cluster labels for {len(scores)} scores; expected one per score")
    sums = cluster_sums(scores - scores.mean(), clusters)
    count = len(sums)
    if count < 2:
        raise DataError(f"{len(scores)} samples in {count} cluster; a clustered error needs at least 2 clusters")
    stderr = math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(scores)
    return without_rounding(stderr, scores), count


def without_rounding(stderr: float, values: Floats) -> float:
    """Return the error, 0 where it is only rounding: 1/3 right in every cluster is no error of 1e-17."""
    return stderr if stderr > ROUNDING * float(np.abs(values).max()) else 0.0


def cluster_sums(values: Floats, clusters: Sequence[Hashable] | NDArray[np.generic]) -> Floats:
    """Return the sum of the values in each cluster, in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    index = np.array([numbers.setdefault(label, len(numbers)) for label in clusters], dtype=np.int64)
    return np.asarray(np.bincount(index, weights=values, minlength=len(numbers)), dtype=np.float64)


def effective_wilson(mean: float, stderr: float, n_floor: float, df: float, confidence: float) -> Interval:
    """Return Wilson's interval with the effective sample size of the standard error, and t in place of z.

    n* = p(1-p)/SE²; if p is 0 or 1 the error is uninformative and n* is `n_floor`.
    Source: Korn and Graubard 1998, applied to the score interval (Franco et al. 2019).
    """
    n_effective = mean * (1.0 - mean) / stderr**2 if stderr > 0 and 0 < mean < 1 else n_floor
    return wilson(mean * n_effective, n_effective, confidence, z=t_quantile(0.5 + confidence / 2.0, df))


def _clustered(
    scores: Floats,
    clusters: Sequence[Hashable] | NDArray[np.generic],
    limits: tuple[float, float] | None,
    confidence: float,
) -> IntervalEstimate:
    mean, n = float(scores.mean()), len(scores)
    if len(set(clusters)) < 2:
        raise DataError(f"{n} samples in {len(set(clusters))} cluster; a clustered estimate needs at least 2 clusters")
    stderr, count = cluster_stderr(scores, clusters)
    if limits == (0.0, 1.0):
        interval, method = effective_wilson(mean, stderr, count, count - 1, confidence), "clustered wilson"
    elif stderr == 0:
        return _without_spread(mean, n, count, limits, confidence)
    else:
        interval, method = t_interval(mean, stderr, count - 1, confidence), "clustered t"
    low, high = _clip(interval, limits)
    return IntervalEstimate(mean, low, high, stderr, method, n, confidence, n_clusters=count, df=count - 1)


def stderr_of_mean(scores: Floats) -> float | None:
    """Return the standard error of the mean of independent scores; None for fewer than two."""
    return float(scores.std(ddof=1) / math.sqrt(len(scores))) if len(scores) > 1 else None


def _without_spread(
    mean: float, n: int, n_independent: int, limits: tuple[float, float] | None, confidence: float
) -> IntervalEstimate:
    """Return the interval if all scores are equal: the share of samples that may still differ bounds the mean."""
    if limits is None or not all(math.isfinite(limit) for limit in limits):
        return IntervalEstimate(mean, None, None, None, "none: all scores are equal", n, confidence)
    share = unseen_share(n_independent, confidence)
    low, high = mean - share * (mean - limits[0]), mean + share * (limits[1] - mean)
    return IntervalEstimate(mean, low, high, 0.0 if n > 1 else None, "unseen share", n, confidence)


def _clip(interval: Interval, limits: tuple[float, float] | None) -> tuple[float, float]:
    if limits is None:
        return interval.low, interval.high
    return max(interval.low, limits[0]), min(interval.high, limits[1])


# ------------------------------------------------------------------------------------ ratios of sums


def estimate_ratio(
    amounts: Sequence[float] | NDArray[np.generic],
    weights: Sequence[float] | NDArray[np.generic],
    *,
    family: Family | None = None,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Estimate Σ amounts / Σ weights over documents, or a perplexity computed from it.

    `family="perplexity"` gives exp(-ratio), `"bits"` -ratio / ln 2 (amounts in nats, weights in words or bytes). The
    interval is computed for the ratio and transformed, so that a perplexity's is asymmetric.

    Source: the delta method for a ratio of means, SE² = n/(n-1) Σ (a_i - r w_i)² / (Σ w)² (Cochran 1977, 2.39).
    Raises: DataError for counts that differ or a sum of weights that is not positive.
    """
    tops, bottoms = as_floats(amounts, "amounts"), as_floats(weights, "weights")
    if len(tops) != len(bottoms) or bottoms.sum() <= 0:
        raise DataError(
            f"{len(tops)} amounts and {len(bottoms)} weights of sum {bottoms.sum()}; expected equal numbers, sum > 0"
        )
    n, total = len(tops), float(bottoms.sum())
    ratio = float(tops.sum()) / total
    if n == 1:
        value = _transformed(ratio, family)
        return IntervalEstimate(value, None, None, None, "none: one document", n, confidence)
    stderr = math.sqrt(n / (n - 1) * float(((tops - ratio * bottoms) ** 2).sum())) / total
    value = _transformed(ratio, family)
    if stderr <= ROUNDING * abs(ratio):
        return IntervalEstimate(value, None, None, None, "none: all ratios are equal", n, confidence)
    interval = t_interval(ratio, stderr, n - 1, confidence)
    low, high = sorted((_transformed(interval.low, family), _transformed(interval.high, family)))
    slope = {"perplexity": value, "bits": 1.0 / math.log(2)}.get(family or "", 1.0)
    return IntervalEstimate(value, low, high, slope * stderr, "ratio t", n, confidence, df=n - 1)


def estimate_perplexity(nats: Sequence[float] | Floats, confidence: float = 0.95) -> IntervalEstimate:
    """Estimate lm-eval's per-sample perplexity, exp(-mean of log-likelihoods); the interval is computed in nats."""
    return estimate_ratio(nats, np.ones(len(nats)), family="perplexity", confidence=confidence)


def _transformed(ratio: float, family: Family | None) -> float:
    if family == "perplexity":
        return math.exp(-ratio) if ratio > -709 else math.inf
    return -ratio / math.log(2) if family == "bits" else ratio


def estimate_by_resampling(
    function: Callable[[Sequence[object]], float],
    items: Sequence[object],
    *,
    confidence: float = 0.95,
    draws: int = 1_000,
) -> IntervalEstimate:
    """Estimate any statistic of the samples' items, with a percentile interval of resampled samples.

    Resamples in which the statistic is not defined (it raises ArithmeticError or ValueError, or is not finite) are left
    out; where fewer than nine in ten are defined, or all are equal, there is no interval.

    Raises: what `function` raises of the samples themselves.
    Source: Efron 1979; the draws are those of the generator named after the number of samples.
    """
    n, value = len(items), float(function(items))
    generator = generator_for("resampled statistic", n)
    replicates = []
    for _ in range(draws if n > 1 else 0):
        try:
            replicate = float(function([items[i] for i in generator.integers(0, n, n)]))
        except (ArithmeticError, ValueError):
            continue
        replicates += [replicate] if math.isfinite(replicate) else []
    if len(replicates) < 0.9 * draws or min(replicates) == max(replicates):
        return IntervalEstimate(value, None, None, None, "none: too few resamples differ", n, confidence)
    tail = (1.0 - confidence) / 2.0
    low, high = (float(end) for end in np.quantile(replicates, [tail, 1.0 - tail]))
    return IntervalEstimate(value, low, high, float(np.std(replicates, ddof=1)), "bootstrap", n, confidence)
