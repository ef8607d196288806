"""Paired comparison of two models, A and B, on the same samples.

Binary scores are compared by the exact McNemar test and Tango's interval; graded scores by sign-flip permutation and
an interval of the mean difference; clustered scores by flips and errors of whole clusters. The functions return
numbers, not verdicts; the difference is always B minus A.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import normal_cdf, t_cdf
from assaymark.statistics.estimate import cluster_sums, estimate_mean
from assaymark.statistics.intervals import Interval, as_floats, bca
from assaymark.statistics.mcnemar import mcnemar_exact, mcnemar_mid_p, score_statistic, tango_interval
from assaymark.statistics.permutation import sign_flip_p

Scores = Sequence[float] | NDArray[Any]
Clusters = Sequence[Hashable] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """B minus A on the same samples."""

    difference: float
    low: float | None
    high: float | None
    p: float  # two-sided, of no difference
    n: int
    b_only: int  # samples where B scores higher
    a_only: int  # samples where A scores higher
    method: str
    confidence: float = 0.95
    stderr: float | None = None
    p_mid: float | None = None  # mid-p, for binary scores without clusters
    n_clusters: int | None = None


@dataclass(frozen=True, slots=True)
class MarginTest:
    """Whether B is at most `margin` worse than A (non-inferiority), or within the margin both ways (equivalence)."""

    difference: float  # in the direction of better: positive means that B is better, even if lower is better
    low: float | None  # of the interval that decides: one-sided for non-inferiority
    high: float | None
    margin: float
    p: float
    passed: bool
    n: int
    method: str


def compare_paired(
    a: Scores, b: Scores, clusters: Clusters | None = None, *, confidence: float = 0.95
) -> PairedComparison:
    """Compare two models' scores of the same samples, in the same order.

    Raises: DataError for lengths that differ, no samples, or values that are not finite numbers.
    Source: McNemar 1947, Tango 1998 (binary); Fisher 1935, Student or Efron 1987 (graded); Miller 2024 (clusters).
    """
    first, second = _pair(a, b)
    if clusters is None and _is_binary(first, second):
        return _compare_binary(second - first, confidence)
    differences = second - first
    p = sign_flip_p(differences, clusters=clusters, name=("compare_paired", len(differences)))
    estimate = estimate_mean(
        differences, binary=False, clusters=clusters, confidence=confidence, bounds=_bounds(first, second)
    )
    flips = "sign-flip permutation" if clusters is None else "sign-flip permutation by cluster"
    return PairedComparison(
        float(differences.mean()),
        estimate.low,
        estimate.high,
        p,
        len(differences),
        int((differences > 0).sum()),
        int((differences < 0).sum()),
        f"{flips}, {estimate.method} interval",
        confidence,
        stderr=estimate.stderr,
        n_clusters=estimate.n_clusters,
    )


def difference_interval(a: Scores, b: Scores, *, confidence: float = 0.95) -> tuple[float | None, float | None]:
    """Return the ends of the interval that `compare_paired` has, without its test; None where there is none.

    Each end of the 90% interval is a one-sided bound at 95%: of Tango's score test for binary scores.
    """
    first, second = _pair(a, b)
    differences = second - first
    if _is_binary(first, second):
        b_only, a_only = int((differences > 0).sum()), int((differences < 0).sum())
        found = tango_interval(b_only, a_only, len(differences), confidence)
        return found.low, found.high
    estimate = estimate_mean(differences, binary=False, confidence=confidence, bounds=_bounds(first, second))
    return estimate.low, estimate.high


def _compare_binary(differences: Floats, confidence: float) -> PairedComparison:
    b_only, a_only = int((differences > 0).sum()), int((differences < 0).sum())
    interval = tango_interval(b_only, a_only, len(differences), confidence)
    return PairedComparison(
        float(differences.mean()),
        interval.low,
        interval.high,
        mcnemar_exact(b_only, a_only),
        len(differences),
        b_only,
        a_only,
        "exact McNemar, Tango interval",
        confidence,
        stderr=_stderr(differences),
        p_mid=mcnemar_mid_p(b_only, a_only),
    )


def paired_cluster_bootstrap(
    a: Scores, b: Scores, clusters: Clusters, *, confidence: float = 0.95, draws: int = 10_000
) -> Interval:
    """Return the BCa interval of the mean difference, resampling clusters with all their samples.

    Source: Davison and Hinkley 1997, section 3.8; Efron 1987.
    """
    first, second = _pair(a, b)
    if len(clusters) != len(first):
        raise DataError(f"{len(clusters)} cluster labels for {len(first)} samples; expected one per sample")
    sums, sizes = cluster_sums(second - first, clusters), cluster_sums(np.ones(len(first)), clusters)
    table = np.column_stack([sums, sizes])  # [clusters, 2]
    return bca(table, _ratio, confidence, draws=draws, name=("paired cluster bootstrap", len(sums)))


def non_inferiority(
    a: Scores,
    b: Scores,
    margin: float,
    clusters: Clusters | None = None,
    *,
    confidence: float = 0.95,
    higher_is_better: bool = True,
) -> MarginTest:
    """Test whether B is worse than A by less than `margin`: the lower one-sided end must be above -margin.

    Binary scores use Tango's score test at -margin, others Student's test of the differences (clustered if `clusters`
    is given).
    Source: Tango 1998, section 3; Wellek 2010, chapter 5. Raises: DataError for a margin that is not positive.
    """
    first, second = _pair(a, b) if higher_is_better else _pair(b, a)
    _check_margin(margin)
    differences = second - first
    p, end, method = _one_sided(first, second, clusters, margin, confidence)
    n, mean = len(differences), float(differences.mean())
    return MarginTest(mean, end, None, margin, p, p < 1.0 - confidence, n, f"non-inferiority, {method}")


def equivalence(
    a: Scores,
    b: Scores,
    margin: float,
    clusters: Clusters | None = None,
    *,
    confidence: float = 0.95,
) -> MarginTest:
    """Test whether A and B differ by less than `margin` either way: two one-sided tests, of which the larger p counts.

    low and high are the (2·confidence - 1) interval that must be within the margin (90% for 0.95).
    Source: Schuirmann 1987 (TOST).
    """
    first, second = _pair(a, b)
    _check_margin(margin)
    p_low, low, method = _one_sided(first, second, clusters, margin, confidence)
    p_high, high, _ = _one_sided(second, first, clusters, margin, confidence)
    p = max(p_low, p_high)
    upper = None if high is None else -high
    mean = float((second - first).mean())
    return MarginTest(mean, low, upper, margin, p, p < 1.0 - confidence, len(first), f"TOST, {method}")


def _one_sided(
    first: Floats, second: Floats, clusters: Clusters | None, margin: float, confidence: float
) -> tuple[float, float | None, str]:
    """Test that second is not worse than first by the margin or more; return p, the lower one-sided end, the method."""
    differences = second - first
    n = len(differences)
    two_sided = 2.0 * confidence - 1.0
    if clusters is None and _is_binary(first, second):
        b, c = int((differences > 0).sum()), int((differences < 0).sum())
        z = score_statistic(b, c, n, -margin)
        return 1.0 - normal_cdf(z), tango_interval(b, c, n, two_sided).low, "Tango score test"
    estimate = estimate_mean(
        differences, binary=False, clusters=clusters, confidence=two_sided, bounds=_bounds(first, second)
    )
    if not estimate.stderr or estimate.df is None:  # no spread: the interval alone decides
        passed = estimate.low is not None and estimate.low > -margin
        return (0.0 if passed else 1.0), estimate.low, estimate.method
    t = (estimate.value + margin) / estimate.stderr
    return t_cdf(-t, estimate.df), estimate.low, estimate.method


def _pair(a: Scores, b: Scores) -> tuple[Floats, Floats]:
    first, second = as_floats(a, "A's scores"), as_floats(b, "B's scores")
    if len(first) != len(second):
        raise DataError(f"A has {len(first)} scores and B {len(second)}; expected the same samples in the same order")
    return first, second


def _is_binary(first: Floats, second: Floats) -> bool:
    return bool(np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all())


def _bounds(first: Floats, second: Floats) -> tuple[float, float]:
    unit = min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) <= 1
    return (-1.0, 1.0) if unit else (-math.inf, math.inf)


def _stderr(values: Floats) -> float | None:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def _ratio(table: Floats) -> Floats:
    return np.asarray(table[..., 0].sum(axis=1) / table[..., 1].sum(axis=1))


def _check_margin(margin: float) -> None:
    if not margin > 0:
        raise DataError(f"margin is {margin}; expected a positive difference that is still acceptable, e.g. 0.01")
