"""Estimates from sums and order statistics beside numpy, scipy and our estimates of single values."""

import math

import numpy as np
import pytest
from scipy import stats

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean
from assaymark.statistics.summed import estimate_from_sums, estimate_quantile


def summed(values: Floats, weights: Floats | None = None) -> IntervalEstimate:
    """Return the estimate of values, from their sums."""
    w = np.ones(len(values)) if weights is None else weights
    return estimate_from_sums(
        len(values), w.sum(), (w**2).sum(), (w * values).sum(), (w**2 * values).sum(), (w**2 * values**2).sum(),
        extremes=(values.min(), values.max()), is_share=values.min() >= 0 and values.max() <= 1,
    )  # fmt: skip


@pytest.mark.parametrize("values", [[0, 1, 1, 1, 0, 1], [1, 1, 1], [0, 0]])
def test_zeros_and_ones_have_wilsons_interval(values: list[float]) -> None:
    """Equal weights of zeros and ones: scipy's Wilson interval, of positive width at 0% and 100% too."""
    estimate = summed(np.array(values, dtype=float))
    expected = stats.binomtest(int(sum(values)), len(values)).proportion_ci(0.95, "wilson")
    assert estimate.low == pytest.approx(expected.low, abs=1e-12)
    assert estimate.high == pytest.approx(expected.high, abs=1e-12)


def test_unbounded_values_have_students_interval() -> None:
    """Costs and the like: the mean's interval is scipy's of the single values."""
    values = np.random.default_rng(1).lognormal(3, 1, 80)
    estimate = summed(values)
    expected = stats.t.interval(0.95, 79, values.mean(), stats.sem(values))
    assert (estimate.low, estimate.high) == pytest.approx(expected)
    assert estimate.stderr == pytest.approx(stats.sem(values))


def test_weights_undo_unequal_sampling() -> None:
    """Drawn at 10% and 100%, the weighted mean is that of all in the long run, and its intervals cover it."""
    generator = np.random.default_rng(2)
    covered, means = 0, []
    for _ in range(400):
        is_rare = generator.random(1000) < 0.2
        values = (generator.random(1000) < np.where(is_rare, 0.5, 0.9)).astype(float)
        rates = np.where(is_rare, 1.0, 0.1)
        drawn = generator.random(1000) < rates
        estimate = summed(values[drawn], 1 / rates[drawn])
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 0.82 <= estimate.high
        means.append(estimate.value)
    assert abs(np.mean(means) - 0.82) < 4 * np.std(means) / math.sqrt(400) + 0.002  # a ratio has a small bias
    assert covered / 400 > 0.92


def test_equal_weights_are_no_weights() -> None:
    """A sampling rate that all share changes neither the mean nor its interval."""
    values = np.random.default_rng(3).beta(5, 2, 60)
    plain, scaled = summed(values), summed(values, np.full(60, 10.0))
    assert (plain.value, plain.low, plain.high) == pytest.approx((scaled.value, scaled.low, scaled.high))
    single = estimate_mean(values.tolist())
    assert plain.value == pytest.approx(single.value)
    assert plain.stderr == pytest.approx(single.stderr)
    assert plain.low == pytest.approx(single.low, abs=0.01)


def test_equal_values_have_no_interval() -> None:
    """Equal costs leave no error; a rounding error of large sums is not one."""
    estimate = summed(np.full(1000, 123456.789))
    assert estimate.low is None
    assert summed(np.array([3.0])).low is None


@pytest.mark.parametrize("n", [1, 5, 40, 200, 5000])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_ranks_of_quantiles(n: int, share: float) -> None:
    """The ends are the values whose ranks scipy's binomial distribution gives; beyond the values there is none."""
    ordered = np.arange(1, n + 1).astype(float)
    estimate = estimate_quantile(ordered.tolist(), share)
    assert estimate.value == math.ceil(share * n)
    low = max((k for k in range(1, n + 1) if stats.binom.cdf(k - 1, n, share) <= 0.025), default=None)
    high = min((k for k in range(1, n + 1) if stats.binom.sf(k - 1, n, share) <= 0.025), default=None)
    slack = 0 if n <= 200 else 2
    for end, rank in ((estimate.low, low), (estimate.high, high)):
        assert (end is None) == (rank is None)
        if end is not None and rank is not None:
            assert abs(end - rank) <= slack


def test_quantile_intervals_cover() -> None:
    """The median's interval contains the true median in at least 95% of samples."""
    generator = np.random.default_rng(4)
    covered = 0
    for _ in range(1000):
        estimate = estimate_quantile(np.sort(generator.lognormal(size=60)).tolist(), 0.5)
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 1.0 <= estimate.high
    assert covered / 1000 > 0.94


def test_nothing_is_refused() -> None:
    """No values are an error, not a 0."""
    with pytest.raises(DataError, match="expected at least one"):
        estimate_from_sums(0, 0, 0, 0, 0, 0, extremes=(0, 1), is_share=True)
    with pytest.raises(DataError, match="quantile"):
        estimate_quantile([], 0.5)
