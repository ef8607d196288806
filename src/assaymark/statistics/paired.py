"""Paired comparison of two models, A and B, on the same samples.

Binary scores are compared by the exact McNemar test and Tango's interval; graded scores by sign-flip permutation and
an interval of the mean difference. The functions return numbers, not verdicts; the difference is always B minus A.

The sign-flip permutation test assumes only that, if A and B are equivalent, each difference is equally likely to have
either sign. With few differences every assignment of signs is counted, with many a seeded sample of them.

Of n questions with binary scores, b are answered correctly by B only and c by A only. McNemar's test conditions on b +
c (McNemar 1947); the interval of the difference (b - c)/n inverts a score test, so that it has positive width if b = c
= 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import binomial_sf, bisect, t_sf, two_sided_z
from assaymark.statistics.estimate import estimate_mean, stderr_of_mean
from assaymark.statistics.intervals import Interval, as_floats, check_confidence


def mcnemar_exact(b: int, c: int) -> float:
    """Return the exact two-sided p: twice P(Bin(b + c, 1/2) >= max(b, c)), at most 1. 2-0 gives 0.5, never 0.

    Source: McNemar 1947 in its exact (sign test) form; Fagerland, Lydersen and Laake 2013, equation 3.
    """
    _check(b, c, b + c)
    return min(1.0, 2.0 * _majority_tail(max(b, c), b + c))


def score_statistic(b: int, c: int, n: int, difference: float) -> float:
    """Return Tango's z for the hypothesis that B's accuracy exceeds A's by `difference`.

    z = (b - c - nδ) / √(n (2 q + δ(1 - δ))) with q the maximum-likelihood share of c-questions under that hypothesis.
    Source: Tango 1998, equations 4-6.
    """
    _check(b, c, n)
    top = b - c - n * difference
    if 1.0 - abs(difference) <= 0.0:  # the hypothesis allows no variance: only one outcome is possible
        return 0.0 if top == 0 else math.copysign(math.inf, top)
    linear = -b - c + (2 * n - b + c) * difference
    constant = -c * difference * (1.0 - difference)
    q = (math.sqrt(max(linear * linear - 8.0 * n * constant, 0.0)) - linear) / (4.0 * n)
    variance = n * (2.0 * q + difference * (1.0 - difference))
    if variance <= 0.0:
        return 0.0 if abs(top) < 1e-12 else math.copysign(math.inf, top)
    return top / math.sqrt(variance)


def tango_interval(b: int, c: int, n: int, confidence: float = 0.95) -> Interval:
    """Return Tango's score interval of the difference in shares, B minus A: all δ that the score test accepts.

    Source: Tango 1998; recommended for paired shares in Fagerland, Lydersen and Laake 2014.
    """
    check_confidence(confidence)
    _check(b, c, n)
    z = two_sided_z(confidence)
    estimate = (b - c) / n
    low = -1.0 if estimate <= -1 else bisect(lambda d: z - score_statistic(b, c, n, d), -1.0, estimate)
    high = 1.0 if estimate >= 1 else bisect(lambda d: -z - score_statistic(b, c, n, d), estimate, 1.0)
    return Interval(low, high)


def _majority_tail(k: int, n: int) -> float:
    """Return P(Bin(n, 1/2) >= k), in integer arithmetic up to n = 1000, so that small cases are exact."""
    if n > 1000:
        return binomial_sf(k, n, 0.5)
    ways = sum(math.comb(n, x) for x in range(k, n + 1))
    return ways / int(2**n)


def _check(b: int, c: int, n: int) -> None:
    if b < 0 or c < 0 or b + c > n or (n == 0 and b + c > 0):
        raise DataError(f"b = {b} and c = {c} of n = {n} samples; expected counts with b + c <= n")


@dataclass(frozen=True, slots=True)
class LocationTest:
    """Result of a one-sided test of differences, whose mean is zero under the null hypothesis."""

    statistic: float
    p: float  # probability of a statistic at least as large
    n: int
    mean: float


def mean_above_zero(differences: Sequence[float] | NDArray[np.number | np.bool_]) -> LocationTest:
    """Test mean(d) > 0 by t = mean(d) / (sd(d) / √n), referred to Student's t with n - 1 degrees of freedom.

    If all differences are equal there is no spread: p is 2^-n if they are positive (each sign being equally likely),
    else 1.

    Raises: DataError for fewer than two differences.
    Source: Student 1908; used so on shards by Oren et al. 2023 (arXiv 2310.17623), section 3.
    """
    values = as_floats(differences, "differences")
    n = len(values)
    if n < 2:
        raise DataError(f"{n} difference; a t test needs at least 2")
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    if spread <= 1e-12 * max(1.0, abs(mean)):
        return LocationTest(0.0 if mean == 0 else math.copysign(math.inf, mean), 0.5**n if mean > 0 else 1.0, n, mean)
    t = mean / (spread / math.sqrt(n))
    return LocationTest(t, t_sf(t, n - 1), n, mean)


def sign_test_above_zero(differences: Sequence[float] | NDArray[np.number | np.bool_]) -> LocationTest:
    """Test exactly whether more than half of the differences are positive; zeros are excluded.

    The statistic is the share of positive ones. Source: Arbuthnot 1710; Conover 1999, section 3.4.
    """
    values = as_floats(differences, "differences")
    positive, n = int((values > 0).sum()), int((values != 0).sum())
    if n == 0:
        return LocationTest(0.5, 1.0, 0, 0.0)
    return LocationTest(positive / n, min(1.0, binomial_sf(positive, n, 0.5)), n, float(values.mean()))


EXACT_UP_TO = 14  # differences: 16,384 assignments are counted rather than sampled
_SIGNS_AT_ONCE = 4_000_000


def sign_flip_p(
    differences: Sequence[float] | NDArray[np.number | np.bool_],
    *,
    draws: int = 10_000,
    name: Sequence[object] = (),
) -> float:
    """Return the two-sided p of the sum of differences under random signs.

    (1 + #{|T*| >= |T|}) / (draws + 1), or the exact share if at most `EXACT_UP_TO` differences are not zero. If all are
    zero, p is 1.

    Source: Fisher 1935; the +1 after Phipson and Smyth 2010, so that p is never 0.
    """
    units = as_floats(differences, "differences")
    units = units[units != 0.0]
    if len(units) == 0:
        return 1.0
    limit = abs(float(units.sum())) - 1e-9 * float(np.abs(units).sum())
    if len(units) <= EXACT_UP_TO:
        return float((np.abs(_all_sums(units)) >= limit).mean())
    return (1 + _count_extreme(units, limit, draws, name)) / (draws + 1)


def _all_sums(units: Floats) -> Floats:
    """Return the sum under every assignment of signs. Shapes: result [2^n]."""
    sums = np.zeros(1)
    for unit in units:
        sums = np.concatenate([sums + unit, sums - unit])
    return sums


def _count_extreme(units: Floats, limit: float, draws: int, name: Sequence[object]) -> int:
    generator = generator_for("sign flip", *name)
    rows = max(1, min(draws, _SIGNS_AT_ONCE // len(units)))
    count = 0
    for start in range(0, draws, rows):
        size = min(rows, draws - start)
        bits = np.frombuffer(generator.bytes(size * ((len(units) + 7) // 8)), dtype=np.uint8).reshape(size, -1)
        signs = np.unpackbits(bits, axis=1, count=len(units)).astype(np.float64) * 2.0 - 1.0  # [rows, n]
        count += int((np.abs(signs @ units) >= limit).sum())
    return count


Scores = Sequence[float] | NDArray[np.number | np.bool_]


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


def compare_paired(a: Scores, b: Scores, *, confidence: float = 0.95, is_share: bool | None = None) -> PairedComparison:
    """Compare two models' scores of the same samples, in the same order.

    Args:
        a: the first model's scores.
        b: the second's.
        is_share: whether only scores in [0, 1] are possible, as the metric declares; None: whether these are.

    Raises: DataError for lengths that differ, no samples, or values that are not finite numbers.
    Source: McNemar 1947, Tango 1998 (binary); Fisher 1935, Student or Efron 1987 (graded).
    """
    first, second = _pair(a, b)
    bounds = _bounds(first, second, is_share)
    if _is_binary(first, second, bounds):
        return _compare_binary(second - first, confidence)
    differences = second - first
    p = sign_flip_p(differences, name=("compare_paired", len(differences)))
    estimate = estimate_mean(differences, binary=False, confidence=confidence, bounds=bounds)
    return PairedComparison(
        float(differences.mean()),
        estimate.low,
        estimate.high,
        p,
        len(differences),
        int((differences > 0).sum()),
        int((differences < 0).sum()),
        f"sign-flip permutation, {estimate.method} interval",
        confidence,
        stderr=estimate.stderr,
    )


def difference_interval(
    a: Scores, b: Scores, *, confidence: float = 0.95, is_share: bool | None = None
) -> tuple[float | None, float | None]:
    """Return the ends of the interval that `compare_paired` has, without its test; None where there is none.

    Each end of the 90% interval is a one-sided bound at 95%: of Tango's score test for binary scores.
    """
    first, second = _pair(a, b)
    differences, bounds = second - first, _bounds(first, second, is_share)
    if _is_binary(first, second, bounds):
        b_only, a_only = int((differences > 0).sum()), int((differences < 0).sum())
        interval = tango_interval(b_only, a_only, len(differences), confidence)
        return interval.low, interval.high
    estimate = estimate_mean(differences, binary=False, confidence=confidence, bounds=bounds)
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
        stderr=stderr_of_mean(differences),
    )


def _pair(a: Scores, b: Scores) -> tuple[Floats, Floats]:
    first, second = as_floats(a, "A's scores"), as_floats(b, "B's scores")
    if len(first) != len(second):
        raise DataError(f"A has {len(first)} scores and B {len(second)}; expected the same samples in the same order")
    return first, second


def _is_binary(first: Floats, second: Floats, bounds: tuple[float, float]) -> bool:
    return bounds == (-1.0, 1.0) and bool(np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all())


def _bounds(first: Floats, second: Floats, is_share: bool | None) -> tuple[float, float]:
    if is_share is None:
        is_share = min(first.min(), second.min()) >= 0 and max(first.max(), second.max()) <= 1
    return (-1.0, 1.0) if is_share else (-math.inf, math.inf)
