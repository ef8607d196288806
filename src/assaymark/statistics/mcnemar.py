"""Paired binary scores of two models: McNemar's tests and intervals of the difference.

Of n questions, b are answered correctly by B only and c by A only. The test conditions on b + c (McNemar 1947); the
interval of the difference (b - c)/n inverts a score test, so that it has positive width if b = c = 0.
"""

import math

from assaymark.errors import DataError
from assaymark.statistics.distributions import (
    binomial_pmf,
    binomial_sf,
    bisect,
    two_sided_z,
)
from assaymark.statistics.intervals import Interval, check_confidence


def mcnemar_exact(b: int, c: int) -> float:
    """Return the exact two-sided p: twice P(Bin(b + c, 1/2) >= max(b, c)), at most 1. 2-0 gives 0.5, never 0.

    Source: McNemar 1947 in its exact (sign test) form; Fagerland, Lydersen and Laake 2013, equation 3.
    """
    _check(b, c, b + c)
    return min(1.0, 2.0 * _majority_tail(max(b, c), b + c))


def mcnemar_mid_p(b: int, c: int) -> float:
    """Return the mid-p value: the exact p minus the probability of the observed outcome; it is less conservative.

    Source: Fagerland, Lydersen and Laake 2013, equation 4.
    """
    _check(b, c, b + c)
    if b == c:
        return 1.0 - 0.5 * binomial_pmf(b, b + c, 0.5) if b else 1.0
    return mcnemar_exact(b, c) - binomial_pmf(max(b, c), b + c, 0.5)


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
