"""Correlations against scipy, and their intervals by simulation."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.correlation import _drawn, correlations, ranks_of


def test_both_equal_scipys() -> None:
    """With ties too, both coefficients are scipy's."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    first = rng.integers(0, 8, 40).astype(float)
    second = first + rng.normal(size=40) * 3
    spearman, pearson = correlations(first, second, draws=10)
    assert spearman.value == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)
    assert pearson.value == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-12)
    assert (spearman.n, pearson.n) == (40, 40)
    np.testing.assert_array_equal(ranks_of(first), stats.rankdata(first))


def test_intervals_cover() -> None:
    """In 200 samples of 40 normal pairs with correlation 0.6, the intervals of Pearson's contain it in 90 to 98%."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        first = rng.normal(size=40)
        second = 0.6 * first + 0.8 * rng.normal(size=40)
        _, result = correlations(first, second, draws=300)
        assert result.low is not None
        assert result.high is not None
        covered += result.low <= 0.6 <= result.high
    assert 0.90 <= covered / 200 <= 0.98


def test_what_is_undefined_is_none() -> None:
    """A constant has no correlation, two models none, four no interval; values that are missing are refused."""
    assert correlations(np.ones(6), np.arange(6.0))[0].value is None
    assert correlations(np.arange(2.0), np.arange(2.0))[1].value is None
    few = correlations(np.arange(4.0), np.array([1.0, 3.0, 2.0, 4.0]))[0]
    assert few.value == pytest.approx(0.8)
    assert few.low is None
    same = correlations(np.arange(9.0), np.arange(9.0) ** 2)[0]
    assert (same.value, same.low, same.high) == pytest.approx((1.0, 1.0, 1.0))
    assert correlations(np.arange(9.0), np.arange(9.0) ** 2) == correlations(np.arange(9.0), np.arange(9.0) ** 2)
    with pytest.raises(DataError, match="one finite value"):
        correlations(np.array([1.0, np.nan]), np.arange(2.0))


def test_drawn_coefficients_are_those_of_the_repeated_models() -> None:
    """Each bootstrap draw equals scipy's coefficients of the sample with its repeated models, with ties too."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    first, second = rng.integers(0, 5, 12).astype(float), rng.normal(size=12)
    counts = rng.multinomial(12, np.full(12, 1 / 12), 5).astype(float)
    for drawn, times in zip(_drawn(first, second, counts), counts.astype(int), strict=True):
        item, other = np.repeat(first, times), np.repeat(second, times)
        assert drawn[0] == pytest.approx(stats.spearmanr(item, other).statistic, abs=1e-12)
        assert drawn[1] == pytest.approx(stats.pearsonr(item, other).statistic, abs=1e-12)
