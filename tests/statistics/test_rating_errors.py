"""Errors of ratings: against published medians and an independent computation, and coverage by simulation."""

import math
from pathlib import Path

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics import rating_errors
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import ELO_SCALE, fit_bradley_terry, refit
from assaymark.statistics.rating_errors import (
    _cluster_scores,
    _refit_pairs,
    bootstrap_strengths,
    clustered_errors,
    one_sided_bound,
)
from tests.statistics.published_votes import llmfao, simulated


def twice(votes: Battles) -> Battles:
    """Return the battles with every vote entered twice."""
    doubled = [np.concatenate([values, values]) for values in (votes.first, votes.second, votes.outcome)]
    return Battles(doubled[0], doubled[1], doubled[2], votes.n_models)


def test_real_votes_have_the_reference_errors(shared_dir: Path) -> None:
    """Median and top error in points: by vote 20.09, 27.86; by prompt and pair 22.78, 31.16; by voter 20.52, 35.14."""
    names, votes, labels = llmfao(shared_dir)
    fit = fit_bradley_terry(votes)
    by = {"vote": np.arange(len(votes)), "id": labels["id"], "worker": labels["worker"]}
    for name, median, top in (("vote", 20.09, 27.86), ("id", 22.78, 31.16), ("worker", 20.52, 35.14)):
        errors = ELO_SCALE * np.sqrt(np.diag(clustered_errors(votes, fit, by[name]).covariance))
        assert float(np.median(errors)) == pytest.approx(median, abs=0.005)
        assert errors[names.index("GPT 4")] == pytest.approx(top, abs=0.005)


def test_errors_equal_a_general_clustered_regression() -> None:
    """Differences and effects have statsmodels' cluster-robust errors without its factor for finite samples."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(0)
    votes, prompts = simulated(rng, n_models=5, n_prompts=50, per_prompt=12, spread=0.5)
    side = np.ones((len(votes), 1))
    fit = fit_bradley_terry(votes, side)
    errors = clustered_errors(votes, fit, prompts, side)
    design = np.zeros((len(votes), 5))
    design[np.arange(len(votes)), votes.first], design[np.arange(len(votes)), votes.second] = 1.0, -1.0
    peer = api.GLM(votes.outcome, np.column_stack([design[:, 1:], side]), api.families.Binomial()).fit(
        tol=1e-14, cov_type="cluster", cov_kwds={"groups": prompts, "use_correction": False}
    )
    factor = math.sqrt(50 / 49)
    assert errors.n_clusters_of.tolist() == [50] * 5
    for model in range(1, 5):
        assert errors.stderr(model, 0) == pytest.approx(factor * peer.bse[model - 1], rel=1e-6)
    interval = errors.effect_interval(fit, 0)
    assert interval is not None
    assert interval.high - interval.low == pytest.approx(2 * 2.00957 * factor * peer.bse[4], rel=1e-4)  # t(49)


def test_intervals_by_prompt_cover_in_simulation() -> None:
    """If prompts favour some models, intervals by prompt cover 93 to 97%, those by vote far less."""
    rng = np.random.default_rng(0)
    estimates, widths = [], []
    for _ in range(100):
        votes, prompts = simulated(rng, n_models=6, n_prompts=30, per_prompt=40, spread=0.8)
        fit = fit_bradley_terry(votes)
        estimates.append(fit.strengths)
        by_prompt, by_vote = (clustered_errors(votes, fit, labels) for labels in (prompts, np.arange(len(votes))))
        results = [by_prompt.interval(0.0, model) for model in range(6)]
        feigned = 1.96 * np.sqrt(np.diag(by_vote.covariance))
        widths.append([[each.high for each in results if each is not None], feigned])
    distances = np.abs(np.array(estimates) - np.mean(estimates, axis=0))  # from what 100 arenas of this kind find
    covered = (distances[:, None] < np.array(widths)).mean(axis=(0, 2))  # by prompt, by vote
    assert 0.93 <= covered[0] <= 0.97
    assert covered[1] < 0.85


def test_every_vote_twice_leaves_intervals_by_prompt_unchanged() -> None:
    """Duplicated votes change no interval by prompt, sandwich or bootstrap; by vote it shrinks by √2."""
    rng = np.random.default_rng(1)
    votes, prompts = simulated(rng, n_models=5, n_prompts=40, per_prompt=10, spread=0.5)
    fit, again = fit_bradley_terry(votes), fit_bradley_terry(twice(votes))
    by_prompt = clustered_errors(votes, fit, prompts)
    doubled = clustered_errors(twice(votes), again, np.tile(prompts, 2))
    for model in range(5):
        item = by_prompt.interval(float(fit.strengths[model]), model)
        other = doubled.interval(float(again.strengths[model]), model)
        assert item is not None
        assert other is not None
        assert (other.low, other.high) == pytest.approx((item.low, item.high), abs=1e-9)
    by_vote, feigned = (clustered_errors(v, f, np.arange(len(v))) for v, f in ((votes, fit), (twice(votes), again)))
    assert float(np.sqrt(feigned.covariance[0, 0] / by_vote.covariance[0, 0])) == pytest.approx(math.sqrt(0.5))


def test_a_model_on_few_prompts_has_the_error_of_those_few() -> None:
    """The intervals of a model on 4 of 60 prompts cover it in 90 to 99%; on one prompt it has no interval."""
    rng = np.random.default_rng(2)
    result, intervals = [], []
    for _ in range(120):
        votes, prompts = simulated(rng, n_models=6, n_prompts=60, per_prompt=25, spread=0.8)
        kept = ((votes.first != 0) & (votes.second != 0)) | (prompts < 4)
        some = Battles(votes.first[kept], votes.second[kept], votes.outcome[kept], 6)
        fit = fit_bradley_terry(some)
        errors = clustered_errors(some, fit, prompts[kept])
        interval = errors.interval(float(fit.strengths[0]), 0)
        assert errors.n_clusters_of[0] == 4
        assert interval is not None
        result.append(float(fit.strengths[0]))
        intervals.append(interval)
    truth = float(np.mean(result))
    assert 0.90 <= np.mean([each.low < truth < each.high for each in intervals]) <= 0.99
    on_one = clustered_errors(some, fit, np.where(prompts[kept] < 4, 0, prompts[kept]))
    assert on_one.stderr(0) is None
    assert on_one.stderr(1) is not None


def test_one_prompt_per_pair_gives_no_error() -> None:
    """In a chain of models with one prompt for each pair there is no variation between prompts."""
    chain = Battles(np.array([0, 0, 1, 1]), np.array([1, 1, 2, 2]), np.array([1.0, 0.0, 1.0, 0.5]), 3)
    errors = clustered_errors(chain, fit_bradley_terry(chain), np.array([0, 0, 1, 1]))
    assert [errors.stderr(model) for model in range(3)] == [None, None, None]


def test_the_bootstrap_agrees_and_is_seeded() -> None:
    """The same votes give the same draws; their spread is the sandwich's, with and without covariates."""
    rng = np.random.default_rng(3)
    votes, prompts = simulated(rng, n_models=4, n_prompts=80, per_prompt=10, spread=0.5)
    side = np.ones((len(votes), 1))
    for covariates in (None, side):
        fit = fit_bradley_terry(votes, covariates)
        draws = bootstrap_strengths(votes, fit, prompts, covariates, draws=400)
        errors = np.sqrt(np.diag(clustered_errors(votes, fit, prompts, covariates).covariance))
        np.testing.assert_allclose(draws.std(axis=0), errors, rtol=0.12)
        np.testing.assert_array_equal(draws, bootstrap_strengths(votes, fit, prompts, covariates, draws=400))
        np.testing.assert_allclose(draws[:, :4].sum(axis=1), 0.0, atol=1e-9)


def test_a_clean_record_bounds_a_rating_on_one_side() -> None:
    """Ten wins of ten on ten prompts: the bound is the strength at which that has probability 5%, duplicated or not."""
    opponents, prompts = np.full(10, 0.7), np.arange(10)
    chance = 0.05 ** (1 / 10)
    expected = 0.7 + math.log(chance / (1 - chance))
    assert one_sided_bound(opponents, prompts, won_all=True) == pytest.approx(expected)
    assert one_sided_bound(np.tile(opponents, 2), np.tile(prompts, 2), won_all=True) == pytest.approx(expected)
    assert one_sided_bound(-opponents, prompts, won_all=False) == pytest.approx(-expected)
    assert one_sided_bound(np.array([]), np.array([]), won_all=True) is None


def test_one_label_per_vote() -> None:
    """Labels that do not match the votes are refused."""
    votes = Battles(np.array([0, 1]), np.array([1, 0]), np.array([1.0, 1.0]), 2)
    with pytest.raises(DataError, match="3 cluster labels for 2 votes"):
        clustered_errors(votes, fit_bradley_terry(votes), np.arange(3))


@pytest.mark.parametrize("flags_at_once", [1 << 24, 40, 1])
def test_small_clusters_have_the_same_errors_by_either_computation(
    flags_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum over pairs of votes of one prompt equals the sum over prompts, whatever their order, and in pieces."""
    monkeypatch.setattr(rating_errors, "_FLAGS_AT_ONCE", flags_at_once)
    rng = np.random.default_rng(7)
    votes, _ = simulated(rng, n_models=5, n_prompts=60, per_prompt=6, spread=0.5)
    prompts = rng.integers(0, 70, len(votes))
    fit = fit_bradley_terry(votes)
    fast = clustered_errors(votes, fit, prompts)
    _, index = np.unique(prompts, return_inverse=True)
    plain = sum((score.T @ score for score in _cluster_scores(votes, fit, index, None)), np.zeros(()))
    np.testing.assert_allclose(fast.covariance, fit.inverse_curvature @ plain @ fit.inverse_curvature, atol=1e-12)
    seen = {
        (cluster, model) for side in (votes.first, votes.second) for cluster, model in zip(index, side, strict=True)
    }
    assert fast.n_clusters_of.tolist() == [sum(entry == model for _, entry in seen) for model in range(5)]


def test_independent_votes_have_the_same_errors_by_either_computation() -> None:
    """The short cut for single votes equals the sum over clusters, and its bootstrap has that spread."""
    votes, _ = simulated(np.random.default_rng(6), n_models=4, n_prompts=100, per_prompt=8, spread=0.0)
    for covariates in (None, np.ones((len(votes), 1))):
        fit = fit_bradley_terry(votes, covariates)
        fast = clustered_errors(votes, fit, np.arange(len(votes)), covariates)
        plain = sum(
            (score.T @ score for score in _cluster_scores(votes, fit, np.arange(len(votes)), covariates)), np.zeros(())
        )
        np.testing.assert_allclose(fast.covariance, fit.inverse_curvature @ plain @ fit.inverse_curvature, atol=1e-12)
        drawn = bootstrap_strengths(votes, fit, np.arange(len(votes)), covariates, draws=600)
        np.testing.assert_allclose(drawn.std(axis=0), np.sqrt(np.diag(fast.covariance)), rtol=0.1)


def test_refits_of_pairs_equal_those_of_votes() -> None:
    """For random weights, steps on the matrix of pairs end at the strengths of damped steps on votes."""
    rng = np.random.default_rng(8)
    votes, _ = simulated(rng, n_models=6, n_prompts=80, per_prompt=10, spread=0.0)
    distinct, cell = votes.distinct()
    for start in (fit_bradley_terry(votes).strengths, np.zeros(6)):
        weights = np.bincount(cell, rng.exponential(size=len(votes))).astype(np.float64)
        result = _refit_pairs(distinct, weights, start)
        assert result is not None
        exact = refit(distinct, np.zeros((len(distinct), 0)), weights, start)
        np.testing.assert_allclose(result, exact, atol=1e-9)
    far = np.array([40.0, -40.0, 30.0, -30.0, 0.0, 0.0])
    assert _refit_pairs(distinct, weights, far) is None  # the caller then takes damped steps
