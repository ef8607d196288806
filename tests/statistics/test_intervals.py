"""Intervals against published examples, scipy, statsmodels, and exact coverage."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics import distributions
from assaymark.statistics.intervals import (
    bca,
    bootstrap,
    clopper_pearson,
    jackknife,
    mean_of_rows,
    t_interval,
    unseen_share,
    wilson,
)


def test_wilson_and_clopper_pearson_give_newcombes_published_example() -> None:
    """Newcombe 1998, table I: 81/263 gives .2553-.3662 (Wilson) and .2527-.3676 (exact); 0/20 and 1/29 as printed."""
    published = {
        (81, 263): ((0.2553, 0.3662), (0.2527, 0.3676)),
        (15, 148): ((0.0624, 0.1605), (0.0578, 0.1617)),
        (0, 20): ((0.0, 0.1611), (0.0, 0.1684)),
        (1, 29): ((0.0061, 0.1718), (0.0009, 0.1776)),
    }
    for (x, n), (score, exact) in published.items():
        for interval, expected in ((wilson(x, n), score), (clopper_pearson(x, n), exact)):
            assert (round(interval.low, 4), round(interval.high, 4)) == expected


def test_both_equal_statsmodels() -> None:
    """For every count of n = 13 at three confidences both intervals are statsmodels'."""
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    for confidence in (0.8, 0.95, 0.99):
        for x in range(14):
            for function, method in ((wilson, "wilson"), (clopper_pearson, "beta")):
                low, high = proportion.proportion_confint(x, 13, 1 - confidence, method)
                interval = function(x, 13, confidence)
                assert interval.low == pytest.approx(low, abs=1e-12)
                assert interval.high == pytest.approx(high, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 30, 1000])
def test_an_interval_at_0_and_at_n_is_not_a_point(n: int) -> None:
    """At 0/n and n/n the interval has a positive width, which decreases with n."""
    for function in (wilson, clopper_pearson):
        assert function(0, n).low == 0.0
        assert function(0, n).high > 1.9 / (n + 4)
        assert function(n, n).high == 1.0
        assert function(n, n).low == pytest.approx(1 - function(0, n).high)


def test_exact_coverage_of_the_proportion_intervals() -> None:
    """Summed over all outcomes, Wilson's coverage is near 95% on average and Clopper-Pearson's never below it."""
    for n in (10, 30, 100):
        intervals = {f: [f(x, n) for x in range(n + 1)] for f in (wilson, clopper_pearson)}
        for function, low_limit in ((wilson, 0.83), (clopper_pearson, 0.95)):
            coverage = [
                sum(
                    distributions.binomial_pmf(x, n, p)
                    for x, interval in enumerate(intervals[function])
                    if interval.low <= p <= interval.high
                )
                for p in np.linspace(0.005, 0.995, 199)
            ]
            assert min(coverage) >= low_limit
            if function is wilson:
                assert 0.945 < np.mean(coverage) < 0.965


def test_coverage_the_specification_measured() -> None:
    """At n = 30, p = .9 Wilson covers 97.4% and at n = 100, p = .95 96.6%, where Wald's covers 80.9% and 87.7%."""
    for n, p, expected in ((30, 0.9, 0.974), (100, 0.95, 0.966)):
        covered = sum(
            distributions.binomial_pmf(x, n, p) for x in range(n + 1) if wilson(x, n).low <= p <= wilson(x, n).high
        )
        assert covered == pytest.approx(expected, abs=0.0006)


def test_t_interval_equals_scipy() -> None:
    """Student's interval of ten numbers is scipy's."""
    st = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(0).normal(size=10)
    stderr = values.std(ddof=1) / np.sqrt(10)
    interval = t_interval(float(values.mean()), float(stderr), 9, 0.9)
    assert (interval.low, interval.high) == pytest.approx(st.t.interval(0.9, 9, values.mean(), stderr), rel=1e-10)


def test_unseen_share_is_the_exact_upper_end_at_zero() -> None:
    """The bound on the share of differing samples after n equal ones is Clopper-Pearson's end at 0 of n."""
    assert unseen_share(40) == pytest.approx(clopper_pearson(0, 40).high, rel=1e-10)


SPATIAL = [
    (48, 42), (36, 33), (20, 16), (29, 39), (42, 38), (42, 36), (20, 15), (42, 33), (22, 20), (41, 43), (45, 34),
    (14, 22), (6, 7), (0, 15), (33, 34), (28, 29), (34, 41), (4, 13), (32, 38), (24, 25), (47, 27), (41, 41),
    (24, 28), (26, 14), (30, 28), (41, 40),
]  # fmt: skip


def test_bca_gives_efron_and_tibshiranis_published_interval() -> None:
    """Spatial test data, variance of A: Efron and Tibshirani 1993, table 14.2 print (115.8, 259.6) for 90% BCa."""
    scores = np.array([a for a, _ in SPATIAL], dtype=float)
    interval = bca(scores, lambda s: np.asarray(s.var(axis=1)), 0.9, draws=40_000)
    assert interval.low == pytest.approx(115.8, abs=2.5)
    assert interval.high == pytest.approx(259.6, abs=5.0)


def test_bca_agrees_with_scipys() -> None:
    """On skewed numbers both implementations agree to the noise of their draws."""
    st = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(5).gamma(1.0, 1.0, 40)
    theirs = st.bootstrap((values,), np.mean, method="BCa", n_resamples=20_000, random_state=0).confidence_interval
    ours = bca(values, draws=20_000)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_the_same_seed_gives_the_same_bytes() -> None:
    """A bootstrap's draws depend on its name alone: equal names equal bytes, other names other bytes."""
    values = np.random.default_rng(1).random(30)
    first, two, other = (bootstrap(values, mean_of_rows, draws=500, name=(name,)) for name in ("a", "a", "b"))
    assert first.tobytes() == two.tobytes()
    assert first.tobytes() != other.tobytes()


def test_the_spread_of_resampled_means_is_the_closed_form() -> None:
    """The standard deviation of resampled means is sd/√n, not that over the root of the draws."""
    values = np.random.default_rng(2).random(200)
    assert bootstrap(values, mean_of_rows, draws=20_000).std() == pytest.approx(values.std() / np.sqrt(200), rel=0.02)


def test_bca_of_a_table_resamples_whole_rows() -> None:
    """A statistic of two columns, such as a ratio, is resampled by row; a constant one is a point."""
    table = np.column_stack([np.arange(1.0, 31), np.arange(1.0, 31) * 2])
    interval = bca(table, lambda s: np.asarray(s[..., 0].sum(axis=1) / s[..., 1].sum(axis=1)))
    assert (interval.low, interval.high) == pytest.approx((0.5, 0.5))


def test_the_jackknife_omits_each_sample() -> None:
    """The closed form for means equals omitting samples one by one."""
    values = np.array([1.0, 2.0, 6.0])
    np.testing.assert_allclose(jackknife(values, mean_of_rows), [4.0, 3.5, 1.5])
    np.testing.assert_allclose(jackknife(values, lambda s: np.asarray(s.mean(axis=1))), [4.0, 3.5, 1.5])


def test_impossible_input_is_refused() -> None:
    """More successes than trials, a confidence of 95 and a bootstrap of one sample are errors."""
    with pytest.raises(DataError, match="successes"):
        wilson(5, 4)
    with pytest.raises(DataError, match="successes"):
        clopper_pearson(5, 4)
    with pytest.raises(DataError, match="confidence is 95"):
        wilson(1, 4, 95)
    with pytest.raises(DataError, match="at least 2"):
        bca([1.0])
