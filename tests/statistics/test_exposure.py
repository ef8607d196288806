"""The test of an advantage on the public part, against exact enumeration and by simulation."""

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.exposure import compare_parts


def fisher(right_public: int, n_public: int, right_private: int, n_private: int) -> float:
    """Return the one-sided p of Fisher's exact test in whole numbers."""
    n_right, n = right_public + right_private, n_public + n_private
    ways = sum(
        comb(n_right, k) * comb(n - n_right, n_public - k)
        for k in range(right_public, min(n_right, n_public) + 1)
        if n_public - k <= n - n_right
    )
    return float(Fraction(ways, comb(n, n_public)))


@pytest.mark.parametrize("counts", [(9, 10, 12, 30), (0, 5, 0, 7), (5, 5, 7, 7), (3, 8, 20, 20), (60, 80, 150, 300)])
def test_right_and_wrong_are_compared_by_fishers_exact_test(counts: tuple[int, int, int, int]) -> None:
    """P equals the exact sum over all tables with the same margins."""
    right_public, n_public, right_private, n_private = counts
    public = np.array([1.0] * right_public + [0.0] * (n_public - right_public))
    private = np.array([1.0] * right_private + [0.0] * (n_private - right_private))
    compared = compare_parts(public, private)
    assert compared.p == pytest.approx(fisher(*counts), rel=1e-9)
    assert compared.difference == pytest.approx(right_public / n_public - right_private / n_private)
    assert compared.low is not None
    assert compared.low <= compared.difference


def test_graded_scores_are_compared_by_permutation() -> None:
    """P is near that of all divisions, enumerated."""
    public, private = np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.5, 0.65, 0.3, 0.2, 0.75, 0.1])
    together = [*public, *private]
    sums = [sum(part) for part in combinations(together, len(public))]
    exact = sum(value >= sum(public) - 1e-9 for value in sums) / len(sums)
    assert compare_parts(public, private).p == pytest.approx(exact, abs=0.005)


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Where both parts are alike, p falls below 5% in at most 5% of 2,000 simulated benchmarks (and 3 errors)."""
    random = np.random.default_rng(7)
    n_alarms = 0
    for _ in range(2000):
        scores = (random.random(120) < 0.6).astype(float)
        n_alarms += compare_parts(scores[:30], scores[30:]).p < 0.05
    assert n_alarms / 2000 < 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5


def test_the_bound_covers_the_true_advantage() -> None:
    """The true difference of 0.2 is above the bound in about 95% of 2,000 simulated benchmarks."""
    random = np.random.default_rng(8)
    covered = 0
    for _ in range(2000):
        public, private = (random.random(60) < 0.7).astype(float), (random.random(140) < 0.5).astype(float)
        low = compare_parts(public, private).low
        assert low is not None
        covered += low <= 0.2
    assert 0.93 < covered / 2000 < 0.97


def test_an_empty_part_is_refused() -> None:
    """A part without rows is an error, not a difference of nothing."""
    with pytest.raises(DataError, match="at least one"):
        compare_parts(np.array([]), np.array([1.0]))
