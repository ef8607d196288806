"""Rank sets: equal to comparing every pair, never losing the true rank more often than promised."""

import numpy as np
import pytest
from numpy.typing import NDArray

from assaymark.leaderboard.interval_ranks import interval_ranks, stretched, tier_starts
from assaymark.statistics.distributions import two_sided_z

Floats = NDArray[np.float64]


def by_pairs(values: Floats, lows: Floats, highs: Floats) -> tuple[Floats, Floats, Floats]:
    """Return ranks and rank sets by comparing each row with each other one."""
    low, high = stretched(values, lows, highs)
    above = low[None, :] > high[:, None]  # [row, other]: the other lies surely above
    n = len(values)
    return 1 + (values[None, :] > values[:, None]).sum(axis=1), 1 + above.sum(axis=1), n - above.sum(axis=0)


@pytest.mark.parametrize("n", [1, 2, 7, 300])
def test_ranks_equal_comparing_every_pair(n: int) -> None:
    """The sorted way gives what comparing all pairs gives, ties included."""
    generator = np.random.default_rng(n)
    values = np.round(generator.uniform(0, 1, n), 2)
    half = generator.uniform(0.001, 0.1, n)
    result = interval_ranks(values, values - half, values + half)
    rank, best, worst = by_pairs(values, values - half, values + half)
    assert (result.rank == rank).all()
    assert (result.best == best).all()
    assert (result.worst == worst).all()
    assert (result.best <= result.rank).all()
    assert (result.rank <= result.worst).all()


def test_a_row_without_interval_may_have_any_rank_and_one_without_value_has_none() -> None:
    """Nothing is claimed where nothing is known."""
    values = np.array([0.9, 0.5, np.nan])
    ends = np.array([np.nan, 0.45, np.nan]), np.array([np.nan, 0.55, np.nan])
    result = interval_ranks(values, *ends)
    assert result.rank.tolist() == [1, 2, 0]
    assert (result.best.tolist(), result.worst.tolist()) == ([1, 1, 0], [2, 2, 0])


def test_groups_rank_apart() -> None:
    """Rows of two prompt sets do not push each other down."""
    values, half = np.array([0.9, 0.5, 0.8]), 0.01
    result = interval_ranks(values, values - half, values + half, groups=np.array([0, 0, 1]))
    assert result.rank.tolist() == [1, 2, 1]
    assert result.worst.tolist() == [1, 2, 1]


def test_all_rank_sets_hold_the_true_ranks_together() -> None:
    """In 2,000 simulated tables of 30 rows at least 95% have every true rank inside its set."""
    generator = np.random.default_rng(3)
    truth = np.sort(generator.uniform(0.3, 0.7, 30))[::-1]
    errors = generator.uniform(0.01, 0.03, 30)
    reach = two_sided_z(0.95) * errors
    true_rank, held = np.arange(1, 31), 0
    for _ in range(2000):
        seen = truth + generator.normal(0, errors)
        result = interval_ranks(seen, seen - reach, seen + reach)
        held += bool(((result.best <= true_rank) & (true_rank <= result.worst)).all())
    assert held / 2000 >= 0.95


def test_a_tier_begins_where_a_row_lies_surely_below_the_first_of_the_one_above() -> None:
    """Two overlapping rows are one tier; the one far below begins the next."""
    values = np.array([0.90, 0.89, 0.50, 0.49])
    assert tier_starts(values, values - 0.02, values + 0.02).tolist() == [False, False, True, False]
