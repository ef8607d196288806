"""pass@k: the chance that one of k answers is correct, from n answers of which c are.

The unit of uncertainty is the question, not the answer: compute it per question and estimate the mean.
"""

import math
from collections.abc import Sequence

from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the probability that at least one of k answers is correct: 1 - C(n-c, k) / C(n, k).

    Source: Chen et al. 2021 (arXiv 2107.03374), equation 1; unbiased, unlike 1 - (1 - c/n)^k.
    """
    _check(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def estimate_pass_at_k(
    right: Sequence[int], tried: Sequence[int], k: int, confidence: float = 0.95
) -> IntervalEstimate:
    """Estimate the mean pass@k over questions, from the numbers of right answers and of tries per question.

    With k near n the values per question are nearly 0 or 1 and the error is large: n >= 2k is advised.
    """
    if len(right) != len(tried):
        raise DataError(f"{len(right)} counts of right answers and {len(tried)} of tries; expected equal numbers")
    values = [pass_at_k(n, c, k) for c, n in zip(right, tried, strict=True)]
    return estimate_mean(values, confidence=confidence)


def _check(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise DataError(f"n = {n} answers, c = {c} right, k = {k}; expected 0 <= c <= n and 1 <= k <= n")
