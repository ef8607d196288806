"""Davidson's and Rao and Kupper's models against a general optimiser, published fits and real votes."""

import math
from pathlib import Path

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import fit_bradley_terry
from assaymark.statistics.rating_errors import clustered_errors
from assaymark.statistics.tie_models import TieModel, fit_tie_model, outcomes_of
from tests.statistics.published_votes import llmfao, simulated, springall

MODELS: tuple[TieModel, ...] = ("davidson", "rao-kupper")


def direct_loss(model: TieModel, battles: Battles, covariates: np.ndarray, values: np.ndarray) -> float:
    """Return minus the log-likelihood from the textbook's formulas in π = exp(θ), ν and exp(η)."""
    n = battles.n_models
    score = covariates @ values[n:-1]
    item = np.exp(values[battles.first] + 0.5 * score)
    other = np.exp(values[battles.second] - 0.5 * score)
    if model == "davidson":
        middle = math.exp(values[-1]) * np.sqrt(item * other)
        chances = [item / (item + other + middle), middle / (item + other + middle), other / (item + other + middle)]
    else:
        threshold = math.exp(values[-1])
        win, loss = item / (item + threshold * other), other / (other + threshold * item)
        chances = [win, 1.0 - win - loss, loss]
    kind = (2 - 2 * battles.outcome).astype(int)
    return -float(np.log(np.choose(kind, chances)).sum())


@pytest.mark.parametrize("model", MODELS)
def test_the_fit_is_that_of_a_general_optimiser(model: TieModel) -> None:
    """Strengths, side effect, tie parameter and likelihood are those scipy finds from the textbook's formulas."""
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(0)
    votes, _ = simulated(rng, n_models=4, n_prompts=100, per_prompt=4, spread=0.0)
    side = np.ones((400, 1))
    result = fit_tie_model(votes, model, side)
    peer = optimize.minimize(
        lambda free: direct_loss(model, votes, side, np.concatenate([[0.0], free])),
        np.array([0.0, 0.0, 0.0, 0.0, 0.5]), method="BFGS", options={"gtol": 1e-7},
    )  # fmt: skip
    np.testing.assert_allclose(result.fit.strengths[1:] - result.fit.strengths[0], peer.x[:3], atol=1e-5)
    np.testing.assert_allclose(result.fit.effects, peer.x[3:], atol=1e-5)
    assert result.fit.log_likelihood == pytest.approx(-peer.fun, abs=1e-8)
    assert result.fit.strengths.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_scores_and_curvature_are_derivatives(model: TieModel) -> None:
    """The inverse curvature is that of numerical second derivatives, and every vote's scores sum to 0 at the fit."""
    rng = np.random.default_rng(1)
    votes, _ = simulated(rng, n_models=3, n_prompts=40, per_prompt=5, spread=0.0)
    result = fit_tie_model(votes, model)
    at, none, step = np.append(result.fit.strengths, result.parameter), np.zeros((200, 0)), 1e-4

    def loss(*moves: int) -> float:
        moved = at.copy()
        for move in moves:
            moved[abs(move) - 1] += math.copysign(step, move)
        return direct_loss(model, votes, none, moved)

    size = range(1, 5)
    hessian = np.array(
        [[(loss(i, j) - loss(i, -j) - loss(-i, j) + loss(-i, -j)) / (4 * step**2) for j in size] for i in size]
    )
    np.testing.assert_allclose(np.linalg.pinv(hessian, rcond=1e-5), result.fit.inverse_curvature, atol=1e-5)
    assert result.tie_scores.sum() == pytest.approx(0.0, abs=1e-8)
    own = np.bincount(votes.first, result.fit.residuals, 3) - np.bincount(votes.second, result.fit.residuals, 3)
    np.testing.assert_allclose(own, 0.0, atol=1e-8)


def test_springalls_tasters(shared_dir: Path) -> None:
    """Totals are 411, 276 and 198; both models predict the 198 ties, and the wins of each item in all."""
    votes = springall(shared_dir)
    assert [int((votes.outcome == value).sum()) for value in (1.0, 0.0, 0.5)] == [411, 276, 198]
    for model in MODELS:
        result = fit_tie_model(votes, model)
        chances = result.matrix()
        met = votes.wins() + votes.wins().T
        assert float((met * chances.tie).sum()) / 2 == pytest.approx(198, abs=1e-6 if model == "davidson" else 1.5)
        expected = (met * (chances.win + 0.5 * chances.tie)).sum(axis=1)
        np.testing.assert_allclose(expected, votes.wins().sum(axis=1), atol=1e-6 if model == "davidson" else 2.0)


def test_real_votes_have_the_reference_fit(shared_dir: Path) -> None:
    """On 8,931 votes, 39% ties: log-likelihoods -8995.8 and -8977.5 (-9739.7 without models), ν 1.480, η 0.942."""
    _, votes, _ = llmfao(shared_dir)
    half = fit_bradley_terry(votes).strengths
    published: dict[TieModel, tuple[float, float, float]] = {
        "davidson": (-8995.8, math.log(1.480), 1.75),
        "rao-kupper": (-8977.5, 0.942, 1.23),
    }
    for model, (likelihood, parameter, wider) in published.items():
        result = fit_tie_model(votes, model)
        assert result.fit.log_likelihood == pytest.approx(likelihood, abs=0.05)
        assert result.parameter == pytest.approx(parameter, abs=5e-4)
        assert result.fit.strengths.std() / half.std() == pytest.approx(wider, abs=0.01)
        order = np.corrcoef(result.fit.strengths.argsort().argsort(), half.argsort().argsort())[0, 1]
        assert order == pytest.approx(1.000 if model == "davidson" else 0.994, abs=5e-4)


def test_outcomes_sum_to_one_and_favour_the_stronger() -> None:
    """Probabilities sum to 1; between equals a win is as probable as a loss, and a larger parameter means more ties."""
    score = np.array([-30.0, -1.0, 0.0, 1.0, 30.0])
    for model in MODELS:
        few, many = outcomes_of(model, score, 0.1), outcomes_of(model, score, 1.0)
        np.testing.assert_allclose(few.win + few.tie + few.loss, 1.0, atol=1e-12)
        np.testing.assert_allclose(few.win, few.loss[::-1], atol=1e-12)
        assert (np.diff(few.win) > 0).all()
        assert (many.tie > few.tie).all()


@pytest.mark.parametrize("model", MODELS)
def test_clustered_errors_cover_and_ignore_duplicates(model: TieModel) -> None:
    """Errors of strengths and of the tie parameter are the spread over 150 simulated arenas; duplicates change none."""
    rng = np.random.default_rng(2)
    values, errors = [], []
    for _ in range(150):
        votes, prompts = simulated(rng, n_models=4, n_prompts=60, per_prompt=10, spread=0.6)
        result = fit_tie_model(votes, model)
        made = clustered_errors(votes, result.fit, prompts, tie_scores=result.tie_scores)
        values.append(np.append(result.fit.strengths, result.parameter))
        errors.append(np.sqrt(np.diag(made.covariance)))
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(values, axis=0), rtol=0.15)
    twice = Battles(np.tile(votes.first, 2), np.tile(votes.second, 2), np.tile(votes.outcome, 2), 4)
    again = fit_tie_model(twice, model)
    doubled = clustered_errors(twice, again.fit, np.tile(prompts, 2), tie_scores=again.tie_scores)
    np.testing.assert_allclose(doubled.covariance, made.covariance, atol=1e-9)


def test_without_ties_or_without_wins_there_is_no_fit() -> None:
    """The parameter would be infinite, which is refused with the remedy."""
    rng = np.random.default_rng(3)
    votes, _ = simulated(rng, n_models=3, n_prompts=30, per_prompt=4, spread=0.0)
    for outcome in (np.where(votes.outcome == 0.5, 1.0, votes.outcome), np.full(120, 0.5)):
        with pytest.raises(DataError, match="as half wins"):
            fit_tie_model(Battles(votes.first, votes.second, outcome, 3), "davidson")
