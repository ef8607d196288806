"""Matrices of pairs by hand, and residuals against a general regression."""

from pathlib import Path

import numpy as np
import pytest

from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import expected_outcomes, fit_bradley_terry
from assaymark.statistics.pair_matrices import pair_matrices
from tests.statistics.published_votes import llmfao, simulated


def test_counts_and_shares_by_hand() -> None:
    """Three battles with a tie: 2 of 3 are decisive, one win of two without ties, half of all with them."""
    votes = Battles(np.array([0, 1, 0, 1, 2]), np.array([1, 0, 1, 2, 1]), np.array([1.0, 1.0, 0.5, 1.0, 1.0]), 4)
    some, _ = votes.among(np.array([0, 1, 2]))
    result = pair_matrices(some, fit_bradley_terry(some))
    assert result.n_battles.tolist() == [[0, 3, 0], [3, 0, 2], [0, 2, 0]]
    assert result.n_decisive[0, 1] == 2
    assert result.win_fraction[0, 1] == result.observed[0, 1] == 0.5
    assert np.isnan(result.win_fraction[0, 2])
    assert result.predicted[0, 2] == pytest.approx(0.5)
    assert np.isnan(np.diag(result.predicted)).all()
    assert (result.degrees_of_freedom, result.p_of_fit) == (0, None)


def test_residuals_equal_a_general_regressions() -> None:
    """Z is statsmodels' studentized Pearson residual of the pairs' win shares at our dispersion; so is chi-square."""
    api = pytest.importorskip("statsmodels.api")
    votes, _ = simulated(np.random.default_rng(0), n_models=5, n_prompts=100, per_prompt=6, spread=0.0)
    result = pair_matrices(votes, fit_bradley_terry(votes))
    rows, columns = np.triu_indices(5, 1)
    met, wins = result.n_battles[rows, columns], votes.wins()[rows, columns]
    design = np.zeros((10, 5))
    design[np.arange(10), rows], design[np.arange(10), columns] = 1.0, -1.0
    model = api.GLM(wins / met, design[:, 1:], api.families.Binomial(), var_weights=met)
    peer = model.fit(tol=1e-14, scale=result.dispersion)
    np.testing.assert_allclose(result.residuals[rows, columns], peer.get_influence().resid_studentized, rtol=1e-6)
    assert result.chi_square == pytest.approx(float(peer.pearson_chi2) / result.dispersion, rel=1e-9)
    assert result.degrees_of_freedom == peer.df_resid
    np.testing.assert_allclose(result.residuals, -result.residuals.T, atol=1e-9)


def test_a_planted_circle_is_found_and_others_are_not() -> None:
    """If three of six models beat each other in a circle, only pairs of these are significant; else few pairs are."""
    rng = np.random.default_rng(1)
    wrong = 0
    for number in range(40):
        first = rng.integers(0, 6, 3000)
        second = (first + rng.integers(1, 6, 3000)) % 6
        chance = expected_outcomes(np.linspace(-0.5, 0.5, 6))[first, second]
        if number == 0:
            in_circle = (first < 3) & (second < 3)
            chance = np.where(in_circle, np.where((second - first) % 3 == 1, 0.8, 0.2), chance)
        votes = Battles(first, second, (rng.random(3000) < chance).astype(float), 6)
        result = pair_matrices(votes, fit_bradley_terry(votes))
        if number == 0:
            assert result.p_of_fit is not None
            assert result.p_of_fit < 1e-6
            for each in range(3):
                assert result.residuals[each, (each + 1) % 3] > 4
                assert result.significance[each, (each + 1) % 3] < 0.01
        else:
            wrong += bool((result.significance < 0.05).any())
    assert wrong <= 6  # of 39: the family-wise error is 5%


def test_covariates_are_in_the_prediction(shared_dir: Path) -> None:
    """With the effect of side A the sums of predicted and observed wins agree for every model; 39% ties: φ is 0.57."""
    _, votes, _ = llmfao(shared_dir)
    side = np.ones((len(votes), 1))
    result = pair_matrices(votes, fit_bradley_terry(votes, side), side)
    met = result.n_battles > 0
    for model in range(votes.n_models):
        own = met[model]
        gap = (result.n_battles[model] * (result.predicted[model] - result.observed[model]))[own].sum()
        assert gap == pytest.approx(0.0, abs=1e-6)
    assert result.dispersion == pytest.approx(0.57, abs=0.005)
    assert result.degrees_of_freedom == int(met.sum()) // 2 - 59
