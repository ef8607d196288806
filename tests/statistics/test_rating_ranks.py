"""Ranks of ratings: the published leaderboards' rule, and simultaneous rank sets."""

import re
from pathlib import Path

import numpy as np
import pytest

from assaymark.statistics.bradley_terry import fit_bradley_terry
from assaymark.statistics.distributions import t_sf
from assaymark.statistics.rating_errors import bootstrap_strengths, clustered_errors
from assaymark.statistics.rating_ranks import chances_of_best, ranks_by_upper_bound, rating_rank_sets
from tests.statistics.published_votes import mt_bench, rows_of, simulated


def test_published_boards_ranks_come_from_their_intervals(shared_dir: Path) -> None:
    """For 14 monthly leaderboards of Chatbot Arena 75% of ranks follow from the rounded intervals, 98% within two."""
    boards = sorted((shared_dir / "data/arena/lmarena/history_text").glob("*.csv"))
    assert len(boards) == 14
    for board in boards:
        rows = rows_of(board)
        scores = np.array([float(row.get("arena_score") or row["arena_elo"]) for row in rows])
        ends = np.array([[int(end) for end in re.findall(r"\d+", row["95_pct_ci"])] for row in rows])
        ranks = ranks_by_upper_bound(scores - ends[:, 1], scores + ends[:, 0])
        off = np.abs(ranks - np.array([int(row["rank"]) for row in rows]))
        assert (off == 0).mean() >= 0.75
        assert (off <= 2).mean() >= 0.98


def test_mt_bench_models_have_distinct_ranks_but_for_two(shared_dir: Path) -> None:
    """By vote all six models have a rank of their own, except Claude and GPT-3.5, which share two."""
    names, votes = mt_bench(shared_dir, "human")
    fit = fit_bradley_terry(votes)
    sets = rating_rank_sets(fit, clustered_errors(votes, fit, np.arange(len(votes))))
    results = {names[each.index]: (each.best, each.worst) for each in sets}
    assert results == {
        "gpt-4": (1, 1), "claude-v1": (2, 3), "gpt-3.5-turbo": (2, 3), "vicuna-13b-v1.2": (4, 4),
        "alpaca-13b": (5, 5), "llama-13b": (6, 6),
    }  # fmt: skip


def test_rank_sets_cover_simultaneously_in_simulation() -> None:
    """In at least 95 of 100 simulations all true ranks are in their sets, although prompts favour some models."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        votes, prompts = simulated(rng, n_models=6, n_prompts=40, per_prompt=20, spread=0.5)
        fit = fit_bradley_terry(votes)
        sets = rating_rank_sets(fit, clustered_errors(votes, fit, prompts))
        held += all(each.best <= 6 - each.index <= each.worst for each in sets)  # the last model is the best
    assert held >= 95


def test_without_an_error_no_model_is_outranked() -> None:
    """If all votes are on one prompt, every model may have every rank."""
    votes, _ = simulated(np.random.default_rng(0), n_models=4, n_prompts=10, per_prompt=50, spread=0.0)
    fit = fit_bradley_terry(votes)
    sets = rating_rank_sets(fit, clustered_errors(votes, fit, np.zeros(len(votes))))
    assert {(each.best, each.worst) for each in sets} == {(1, 4)}
    assert [item.value for item in sets] == sorted(fit.strengths.tolist(), reverse=True)
    assert sets[0].value == pytest.approx(fit.strengths.max())


def test_the_probability_of_the_best_of_two_is_students() -> None:
    """For two models it is t's distribution at difference over error; seeded, and None for one cluster."""
    rng = np.random.default_rng(3)
    votes, prompts = simulated(rng, n_models=2, n_prompts=12, per_prompt=6, spread=1.5)
    fit = fit_bradley_terry(votes)
    errors = clustered_errors(votes, fit, prompts)
    result = chances_of_best(fit, errors)
    error = errors.stderr(1, 0)
    assert result is not None
    assert error is not None
    assert result[1] == pytest.approx(1 - t_sf(float(fit.strengths[1] - fit.strengths[0]) / error, 11), abs=0.01)
    assert 0.5 < result[1] < 0.999
    assert result.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(result, chances_of_best(fit, errors))
    assert chances_of_best(fit, clustered_errors(votes, fit, np.zeros(72))) is None


def test_the_probability_of_the_best_agrees_with_the_bootstrap() -> None:
    """With 80 prompts the shares of first places in 1,000 refits are within 0.05 of those of the t distribution."""
    votes, prompts = simulated(np.random.default_rng(4), n_models=6, n_prompts=80, per_prompt=8, spread=1.0)
    fit = fit_bradley_terry(votes)
    errors = clustered_errors(votes, fit, prompts)
    drawn = chances_of_best(fit, errors, bootstrap_strengths(votes, fit, prompts))
    result = chances_of_best(fit, errors)
    assert result is not None
    assert drawn is not None
    assert 0.02 < result.max() < 0.98
    np.testing.assert_allclose(result, drawn, atol=0.05)
