"""Influence of votes against leaving each out and against all subsets."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from assaymark.statistics.battles import Battles, connected_groups
from assaymark.statistics.bradley_terry import fit_bradley_terry
from assaymark.statistics.influence import smallest_change_of_top, vote_influence
from tests.statistics.published_votes import llmfao, mt_bench, simulated


def without(votes: Battles, removed: list[int]) -> Battles:
    """Return the battles without some."""
    kept = np.ones(len(votes), dtype=bool)
    kept[removed] = False
    return Battles(votes.first[kept], votes.second[kept], votes.outcome[kept], votes.n_models)


@pytest.mark.parametrize("with_side", [False, True])
def test_influence_is_the_change_without_the_vote(with_side: bool) -> None:
    """For every tenth vote the approximation is within 10% of the exact change of a refit without it."""
    rng = np.random.default_rng(0)
    votes, _ = simulated(rng, n_models=5, n_prompts=60, per_prompt=5, spread=0.0)
    side = rng.normal(size=(300, 1)) if with_side else None
    fit = fit_bradley_terry(votes, side)
    contrast = np.array([0.0, 0.0, 0.0, -1.0, 1.0])
    moved = vote_influence(votes, fit, contrast, side)
    for vote in range(0, 300, 10):
        rest = None if side is None else np.delete(side, vote, axis=0)
        exact = float(contrast @ (fit_bradley_terry(without(votes, [vote]), rest).strengths - fit.strengths))
        assert moved[vote] == pytest.approx(exact, rel=0.1, abs=2e-5)


def test_the_set_is_the_smallest_of_all_subsets() -> None:
    """In small arenas no subset with fewer votes changes the top, and the set found does."""
    rng = np.random.default_rng(1)
    sizes: list[int] = []
    while len(sizes) < 6:
        votes, _ = simulated(rng, n_models=3, n_prompts=6, per_prompt=4, spread=0.0)
        if len(connected_groups(votes.wins())) > 1:
            continue
        fit = fit_bradley_terry(votes)
        result = smallest_change_of_top(votes, fit)
        if result is None or len(result.votes) > 3:
            continue
        sizes.append(len(result.votes))
        assert top_of(without(votes, result.votes.tolist())) == result.second != result.first == top_of(votes)
        for size in range(1, len(result.votes)):
            for subset in combinations(range(len(votes)), size):
                rest = without(votes, list(subset))
                assert len(connected_groups(rest.wins())) > 1 or top_of(rest) == result.first
    assert max(sizes) > 1


def top_of(votes: Battles) -> int:
    """Return the model with the highest strength."""
    return int(fit_bradley_terry(votes).strengths.argmax())


def test_few_real_votes_change_the_top(shared_dir: Path) -> None:
    """Of 8,931 votes 13 put Platypus-2 before GPT 4; of MT-bench's 3,355, 92 put Claude first; one fewer does not."""
    for (names, votes), first, second, count in (
        (llmfao(shared_dir)[:2], "GPT 4", "Platypus-2 Instruct (70B)", 13),
        (mt_bench(shared_dir, "human"), "gpt-4", "claude-v1", 92),
    ):
        result = smallest_change_of_top(votes, fit_bradley_terry(votes))
        assert result is not None
        assert (names[result.first], names[result.second], len(result.votes)) == (first, second, count)
        assert result.gap_after < 0 < result.gap_before
        assert top_of(without(votes, result.votes.tolist())) == result.second
        assert top_of(without(votes, result.votes[:-1].tolist())) == result.first


def test_a_clear_first_is_not_displaced() -> None:
    """If half of the votes may go and the first still leads, nothing is found."""
    rng = np.random.default_rng(2)
    first = np.repeat([0, 1], [400, 40])
    second = np.repeat([1, 2], [400, 40])
    outcome = np.where(rng.random(440) < np.where(first == 0, 0.95, 0.5), 1.0, 0.0)
    votes = Battles(first, second, outcome, 3)
    fit = fit_bradley_terry(votes)
    result = smallest_change_of_top(votes, fit, most=0.1)
    assert fit.strengths.argmax() == 0
    assert result is None
