"""Paired comparison of two models."""

import math

import numpy as np
import pytest
from scipy import stats

from assaymark.errors import DataError
from assaymark.statistics.paired import (
    compare_paired,
    difference_interval,
    mcnemar_exact,
    tango_interval,
)


def binary_pair(n: int, b_only: int, a_only: int) -> tuple[list[float], list[float]]:
    """Return scores of n samples with these discordant counts."""
    rest = n - b_only - a_only
    a = [0.0] * b_only + [1.0] * a_only + [1.0] * rest
    b = [1.0] * b_only + [0.0] * a_only + [1.0] * rest
    return a, b


def test_right_and_wrong_answers_get_mcnemar_and_tango() -> None:
    """The specification's example: 60 against 35 of 500 is p = .0134, +5 points, and the interval excludes 0."""
    result = compare_paired(*binary_pair(500, 60, 35))
    assert (result.b_only, result.a_only, result.n) == (60, 35, 500)
    assert result.difference == pytest.approx(0.05)
    assert (result.p, result.method) == (mcnemar_exact(60, 35), "exact McNemar, Tango interval")
    assert (result.low, result.high) == (tango_interval(60, 35, 500).low, tango_interval(60, 35, 500).high)
    assert result.low is not None
    assert result.low > 0


def test_swapping_the_models_mirrors_the_result() -> None:
    """B against A is A against B with signs changed, and the same p."""
    rng = np.random.default_rng(0)
    for a, b in (binary_pair(40, 9, 3), (rng.random(40), rng.random(40))):
        first, other = compare_paired(a, b), compare_paired(b, a)
        assert other.difference == pytest.approx(-first.difference)
        assert first.low is not None
        assert other.high is not None
        assert other.high == pytest.approx(-first.low, abs=0.02)
        assert other.p == pytest.approx(first.p, abs=1e-12)


def test_partial_credit_is_tested_by_permutation() -> None:
    """One graded score is enough for the permutation test; no score is rounded to right or wrong."""
    a, b = binary_pair(40, 9, 3)
    b[0] = 0.5
    result = compare_paired(a, b)
    assert result.method.startswith("sign-flip permutation")
    assert result.difference == pytest.approx(5.5 / 40)


def test_equal_graded_scores_have_p_1_and_an_interval_around_0() -> None:
    """Zero variance never gives p = 0 or a point."""
    result = compare_paired([0.5] * 20, [0.5] * 20)
    assert result.p == 1.0
    assert result.low is not None
    assert result.high is not None
    assert result.low < -0.1
    assert result.high > 0.1
    assert compare_paired([5.0] * 20, [6.0] * 20).low is None  # unbounded scores: no interval


def test_positive_graded_differences_are_not_treated_as_shares() -> None:
    """Differences in [0, 1] are still differences: the interval may extend below 0."""
    a = [0.1] * 8
    b = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4]
    result = compare_paired(a, b)
    assert result.low is not None
    assert result.low < 0


@pytest.mark.parametrize("values", [(0.001, 0.0, 0.002, 0.0014), (0.0, 1.0, 0.0, 1.0), (3e-5, 2e-5, 5e-5, 9e-4)])
def test_numbers_get_students_interval_where_all_happen_to_be_in_0_1(values: tuple[float, ...]) -> None:
    """A cost, latency or count below 1 is no share: the interval is scipy's t of the differences, as above 1."""
    first, second = np.zeros(4), np.array(values)
    expected = stats.t.interval(0.95, 3, loc=second.mean(), scale=stats.sem(second))
    result = compare_paired(first, second, is_share=False)
    assert (result.low, result.high) == pytest.approx(expected)
    assert difference_interval(first, second, is_share=False) == pytest.approx(expected)
    far = compare_paired(first + 2.0, second + 2.0)
    assert (result.low, result.high, result.p) == pytest.approx((far.low, far.high, far.p))


def test_equal_differences_of_numbers_have_no_interval() -> None:
    """Nothing bounds what a number might still be, so its differences without spread have none, and p says it."""
    result = compare_paired([0.00021] * 200, [0.00042] * 200, is_share=False)
    assert (result.low, result.high) == (None, None)
    assert result.p < 0.001
    assert difference_interval([0.001] * 3, [0.002] * 3, is_share=False) == (None, None)


def test_graded_intervals_cover_and_p_keeps_its_level() -> None:
    """Over 300 seeded pairs of models the interval covers the true difference, and p keeps its level."""
    rng = np.random.default_rng(0)
    covered = rejected = 0
    for _ in range(300):
        skill = rng.random(60)
        a, b = (np.clip(skill + rng.normal(0, 0.2, 60), 0, 1) for _ in range(2))
        result = compare_paired(a, b)
        assert result.low is not None
        assert result.high is not None
        covered += result.low <= 0 <= result.high
        rejected += result.p < 0.05
    assert covered >= 0.92 * 300
    assert rejected <= 0.08 * 300


def test_binary_intervals_cover_a_true_difference() -> None:
    """Over 1,000 seeded pairs with a true difference of 10 points Tango's interval covers it about 95% of the time."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        kind = rng.choice(3, 80, p=[0.2, 0.1, 0.7])
        interval = tango_interval(int((kind == 0).sum()), int((kind == 1).sum()), 80)
        covered += interval.low <= 0.1 <= interval.high
    assert 0.93 <= covered / 1000 <= 0.97


def test_bad_input_is_refused() -> None:
    """Different samples and NaN are errors."""
    with pytest.raises(DataError, match="same samples"):
        compare_paired([1, 0], [1])
    with pytest.raises(DataError, match="not finite"):
        compare_paired([1, math.nan], [1, 0])
