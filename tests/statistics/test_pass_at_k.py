"""Repeated answers, against enumeration and published formulas."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.pass_at_k import (
    estimate_pass_at_k,
    g_pass_at_k,
    maj_at_k,
    mg_pass_at_k,
    pass_at_k,
    pass_hat_k,
    split_variance,
)

CASES = [(n, c, k) for n in range(1, 9) for c in range(n + 1) for k in range(1, n + 1)]


def test_the_pass_family_equals_enumeration_for_all_n_to_8() -> None:
    """Pass@k, pass^k and G-Pass@k are the shares of all k-subsets that have the property, n <= 8."""
    for n, c, k in CASES:
        rights = [sum(subset) for subset in combinations([1] * c + [0] * (n - c), k)]
        assert pass_at_k(n, c, k) == pytest.approx(np.mean([r >= 1 for r in rights]), abs=1e-12)
        assert pass_hat_k(n, c, k) == pytest.approx(np.mean([r == k for r in rights]), abs=1e-12)
        for threshold in (0.0, 0.25, 0.5, 0.75, 1.0):
            share = np.mean([r >= max(1, math.ceil(threshold * k)) for r in rights])
            assert g_pass_at_k(n, c, k, threshold) == pytest.approx(share, abs=1e-12)


def test_g_pass_equals_the_hypergeometric_tail() -> None:
    """G-Pass@k is scipy's hypergeometric survival function, and mG-Pass its mean over the upper thresholds."""
    st = pytest.importorskip("scipy.stats")
    for n, c, k in ((16, 9, 8), (48, 30, 16), (5, 5, 4)):
        tails = [float(st.hypergeom.sf(i - 1, n, c, k)) for i in range(1, k + 1)]
        for i in range(1, k + 1):
            assert g_pass_at_k(n, c, k, i / k) == pytest.approx(tails[i - 1], abs=1e-12)
        assert mg_pass_at_k(n, c, k) == pytest.approx(2 / k * sum(tails[math.ceil(k / 2) :]), abs=1e-12)


def test_pass_at_k_is_chens_product_and_the_naive_one_is_biased() -> None:
    """It equals 1 - Π(1 - k/j); over Bin(5, .3) its mean is the true .832 where the naive estimator gives .689."""
    for n, c, k in CASES:
        product = 0.0 if n - c < k else math.prod(1 - k / j for j in range(n - c + 1, n + 1))
        assert pass_at_k(n, c, k) == pytest.approx(1 - product, abs=1e-12)
    weights = [math.comb(5, c) * 0.3**c * 0.7 ** (5 - c) for c in range(6)]
    fair = sum(w * pass_at_k(5, c, 5) for c, w in enumerate(weights))
    naive = sum(w * (1 - (1 - c / 5) ** 5) for c, w in enumerate(weights))
    assert (round(fair, 3), round(naive, 3)) == (0.832, 0.689)


def test_majority_vote_equals_enumeration() -> None:
    """maj@k is the mean over all k-subsets of the vote, ties shared, with several correct answers too."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(2, 8))
        answers = rng.integers(0, 4, n).tolist()
        right_values = set(rng.choice(4, size=int(rng.integers(0, 3)), replace=False).tolist())
        right = [answer in right_values for answer in answers]
        for k in range(1, n + 1):
            votes = []
            for subset in combinations(answers, k):
                counts = Counter(subset)
                top = [answer for answer, count in counts.items() if count == max(counts.values())]
                votes.append(np.mean([answer in right_values for answer in top]))
            assert maj_at_k(answers, right, k) == pytest.approx(np.mean(votes), abs=1e-12)


def test_one_vote_gives_the_share_of_correct_answers() -> None:
    """maj@1 and pass@1 are c/n."""
    assert maj_at_k(["a", "a", "b", "c"], [True, True, False, False], 1) == pytest.approx(0.5)
    assert pass_at_k(4, 2, 1) == 0.5


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


def test_variance_components_are_recovered() -> None:
    """Variances of 0.04 between and 0.09 within questions are recovered, and predict the mean's."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 0.2, (3000, 1)) + rng.normal(0, 0.3, (3000, 4))
    parts = split_variance(scores.tolist())
    assert parts.between_items == pytest.approx(0.04, rel=0.1)
    assert parts.within_items == pytest.approx(0.09, rel=0.05)
    assert parts.of_mean(3000, 4) == pytest.approx(scores.mean(axis=1).var(ddof=1) / 3000, rel=0.01)


def test_impossible_counts_are_refused() -> None:
    """A k above n, more right than answered, contradicting verdicts and single answers are errors."""
    for bad in ((3, 1, 4), (3, 4, 1), (3, 1, 0)):
        with pytest.raises(DataError, match="1 <= k <= n"):
            pass_at_k(*bad)
    with pytest.raises(DataError, match="right and wrong"):
        maj_at_k(["a", "a"], [True, False], 1)
    with pytest.raises(DataError, match="threshold"):
        g_pass_at_k(4, 2, 2, 50)
    with pytest.raises(DataError, match="at least 2 answers"):
        split_variance([[1.0], [0.0]])
    with pytest.raises(DataError, match="equal numbers"):
        estimate_pass_at_k([1], [2, 2], 1)
