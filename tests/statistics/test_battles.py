"""Votes as matrices, and the groups of connected models."""

from pathlib import Path

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.battles import Battles, average_win_rates, connected_groups, standing_of
from tests.statistics.published_votes import golden, llmfao


def battles(*votes: tuple[int, int, float], n_models: int = 4) -> Battles:
    """Return battles from (first, second, outcome)."""
    table = np.array(votes)
    return Battles(table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2], n_models)


def test_wins_count_ties_half_for_both() -> None:
    """A win and a tie are 1.5 to 0.5, whatever the sides; ties and votes are counted as well."""
    item = battles((0, 1, 1.0), (1, 0, 0.0), (1, 0, 0.5), (0, 2, 0.0))
    assert item.wins()[0, 1] == 2.5
    assert item.wins()[1, 0] == 0.5
    assert item.ties()[0, 1] == item.ties()[1, 0] == 1.0
    assert item.votes().tolist() == [4, 3, 1, 0]


def test_average_win_rates_are_evalicas(shared_dir: Path) -> None:
    """On 8,931 real votes every model's average win rate and number of wins are the published ones."""
    names, votes, _ = llmfao(shared_dir)
    np.testing.assert_allclose(average_win_rates(votes.wins()), golden(shared_dir, "average_win_rate", names))
    np.testing.assert_array_equal(votes.wins().sum(axis=1), golden(shared_dir, "counting", names))


def test_only_wins_both_ways_or_ties_connect_models() -> None:
    """A cycle of wins is one group, a tie connects, and a model that only won is a group of its own."""
    circle = battles((0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0), (3, 0, 1.0))
    assert [group.tolist() for group in connected_groups(circle.wins())] == [[0, 1, 2], [3]]
    tied = battles((0, 1, 1.0), (1, 2, 1.0), (2, 0, 1.0), (3, 0, 0.5))
    assert [group.tolist() for group in connected_groups(tied.wins())] == [[0, 1, 2, 3]]


def test_the_larger_group_comes_first_then_the_one_with_more_votes() -> None:
    """Of two unconnected pairs, the one with more votes is first."""
    apart = battles((0, 1, 0.5), (2, 3, 0.5), (2, 3, 1.0))
    assert [group.tolist() for group in connected_groups(apart.wins())] == [[2, 3], [0, 1]]


def test_unrated_models_are_above_below_or_unconnected() -> None:
    """A model that only won is above, also through others; one that only lost to a model above is neither."""
    votes = battles((0, 1, 0.5), (2, 0, 1.0), (3, 2, 1.0), (3, 4, 1.0), (1, 5, 1.0), n_models=6)
    group = connected_groups(votes.wins())[0]
    assert standing_of(votes.wins(), group) == [None, None, "above", "above", "unjoined", "below"]


def test_battles_among_some_models_are_renumbered() -> None:
    """Votes with other models are excluded, and a mask of the remaining votes is returned."""
    votes = battles((0, 1, 1.0), (1, 3, 0.0), (3, 2, 0.5))
    some, kept = votes.among(np.array([1, 3]))
    assert kept.tolist() == [False, True, False]
    assert (some.first.tolist(), some.second.tolist(), some.outcome.tolist(), some.n_models) == ([0], [1], [0.0], 2)


def test_invalid_battles_are_refused() -> None:
    """A model against itself, an outcome of 0.3, no votes, and unequal lengths are errors."""
    with pytest.raises(DataError, match="with itself"):
        battles((1, 1, 0.5))
    with pytest.raises(DataError, match="other values"):
        battles((0, 1, 0.3))
    with pytest.raises(DataError, match="at least one vote"):
        Battles(np.array([], int), np.array([], int), np.array([]), 2)
    with pytest.raises(DataError, match="one of each per vote"):
        Battles(np.array([0]), np.array([1, 2]), np.array([1.0]), 3)
