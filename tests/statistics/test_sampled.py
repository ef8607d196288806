"""Estimates from draws with known probabilities, beside hand computation and simulation."""

import math

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.estimate import estimate_mean, estimate_ratio
from assaymark.statistics.summed import estimate_sampled_mean


def test_by_hand() -> None:
    """Two scores at rates 1 and 1/4 have the weights 1 and 4."""
    result = estimate_sampled_mean([1.0, 0.0], [1.0, 0.25])
    assert result.value == pytest.approx(1 / 5)
    # residuals 0.8 and -0.8 of a sum of weights 5, times 2 / (2 - 1)
    assert result.stderr == pytest.approx(math.sqrt(2 * (0.8**2 + 0.8**2)) / 5)


def test_it_is_a_ratio_of_sums() -> None:
    """Value and error are those of `estimate_ratio` of weighted scores over weights, also summed by cluster."""
    generator = np.random.default_rng(3)
    values, rates = generator.normal(size=60), generator.uniform(0.05, 1, 60)
    ratio = estimate_ratio(values / rates, 1 / rates)
    result = estimate_sampled_mean(list(values), list(rates))
    assert (result.value, result.stderr) == pytest.approx((ratio.value, ratio.stderr))
    clusters = [at // 3 for at in range(60)]
    summed = estimate_ratio((values / rates).reshape(20, 3).sum(1), (1 / rates).reshape(20, 3).sum(1))
    clustered = estimate_sampled_mean(list(values), list(rates), clusters)
    assert (clustered.value, clustered.stderr) == pytest.approx((summed.value, summed.stderr))


def test_one_rate_is_the_plain_mean() -> None:
    """At one rate the weights cancel: value and interval are those of `estimate_mean`."""
    values = [1.0, 0.0, 1.0, 1.0]
    assert estimate_sampled_mean(values, [0.1] * 4) == estimate_mean(values)
    clusters = ["a", "a", "b", "c"]
    assert estimate_sampled_mean(values, [0.1] * 4, clusters) == estimate_mean(values, clusters=clusters)


def test_one_cluster_has_no_interval() -> None:
    """Scores of one session say nothing of another one."""
    result = estimate_sampled_mean([1.0, 0.0], [1.0, 0.5], ["s", "s"])
    assert result.value == pytest.approx(1 / 3)
    assert (result.low, result.high) == (None, None)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, math.nan])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    """A rate of 0 could not have drawn the score."""
    with pytest.raises(DataError):
        estimate_sampled_mean([1.0, 0.0], [1.0, rate])


@pytest.mark.parametrize("kind", ["right or wrong", "graded", "number", "sessions"])
def test_coverage(kind: str) -> None:
    """Where hard traces are drawn at another rate, the unweighted mean is wrong, and the interval covers the truth.

    Each of 1,000 applications makes 400 traces, of which failed ones are drawn at 1 and others at 0.2.
    """
    generator = np.random.default_rng(11)
    n_covered = n_covered_plain = 0
    for _ in range(1000):
        is_hard = generator.random(400) < 0.25
        chance = np.where(is_hard, 0.4, 0.9)
        sessions = np.arange(400)
        if kind == "sessions":  # pairs that share their luck
            sessions, chance, is_hard = sessions // 2, np.repeat(chance[::2], 2), np.repeat(is_hard[::2], 2)
            values = (np.repeat(generator.random(200), 2) < chance).astype(float)
        elif kind == "graded":
            values = generator.beta(4 * chance, 4 * (1 - chance))
        elif kind == "number":
            values = 100 * chance + generator.normal(0, 10, 400)
        else:
            values = (generator.random(400) < chance).astype(float)
        truth = 0.25 * 0.4 + 0.75 * 0.9
        rates = np.where(is_hard, 1.0, 0.2)
        drawn = generator.random(400) < rates
        result = estimate_sampled_mean(list(values[drawn]), list(rates[drawn]), list(sessions[drawn]))
        assert result.low is not None
        assert result.high is not None
        truth *= 100 if kind == "number" else 1
        n_covered += result.low <= truth <= result.high
        plain = estimate_mean(values[drawn])
        n_covered_plain += plain.low is not None and plain.high is not None and plain.low <= truth <= plain.high
    assert 930 <= n_covered <= 985, n_covered
    assert n_covered_plain < 700


def test_rounding_is_no_spread() -> None:
    """Sessions that all have one mean, at different rates, do not make an interval of 1e-17 around it."""
    sessions = [index // 3 for index in range(21)]
    result = estimate_sampled_mean([1, 0, 0] * 7, [0.3, 0.2, 0.3] * 7, sessions)
    assert result.stderr == 0.0
    assert result.low is not None
    assert result.high is not None
    assert result.high - result.low > 0.1
