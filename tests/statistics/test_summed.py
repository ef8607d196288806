"""Estimates from sums and order statistics beside numpy, scipy and our estimates of single values."""

import math

import numpy as np
import pytest
from scipy import stats

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.estimate import IntervalEstimate, cluster_sums, estimate_mean
from assaymark.statistics.summed import estimate_from_sums, estimate_quantile, estimate_sampled_mean


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
    estimate = estimate_quantile(ordered[::-1].copy(), share)
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
        estimate = estimate_quantile(generator.lognormal(size=60), 0.5)
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 1.0 <= estimate.high
    assert covered / 1000 > 0.94


def clustered(values: Floats, clusters: Floats, rates: Floats | None = None) -> IntervalEstimate:
    """Return the estimate of values in clusters, from sums over clusters."""
    weights = np.ones(len(values)) if rates is None else 1 / rates
    w, a = cluster_sums(weights, clusters), cluster_sums(weights * values, clusters)
    return estimate_from_sums(
        len(values), w.sum(), (w**2).sum(), a.sum(), (w * a).sum(), (a**2).sum(),
        extremes=(values.min(), values.max()), is_share=values.min() >= 0 and values.max() <= 1,
        n_clusters=len(w), has_equal_weights=rates is None,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["zeros and ones", "shares", "costs", "all right"])
def test_clustered_sums_are_the_clustered_estimate(kind: str) -> None:
    """From sums over sessions: mean, error and interval of the estimate that has every value and its session."""
    generator = np.random.default_rng(5)
    sessions = generator.integers(0, 40, 200).astype(float)
    effect = generator.random(40)[sessions.astype(int)]
    values = {
        "zeros and ones": (generator.random(200) < effect).astype(float),
        "shares": np.clip(effect + generator.normal(0, 0.1, 200), 0, 1),
        "costs": generator.lognormal(effect * 3, 0.2),
        "all right": np.ones(200),
    }[kind]
    estimate, whole = clustered(values, sessions), estimate_mean(values, clusters=sessions)
    assert (estimate.value, estimate.low, estimate.high, estimate.stderr) == pytest.approx(
        (whole.value, whole.low, whole.high, whole.stderr)
    )
    assert (estimate.n, estimate.n_clusters, estimate.df) == (200, whole.n_clusters, whole.df)
    rates = np.where(generator.random(200) < 0.5, 1.0, 0.1)
    weighted, drawn = (
        clustered(values, sessions, rates),
        estimate_sampled_mean(values.tolist(), rates.tolist(), sessions.tolist()),
    )
    assert (weighted.value, weighted.low, weighted.high) == pytest.approx((drawn.value, drawn.low, drawn.high))


def test_one_cluster_has_no_interval() -> None:
    """One session, however long, says nothing of others; clusters of one value each change nothing."""
    values = np.random.default_rng(6).random(30)
    assert clustered(values, np.zeros(30)).low is None
    assert estimate_quantile(values, 0.5, np.zeros(30, dtype=np.intp)).low is None
    single, plain = clustered(values, np.arange(30.0)), summed(values)
    assert (single.low, single.high) == pytest.approx((plain.low, plain.high))
    assert (single.method, single.n_clusters) == (plain.method, None)
    with pytest.raises(DataError, match="31 clusters of 30 values"):
        estimate_from_sums(30, 30, 30, 15, 15, 10, extremes=(0, 1), is_share=True, n_clusters=31)


def test_quantiles_of_clusters_cover() -> None:
    """The interval of a quantile of sessions contains the true one in 95% of samples; without sessions in far fewer."""
    generator = np.random.default_rng(7)
    sessions = np.repeat(np.arange(40), 8)
    n_covered, n_naive = {0.5: 0, 0.95: 0}, {0.5: 0, 0.95: 0}
    for _ in range(1000):
        values = np.exp(0.9 * generator.normal(size=40)[sessions] + math.sqrt(0.19) * generator.normal(size=320))
        for share in n_covered:
            true = math.exp(stats.norm.ppf(share))  # the log of a value has the variance .81 + .19
            for count, clusters in ((n_covered, sessions), (n_naive, None)):
                estimate = estimate_quantile(values, share, clusters)
                low = -math.inf if estimate.low is None else estimate.low
                high = math.inf if estimate.high is None else estimate.high
                count[share] += low <= true <= high
    assert all(count / 1000 > 0.95 - 3 * math.sqrt(0.05 * 0.95 / 1000) for count in n_covered.values())
    assert all(count / 1000 < 0.85 for count in n_naive.values())


def test_quantiles_of_sessions_of_one_trace() -> None:
    """A session for each value: about the ranks of independent values, and none narrower."""
    values = np.random.default_rng(8).random(150)
    alone, each = estimate_quantile(values, 0.5), estimate_quantile(values, 0.5, np.arange(150))
    ordered = np.sort(values).tolist()
    ranks = [ordered.index(end) for end in (each.low, alone.low, alone.high, each.high)]
    assert ranks == sorted(ranks)
    assert max(ranks[1] - ranks[0], ranks[3] - ranks[2]) <= 2


def test_nothing_is_refused() -> None:
    """No values are an error, not a 0."""
    with pytest.raises(DataError, match="expected at least one"):
        estimate_from_sums(0, 0, 0, 0, 0, 0, extremes=(0, 1), is_share=True)
    with pytest.raises(DataError, match="quantile"):
        estimate_quantile(np.array([]), 0.5)
