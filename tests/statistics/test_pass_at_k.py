"""Repeated answers, against enumeration and published formulas."""

import math
from itertools import combinations

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.pass_at_k import (
    estimate_pass_at_k,
    pass_at_k,
)

CASES = [(n, c, k) for n in range(1, 9) for c in range(n + 1) for k in range(1, n + 1)]


def test_pass_at_k_equals_enumeration_for_all_n_to_8() -> None:
    """Pass@k is the share of all k-subsets that have a right answer, n <= 8."""
    for n, c, k in CASES:
        rights = [sum(subset) for subset in combinations([1] * c + [0] * (n - c), k)]
        assert pass_at_k(n, c, k) == pytest.approx(np.mean([r >= 1 for r in rights]), abs=1e-12)


def test_pass_at_k_is_chens_product_and_the_naive_one_is_biased() -> None:
    """It equals 1 - Π(1 - k/j); over Bin(5, .3) its mean is the true .832 where the naive estimator gives .689."""
    for n, c, k in CASES:
        product = 0.0 if n - c < k else math.prod(1 - k / j for j in range(n - c + 1, n + 1))
        assert pass_at_k(n, c, k) == pytest.approx(1 - product, abs=1e-12)
    weights = [math.comb(5, c) * 0.3**c * 0.7 ** (5 - c) for c in range(6)]
    fair = sum(w * pass_at_k(5, c, 5) for c, w in enumerate(weights))
    naive = sum(w * (1 - (1 - c / 5) ** 5) for c, w in enumerate(weights))
    assert (round(fair, 3), round(naive, 3)) == (0.832, 0.689)


def test_the_error_is_over_questions() -> None:
    """The estimate's error is the spread of per-question numbers, and covers the true pass@k."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        skill = rng.beta(1, 2, 60)
        estimate = estimate_pass_at_k(rng.binomial(10, skill).tolist(), [10] * 60, 3)
        truth = 1 - 2 * 3 * 4 / (3 * 4 * 5)  # E (1 - s)^3 for Beta(1, 2): 2·3·4 / (3·4·5)
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= truth <= estimate.high
    assert covered >= 0.91 * 200


def test_impossible_counts_are_refused() -> None:
    """A k above n, more right than answered, and counts of different numbers are errors."""
    for bad in ((3, 1, 4), (3, 4, 1), (3, 1, 0)):
        with pytest.raises(DataError, match="1 <= k <= n"):
            pass_at_k(*bad)
    with pytest.raises(DataError, match="equal numbers"):
        estimate_pass_at_k([1], [2, 2], 1)
