"""Choice of the interval for each kind of scores, and its coverage."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.estimate import (
    cluster_stderr,
    estimate_mean,
    estimate_perplexity,
    estimate_ratio,
)
from assaymark.statistics.intervals import wilson

Floats = NDArray[np.float64]


def test_right_and_wrong_answers_get_wilsons_interval() -> None:
    """Scores of 0 and 1 are detected as binary and get Wilson's interval with the ordinary standard error."""
    estimate = estimate_mean([1, 0, 1, 1])
    assert (estimate.value, estimate.method, estimate.n) == (0.75, "wilson", 4)
    assert (estimate.low, estimate.high) == (wilson(3, 4).low, wilson(3, 4).high)
    assert estimate.stderr == pytest.approx(math.sqrt(0.25 * 0.75 / 3))


@pytest.mark.parametrize("score", [0.0, 1.0, 0.5])
def test_equal_scores_do_not_make_a_point(score: float) -> None:
    """All right, all wrong or all half right, alone or in clusters, gives an interval of positive width."""
    for clusters in (None, [0, 0, 1, 1, 2, 2, 3, 3]):
        estimate = estimate_mean([score] * 8, clusters=clusters)
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= score <= estimate.high
        assert estimate.high - estimate.low > 0.2


def test_equal_scores_without_bounds_have_no_interval() -> None:
    """Without bounds, equal scores have no information on the spread: None, not a point."""
    estimate = estimate_mean([7.0, 7.0, 7.0])
    assert (estimate.low, estimate.high, estimate.stderr) == (None, None, None)
    assert estimate_mean([7.0, 7.0], bounds=(0.0, 10.0)).high == pytest.approx(7 + 3 * (1 - math.sqrt(0.025)))


def test_partial_credit_is_not_rounded_to_0_or_1() -> None:
    """Graded scores keep their value, and binary=True is refused for them."""
    assert estimate_mean([0.5, 1.0, 0.0, 0.25, 0.75, 0.5]).value == 0.5
    with pytest.raises(DataError, match="partial credit"):
        estimate_mean([0.5, 1.0], binary=True)


def test_nan_and_nothing_are_refused() -> None:
    """NaN never becomes 0, and no samples have no mean."""
    with pytest.raises(DataError, match="1 values that are not finite"):
        estimate_mean([1.0, math.nan])
    with pytest.raises(DataError, match="at least one"):
        estimate_mean([])


def test_order_does_not_matter() -> None:
    """Permuting samples leaves value and ends of every kind of estimate unchanged."""
    rng = np.random.default_rng(0)
    for scores in ((rng.random(50) < 0.8).astype(float), rng.random(50), rng.beta(0.2, 3, 50)):
        first, two = estimate_mean(np.sort(scores)), estimate_mean(np.sort(scores))
        assert first == two
        other = estimate_mean(rng.permutation(scores))
        assert other.value == pytest.approx(first.value, rel=1e-12)
        assert other.low == pytest.approx(first.low, abs=0.004)  # BCa draws positions: equal up to its draws' noise


SCORES: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float, float]] = {
    "even": (lambda rng, n: rng.random(n), 0.5, 0.91),
    "f1-like": (lambda rng, n: np.where(rng.random(n) < 0.6, 0.0, rng.beta(2, 1, n)), 0.4 * 2 / 3, 0.9),
    "skewed": (lambda rng, n: rng.beta(0.3, 3, n), 0.1 / 1.1, 0.88),
    "nearly all right": (lambda rng, n: (rng.random(n) < 0.97).astype(float), 0.97, 0.9),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(SCORES))
@pytest.mark.parametrize("n", [10, 40, 150])
def test_intervals_cover_the_truth(kind: str, n: int) -> None:
    """In 150 seeded repetitions the 95% interval covers the true mean about 95% of the time, at small n too."""
    draw, truth, least = SCORES[kind]
    rng = np.random.default_rng(n)
    covered = 0
    for _ in range(150):
        estimate = estimate_mean(draw(rng, n))
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= truth <= estimate.high
    assert least <= covered / 150


def test_singleton_clusters_give_the_ordinary_error_exactly() -> None:
    """With one sample per cluster the clustered error is the ordinary one."""
    scores = np.random.default_rng(0).random(25)
    stderr, count = cluster_stderr(scores, range(25))
    assert stderr == pytest.approx(scores.std(ddof=1) / 5, rel=1e-14)
    assert count == 25


def test_the_clustered_error_equals_statsmodels() -> None:
    """Miller's formula with the finite-cluster factor is statsmodels' cluster-robust error without its n factor."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(12), rng.integers(1, 7, 12))
    scores = rng.random(12)[labels] + rng.normal(0, 0.1, len(labels))
    n, c = len(scores), 12
    fit = api.OLS(scores, np.ones(n)).fit(cov_type="cluster", cov_kwds={"groups": labels, "use_correction": False})
    assert cluster_stderr(scores, labels.tolist())[0] == pytest.approx(fit.bse[0] * math.sqrt(c / (c - 1)), rel=1e-10)
    assert n > c


def test_clustered_intervals_cover_where_plain_ones_do_not() -> None:
    """With five dependent questions per passage the clustered interval covers, the ordinary one does not."""
    rng = np.random.default_rng(0)
    covered = {"plain": 0, "clustered": 0}
    labels = np.repeat(np.arange(30), 5)
    for _ in range(300):
        passage = rng.beta(2, 1, 30)
        scores = (rng.random(150) < np.where(rng.random(150) < 0.2, passage[labels], passage[labels] > 0.7)).astype(
            float
        )
        truth = 0.2 * 2 / 3 + 0.8 * (1 - 0.49)
        for kind, clusters in (("plain", None), ("clustered", labels)):
            estimate = estimate_mean(scores, clusters=clusters)
            assert estimate.low is not None
            assert estimate.high is not None
            covered[kind] += estimate.low <= truth <= estimate.high
    assert covered["clustered"] >= 0.92 * 300
    assert covered["plain"] <= 0.80 * 300


def test_clusters_must_match_and_be_several() -> None:
    """A single cluster has no spread, and there must be one label per score."""
    with pytest.raises(DataError, match="2 clusters"):
        estimate_mean([1, 0, 1], clusters=["a", "a", "a"])
    with pytest.raises(DataError, match="2 cluster labels for 3"):
        estimate_mean([1, 0, 1], clusters=["a", "b"])


def test_a_ratio_of_sums_is_transformed_to_perplexity_and_bits() -> None:
    """Value and ends are exp(-r) and -r / ln 2 of the ratio's, and the error its slope times."""
    nats, weights = [-10.0, -7.0, -30.0, -12.0], [4, 3, 9, 5]
    plain = estimate_ratio(nats, weights)
    perplexity = estimate_ratio(nats, weights, family="perplexity")
    bits = estimate_ratio(nats, weights, family="bits")
    assert plain.low is not None
    assert plain.high is not None
    assert plain.stderr is not None
    assert perplexity.value == pytest.approx(math.exp(59 / 21))
    assert (perplexity.low, perplexity.high) == pytest.approx((math.exp(-plain.high), math.exp(-plain.low)))
    assert perplexity.stderr == pytest.approx(perplexity.value * plain.stderr)
    assert bits.value == pytest.approx(59 / 21 / math.log(2))
    assert (bits.low, bits.high) == pytest.approx((-plain.high / math.log(2), -plain.low / math.log(2)))


def test_the_ratios_error_equals_a_bootstrap_and_its_interval_covers() -> None:
    """The delta error is within 5% of the resampled one, and 95% intervals cover the true bits per byte."""
    rng = np.random.default_rng(0)
    weights = rng.integers(50, 500, 400)
    nats = -weights * rng.gamma(20, 0.05, 400)
    index = rng.integers(0, 400, (4000, 400))
    resampled = (nats[index].sum(axis=1) / weights[index].sum(axis=1)).std()
    assert estimate_ratio(nats, weights).stderr == pytest.approx(resampled, rel=0.05)
    covered = 0
    for _ in range(400):
        weights = rng.integers(50, 500, 40)
        estimate = estimate_ratio(-weights * rng.gamma(20, 0.05, 40), weights, family="bits")
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 1 / math.log(2) <= estimate.high
    assert 0.92 <= covered / 400 <= 0.98


def test_per_sample_perplexity_is_lm_evals() -> None:
    """exp(-mean) of log-likelihoods, with an interval around it; one document has none."""
    estimate = estimate_perplexity([-1.0, -2.0, -3.0])
    assert estimate.value == pytest.approx(math.exp(2))
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high
    assert estimate_ratio([-3.0], [2]).low is None
    with pytest.raises(DataError, match="sum > 0"):
        estimate_ratio([-1.0, 1.0], [0, 0])


@pytest.mark.parametrize("size", [3, 5, 7])
def test_rounding_is_no_spread(size: int) -> None:
    """One right answer in each cluster, or 0.3 beside 0.1 + 0.2, makes no interval of 1e-17 around the mean."""
    labels = [index // size for index in range(10 * size)]
    clustered = estimate_mean([1.0, *[0.0] * (size - 1)] * 10, clusters=labels)
    assert clustered.stderr == 0.0
    for estimate in (clustered, estimate_mean([0.3, 0.1 + 0.2] * 20)):
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.high - estimate.low > 0.05


def test_equal_ratios_have_no_interval() -> None:
    """Documents of one perplexity say nothing about how others vary: there is no interval of width 0."""
    estimate = estimate_ratio([-0.1, -0.2, -0.3], [1, 2, 3], family="perplexity")
    assert (estimate.low, estimate.high, estimate.stderr) == (None, None, None)
