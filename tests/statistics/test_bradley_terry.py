"""Bradley-Terry against textbook problems, published ratings of real votes, and a general logistic regression."""

import math
from pathlib import Path

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import (
    ELO_SCALE,
    BradleyTerry,
    TooFewVotes,
    expected_outcomes,
    expected_win_rates,
    fit_bradley_terry,
    pair_weights,
)
from tests.statistics.published_votes import baseball, battles_between, golden, llmfao, mt_bench, rows_of, simulated


def stderr_between(fit: BradleyTerry, model: int, other: int) -> float:
    """Return the textbook error of a difference, for votes that are independent and without ties."""
    inverse = fit.inverse_curvature
    return math.sqrt(inverse[model, model] + inverse[other, other] - 2 * inverse[model, other])


def test_four_teams_by_hand() -> None:
    """A-B 2:3, A-D 1:4, B-C 5:3, C-D 1:3 give 0.640, 1.043, 0.660, 2.270 over their geometric mean."""
    results = [("A", "B", 2, 3), ("A", "D", 1, 4), ("B", "C", 5, 3), ("C", "D", 1, 3)]
    pairs = [(a, b) for a, b, won, lost in results for _ in range(won + lost)]
    outcomes = [outcome for *_, won, lost in results for outcome in [1.0] * won + [0.0] * lost]
    fit = fit_bradley_terry(battles_between(pairs, outcomes)[1])
    np.testing.assert_allclose(np.exp(fit.strengths), [0.6398, 1.0433, 0.6598, 2.2704], atol=5e-5)


def test_real_votes_have_evalicas_strengths(shared_dir: Path) -> None:
    """On 8,931 votes with ties every strength is the published one to 1e-12, and so is the likelihood."""
    names, votes, _ = llmfao(shared_dir)
    fit = fit_bradley_terry(votes)
    strengths = np.exp(fit.strengths) / np.exp(fit.strengths).sum()
    np.testing.assert_allclose(strengths, golden(shared_dir, "bradley_terry", names), rtol=1e-12)
    assert fit.log_likelihood == pytest.approx(-5743.381724, abs=1e-6)
    assert 1000 + ELO_SCALE * fit.strengths.max() == pytest.approx(1172.13, abs=0.005)


def test_baseball_has_agrestis_strengths_errors_and_home_advantage(shared_dir: Path) -> None:
    """Without and with the home effect coefficients and standard errors are the published ones."""
    names, games = baseball(shared_dir)
    fit, base = fit_bradley_terry(games), names.index("Baltimore")
    published = {
        "Boston": (1.1077, 0.3339), "Cleveland": (0.6839, 0.3319), "Detroit": (1.4364, 0.3396),
        "Milwaukee": (1.5814, 0.3433), "New York": (1.2476, 0.3359), "Toronto": (1.2945, 0.3367),
    }  # fmt: skip
    for team, (value, error) in published.items():
        place = names.index(team)
        assert fit.strengths[place] - fit.strengths[base] == pytest.approx(value, abs=1e-4)
        assert stderr_between(fit, place, base) == pytest.approx(error, abs=1e-4)
    home = fit_bradley_terry(games, np.ones((len(games), 1)))
    assert home.effects[0] == pytest.approx(0.3023, abs=1e-4)
    assert math.sqrt(home.inverse_curvature[-1, -1]) == pytest.approx(0.1309, abs=1e-4)
    shares = np.sort(np.exp(home.strengths) / np.exp(home.strengths).sum())
    np.testing.assert_allclose(shares, [0.044, 0.088, 0.137, 0.157, 0.164, 0.190, 0.220], atol=5e-4)


def test_citations_have_agrestis_strengths_and_errors(shared_dir: Path) -> None:
    """Which statistics journal cites which: strengths against Biometrika and their errors are the published ones."""
    rows = rows_of(shared_dir / "data/arena/btcheck/citations_cited_by_citing.csv")
    names = [row[""] for row in rows]
    pairs = [(a[""], b) for a in rows for b in names if a[""] != b for _ in range(int(a[b]))]  # cited beats citing
    result, battles = battles_between(pairs, [1.0] * len(pairs))
    fit, base = fit_bradley_terry(battles), result.index("Biometrika")
    for name, value, error in (
        ("Comm Statist", -2.9491, 0.1025),
        ("JASA", -0.4796, 0.0606),
        ("JRSS-B", 0.2690, 0.0708),
    ):
        place = result.index(name)
        assert fit.strengths[place] - fit.strengths[base] == pytest.approx(value, abs=1e-4)
        assert stderr_between(fit, place, base) == pytest.approx(error, abs=1e-4)


def test_mt_bench_by_people_and_by_gpt_4(shared_dir: Path) -> None:
    """Both judges give the same order; GPT-4's scale is about 1.5 times as wide."""
    expected = {
        "human": [867.7, 1111.7, 1104.2, 1177.4, 749.0, 990.1],
        "gpt4_pair": [786.4, 1171.9, 1091.4, 1314.5, 665.5, 970.4],
    }
    for file, ratings in expected.items():
        names, votes = mt_bench(shared_dir, file)
        assert names == ["alpaca-13b", "claude-v1", "gpt-3.5-turbo", "gpt-4", "llama-13b", "vicuna-13b-v1.2"]
        np.testing.assert_allclose(1000 + ELO_SCALE * fit_bradley_terry(votes).strengths, ratings, atol=0.05)


def test_covariates_equal_a_general_logistic_regression() -> None:
    """Strengths, effects, likelihood and inverse curvature are those of statsmodels' binomial model."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(0)
    votes, _ = simulated(rng, n_models=5, n_prompts=100, per_prompt=4, spread=0.0)
    covariates = np.column_stack([np.ones(400), rng.normal(size=400)])
    fit = fit_bradley_terry(votes, covariates)
    design = np.zeros((400, 5))
    design[np.arange(400), votes.first], design[np.arange(400), votes.second] = 1.0, -1.0
    peer = api.GLM(votes.outcome, np.column_stack([design[:, 1:], covariates]), api.families.Binomial()).fit(tol=1e-14)
    np.testing.assert_allclose(fit.strengths[1:] - fit.strengths[0], peer.params[:4], atol=1e-9)
    np.testing.assert_allclose(fit.effects, peer.params[4:], atol=1e-9)
    np.testing.assert_allclose(fit.inverse_curvature[5:, 5:], peer.cov_params()[4:, 4:], rtol=1e-6)
    assert stderr_between(fit, 3, 0) == pytest.approx(peer.bse[2], rel=1e-6)


def test_swapping_sides_changes_nothing() -> None:
    """Battles with swapped sides and covariates give the same strengths and effects."""
    rng = np.random.default_rng(1)
    votes, _ = simulated(rng, n_models=4, n_prompts=60, per_prompt=5, spread=0.0)
    style = rng.normal(size=(300, 1))
    other = Battles(votes.second, votes.first, 1.0 - votes.outcome, 4)
    fit, swapped = fit_bradley_terry(votes, style), fit_bradley_terry(other, -style)
    np.testing.assert_allclose(fit.strengths, swapped.strengths, atol=1e-12)
    np.testing.assert_allclose(fit.effects, swapped.effects, atol=1e-12)


def test_fits_without_a_finite_solution_are_refused() -> None:
    """A model that won all votes, a constant zero covariate, and one that determines every outcome are errors."""
    won_all = Battles(np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([1.0, 1.0, 0.5]), 3)
    with pytest.raises(DataError, match="2 groups"):
        fit_bradley_terry(won_all)
    even = Battles(np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]), np.array([1.0, 1.0, 0.0, 0.0]), 2)
    with pytest.raises(DataError, match="constant"):
        fit_bradley_terry(even, np.zeros((4, 1)))
    with pytest.raises(TooFewVotes, match=r"predict every one of the 4 votes \(separation\).* about 10 for each model"):
        fit_bradley_terry(even, 2.0 * even.outcome[:, None] - 1.0)
    sides = Battles(np.array([0, 1, 0]), np.array([1, 0, 1]), np.array([1.0, 1.0, 1.0]), 2)  # the left one always won
    with pytest.raises(TooFewVotes, match="separation"):
        fit_bradley_terry(sides, np.ones((3, 1)))
    mixed = Battles(np.array([0, 1, 0, 1]), np.array([1, 0, 1, 0]), np.array([1.0, 1.0, 0.0, 1.0]), 2)
    with pytest.raises(TooFewVotes, match="separation"):  # one side's effect is finite alone, and so are strengths
        fit_bradley_terry(mixed, np.ones((4, 1)))
    with pytest.raises(DataError, match="without missing values"):
        fit_bradley_terry(even, np.array([[1.0], [2.0], [math.nan], [0.0]]))


def test_expected_win_rates_average_to_a_half() -> None:
    """Against all others equally often the mean is 1/2; of two models 400 points apart one wins 10 of 11."""
    assert expected_win_rates(expected_outcomes(np.array([0.3, -1.0, 2.0]))).mean() == pytest.approx(0.5)
    assert expected_win_rates(expected_outcomes(np.array([400.0, 0.0]) / ELO_SCALE))[0] == pytest.approx(10 / 11)


def test_reweighted_pairs_equal_a_weighted_regression() -> None:
    """A pair with 300 votes weighs as one with 50: the fit is statsmodels' with frequency weights 1 / max(n, 50)."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(2)
    first, second = np.repeat([0, 1, 2], [300, 60, 20]), np.repeat([1, 2, 0], [300, 60, 20])
    chances = np.repeat([0.8, 0.4, 0.7], [300, 60, 20])  # a circle, so that weights matter
    votes = Battles(first, second, (rng.random(380) < chances).astype(float), 3)
    weights = pair_weights(votes)
    assert sorted(set(weights.tolist())) == [1 / 300, 1 / 60, 1 / 50]
    fit = fit_bradley_terry(votes, None, weights)
    design = np.zeros((380, 3))
    design[np.arange(380), first], design[np.arange(380), second] = 1.0, -1.0
    peer = api.GLM(votes.outcome, design[:, 1:], api.families.Binomial(), freq_weights=weights).fit(tol=1e-14)
    np.testing.assert_allclose(fit.strengths[1:] - fit.strengths[0], peer.params, atol=1e-8)
    assert not np.allclose(fit.strengths, fit_bradley_terry(votes).strengths, atol=0.01)
    assert stderr_between(fit, 1, 0) == pytest.approx(peer.bse[0], rel=1e-6)
