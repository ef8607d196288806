"""Experiments by user beside statsmodels and scipy, and their error rates in simulated experiments."""

import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from assaymark.errors import DataError, UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.clustered_experiment import (
    ArmUsers,
    anytime_factor,
    anytime_interval,
    arm_mean,
    arms_difference,
    sample_ratio,
)
from assaymark.statistics.estimate import cluster_stderr

N_EXPERIMENTS = 600


def users(generator: np.random.Generator, n: int, *, shift: float = 0.0, rho: float = 0.0) -> ArmUsers:
    """Return users with 1 to about 20 rows each, mean 6.7, whose outcomes depend on a tendency of the user's."""
    counts = 1 + generator.geometric(1 / 6.7, n) - 1
    tendency = generator.normal(size=n)
    share = 1 / (1 + np.exp(-(0.2 + 1.0 * tendency))) + shift
    sums = generator.binomial(counts, np.clip(share, 0, 1)).astype(float)
    covariate = rho * tendency + math.sqrt(1 - rho**2) * generator.normal(size=n)
    return ArmUsers(sums, counts.astype(float), covariate if rho else None)


def test_a_variants_error_is_that_of_clusters() -> None:
    """The delta method's error equals the clustered error of the rows, which another module computes."""
    arm = users(np.random.default_rng(1), 40)
    rows = np.concatenate([[1.0] * int(y) + [0.0] * int(n - y) for y, n in zip(arm.sums, arm.counts, strict=True)])
    labels = np.repeat(np.arange(40), arm.counts.astype(int))
    stderr, _ = cluster_stderr(rows, labels)
    result = arm_mean(arm)
    assert result.mean == pytest.approx(rows.mean())
    assert result.stderr == pytest.approx(stderr)
    half = stats.t.ppf(0.975, 39) * stderr
    assert result.low == pytest.approx(rows.mean() - half)
    assert (result.n_users, result.n_rows) == (40, len(rows))


def test_the_difference_is_statsmodels_clustered_regression() -> None:
    """The slope of outcome on variant with errors clustered by user has our difference and error."""
    generator = np.random.default_rng(2)
    arms = users(generator, 300), users(generator, 260, shift=0.1)
    outcomes, variants, labels = [], [], []
    for at, arm in enumerate(arms):
        for user, (y, n) in enumerate(zip(arm.sums, arm.counts, strict=True)):
            outcomes += [1.0] * int(y) + [0.0] * int(n - y)
            variants += [float(at)] * int(n)
            labels += [1000 * at + user] * int(n)
    model = sm.OLS(np.array(outcomes), sm.add_constant(np.array(variants)))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": np.array(labels)})
    result = arms_difference(*arms)
    assert result.difference == pytest.approx(fit.params[1])
    # theirs multiplies the whole by G/(G-1) (N-1)/(N-K), ours each variant's part by k/(k-1)
    assert result.stderr == pytest.approx(fit.bse[1], rel=0.003)


def test_one_row_a_user_is_welchs_test() -> None:
    """With one row a user the difference, its p and its degrees of freedom are scipy's Welch test."""
    generator = np.random.default_rng(3)
    a, b = generator.normal(size=30), generator.normal(0.4, 2, size=45)
    result = arms_difference(ArmUsers(a, np.ones(30)), ArmUsers(b, np.ones(45)))
    expected = stats.ttest_ind(b, a, equal_var=False)
    assert result.p == pytest.approx(expected.pvalue)
    assert result.df == pytest.approx(expected.df)
    interval = expected.confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high))


def test_cuped_is_a_regression_on_variant_and_covariate() -> None:
    """With one row a user the adjusted difference is the variant's slope beside the covariate, by least squares."""
    generator = np.random.default_rng(4)
    n = 400
    x = generator.normal(size=2 * n)
    y = 0.8 * x + generator.normal(size=2 * n) * 0.6 + np.repeat([0.0, 0.1], n)
    arms = [ArmUsers(y[part], np.ones(n), x[part]) for part in (slice(0, n), slice(n, None))]
    result = arms_difference(*arms)
    design = sm.add_constant(np.column_stack([np.repeat([0.0, 1.0], n), x]))
    fit = sm.OLS(y, design).fit(cov_type="HC1")
    assert result.difference == pytest.approx(fit.params[1])
    assert result.theta == pytest.approx(fit.params[2])
    assert result.stderr == pytest.approx(fit.bse[1], rel=0.01)
    rho = np.corrcoef(np.concatenate([y[:n] - y[:n].mean(), y[n:] - y[n:].mean()]),
                      np.concatenate([x[:n] - x[:n].mean(), x[n:] - x[n:].mean()]))[0, 1]  # fmt: skip
    assert result.variance_left == pytest.approx(1 - rho**2, abs=0.01)


@pytest.mark.slow
def test_experiments_without_a_difference() -> None:
    """150 users a variant: about 5% of equal variants differ at 5%; with rows as independent about 27% would."""
    generator = np.random.default_rng(5)
    ours = adjusted = rows = 0
    for _ in range(N_EXPERIMENTS):
        arms = users(generator, 150, rho=0.7), users(generator, 150, rho=0.7)
        adjusted += (arms_difference(*arms).p or 0.0) < 0.05
        plain = [ArmUsers(arm.sums, arm.counts) for arm in arms]
        ours += (arms_difference(*plain).p or 0.0) < 0.05
        shares = [float(arm.sums.sum() / arm.counts.sum()) for arm in arms]
        n_rows = [float(arm.counts.sum()) for arm in arms]
        stderr = math.sqrt(sum(p * (1 - p) / n for p, n in zip(shares, n_rows, strict=True)))
        rows += abs(shares[1] - shares[0]) > 1.96 * stderr
    stderr = math.sqrt(0.05 * 0.95 / N_EXPERIMENTS)
    assert abs(ours / N_EXPERIMENTS - 0.05) < 4 * stderr
    assert abs(adjusted / N_EXPERIMENTS - 0.05) < 4 * stderr
    assert rows / N_EXPERIMENTS > 0.2


def test_looking_twenty_times() -> None:
    """Twenty looks at 1.96 errors reject in 25% of equal variants; the interval for any time in less than 5%.

    24.8% is Armitage, McPherson and Rowe's (1969) for twenty looks.
    """
    generator = np.random.default_rng(6)
    looks = np.arange(1, 21) * 100  # users of both variants together
    often = anytime = 0
    for _ in range(N_EXPERIMENTS):
        values = generator.normal(size=(2, 1000))
        means, spreads = _running(values, looks // 2)
        stderr = np.sqrt((spreads / (looks // 2)).sum(axis=0))
        distance = np.abs(means[1] - means[0]) / stderr
        often += bool((distance > 1.96).any())
        anytime += bool((distance > [anytime_factor(int(n), 2000) for n in looks]).any())
    assert abs(often / N_EXPERIMENTS - 0.248) < 4 * math.sqrt(0.248 * 0.752 / N_EXPERIMENTS)
    assert anytime / N_EXPERIMENTS < 0.05


def _running(values: Floats, sizes: np.ndarray) -> tuple[Floats, Floats]:
    """Return means and variances of the first values. Shapes: values [2, n], sizes [looks]; results [2, looks]."""
    sums, squares = np.cumsum(values, axis=1)[:, sizes - 1], np.cumsum(values**2, axis=1)[:, sizes - 1]
    means = sums / sizes
    return means, (squares - sizes * means**2) / (sizes - 1)


def test_anytime_factor() -> None:
    """At N* users it is 1.55 times as wide as an interval for one look, as published, and narrowest near there."""
    assert anytime_factor(2000, 2000) / 1.96 == pytest.approx(1.55, abs=0.01)
    assert anytime_factor(2000, 2000) < anytime_factor(100, 2000)
    widths = {planned: anytime_factor(2000, planned) for planned in (200, 1000, 2000, 4000, 20_000)}
    assert min(widths, key=lambda planned: widths[planned]) == 2000
    result = arms_difference(ArmUsers(np.array([0.0, 1, 1]), np.ones(3)), ArmUsers(np.array([1.0, 1, 0]), np.ones(3)))
    interval = anytime_interval(result, 6, 6)
    assert interval.high - interval.low == pytest.approx(2 * anytime_factor(6, 6) * result.stderr)
    with pytest.raises(UsageError, match="planned"):
        anytime_factor(10, 0)


def test_sample_ratio_is_scipys_chi_square() -> None:
    """The test of the numbers of users is scipy's; below .001 the assignment is called broken."""
    for observed, shares in (((5000, 5400), None), ((500, 530), None), ((90, 210, 300), (1, 2, 3))):
        weights = np.array(shares or [1] * len(observed), dtype=float)
        expected = stats.chisquare(observed, sum(observed) * weights / weights.sum())
        result = sample_ratio(observed, shares)
        assert result.p == pytest.approx(expected.pvalue)
        assert result.is_broken == (expected.pvalue < 0.001)
    assert sample_ratio((5000, 5400)).is_broken
    assert not sample_ratio((500, 530)).is_broken


def test_bad_input() -> None:
    """Shapes, single users and ratios that do not fit are refused with what was expected."""
    with pytest.raises(DataError, match="expected at least 2 in each"):
        arms_difference(ArmUsers(np.ones(1), np.ones(1)), ArmUsers(np.ones(3), np.ones(3)))
    with pytest.raises(DataError, match="expected one number of each"):
        ArmUsers(np.ones(2), np.ones(3))
    with pytest.raises(DataError, match="no rows"):
        ArmUsers(np.ones(2), np.zeros(2))
    with pytest.raises(UsageError, match="one positive part for each"):
        sample_ratio((5, 5), (1, 2, 3))
    assert arm_mean(ArmUsers(np.ones(1), np.ones(1))).low is None


def test_outcomes_that_do_not_vary() -> None:
    """Where users do not differ, or only by rounding, there is no error to compute, so neither interval nor p."""
    tenths = ArmUsers(np.array([0.1, 0.2, 0.3, 0.7]), np.array([1.0, 2.0, 3.0, 7.0]))
    for arm in (ArmUsers(np.ones(5), np.ones(5)), tenths):
        result = arms_difference(arm, ArmUsers(np.ones(5), np.ones(5)))
        assert (result.low, result.high, result.stderr, result.p) == (None, None, 0.0, None)
        assert (arm_mean(arm).low, arm_mean(arm).stderr) == (None, 0.0)
