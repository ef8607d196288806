"""Every rule that may stop, over 2,000 random orders: a truth is refuted at some time in at most alpha of them.

The values have the shape that is hardest for the rule: weights that differ by a factor of 20, equal models. Looking as
often with an ordinary test fails the same check.
"""

import math

import numpy as np
import pytest
from benchmarks.sequential_rules import peeking

from assaymark.errors import UsageError
from assaymark.statistics.sequential import BettingSequence

N, N_ORDERS, ALPHA = 250, 2_000, 0.05
MOST = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / N_ORDERS)


def refuted(sequence: BettingSequence, orders: np.ndarray) -> np.ndarray:
    """Return which orders refuted the only mean that is tested, at some time before the last value."""
    sequence.add(orders[:, : orders.shape[1] - 1])
    return (sequence.most_up[:, 0] >= sequence.log_needed) | (sequence.most_down[:, 0] >= sequence.log_needed)


def differences() -> np.ndarray:
    """Random orders of the differences of two equal models that disagree on 30% of the questions."""
    values = np.zeros(N)
    values[:74] = np.tile([1.0, -1.0], 37)
    return np.random.default_rng(0).permuted(np.tile(values, (N_ORDERS, 1)), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("planned", [None, 0.05, 0.2])
def test_equal_models_are_rarely_told_apart(planned: float | None) -> None:
    """The portfolio, and bets planned for a small and a large difference."""
    sequence = BettingSequence(N, ALPHA, planned=planned, means=np.zeros(1), n_orders=N_ORDERS)
    assert refuted(sequence, differences()).mean() <= MOST


@pytest.mark.slow
def test_an_ordinary_test_fails_the_same_check() -> None:
    """In the same orders it decides falsely far more often."""
    assert (peeking(differences(), N) < N).mean() > 5 * MOST


PLANNED = [None, 0.1, 0.3]


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.04, 0.3, 0.7])
@pytest.mark.parametrize("planned", PLANNED)
def test_an_accuracy_is_rarely_missed(mean: float, planned: float | None) -> None:
    """Zeros and ones, rare ones too, as the mean of one model."""
    values = np.where(np.arange(N) < round(mean * N), 1.0, -1.0)
    orders = np.random.default_rng(1).permuted(np.tile(values, (N_ORDERS, 1)), axis=1)
    sequence = BettingSequence(N, ALPHA, planned=planned, means=values.mean(keepdims=True), n_orders=N_ORDERS)
    assert refuted(sequence, orders).mean() <= MOST


def weighted_orders(values: np.ndarray, weights: np.ndarray, n_orders: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw one after another with a probability proportional to weight among those left (Efraimidis and Spirakis)."""
    draws = np.random.default_rng(2).exponential(size=(n_orders, len(values))) / weights
    order = draws.argsort(axis=1)
    return values[order], weights[order]


@pytest.mark.slow
@pytest.mark.parametrize("planned", PLANNED)
def test_a_macro_average_is_rarely_missed(planned: float | None) -> None:
    """Groups of 10, 40 and 200 questions count the same; the mean of all questions is another number and is refuted."""
    sizes = np.array([10, 40, 200])
    group = np.repeat(np.arange(3), sizes)
    values = np.where(np.arange(N) % 10 < np.array([2, 5, 8])[group], 1.0, -1.0)
    weights = (1 / (3 * sizes))[group]
    orders, own = weighted_orders(values, weights, N_ORDERS)
    macro = (weights * values).sum(keepdims=True)
    sequence = BettingSequence(N, ALPHA, planned=planned, means=macro, n_orders=N_ORDERS, weights=own)
    assert refuted(sequence, orders).mean() <= MOST
    plain = values.mean(keepdims=True)
    micro = BettingSequence(N, ALPHA, planned=planned, means=plain, n_orders=N_ORDERS, weights=own)
    assert refuted(micro, orders).mean() > 0.5


def test_orders_side_by_side_are_each_as_alone() -> None:
    """Capitals, estimates and what is certain of five orders, with weights of their own."""
    rng, n = np.random.default_rng(11), 60
    values, weights = np.where(rng.random((5, n)) < 0.6, 1.0, -1.0), rng.uniform(0.2, 1.0, (5, n))

    def sequence(numbers: list[int]) -> BettingSequence:
        own = BettingSequence(n, ALPHA, planned=0.15, n_orders=len(numbers), weights=weights[numbers])
        own.add(values[numbers][:, :40])
        return own

    together = sequence([0, 1, 2, 3, 4])
    for at in range(5):
        alone = sequence([at])
        np.testing.assert_allclose(together.most_up[at], alone.most_up[0], rtol=1e-9)
        np.testing.assert_allclose(together.most_down[at], alone.most_down[0], rtol=1e-9)
        assert together.mean[at] == pytest.approx(alone.mean[0])
        assert [end[at] for end in together.certain] == pytest.approx([end[0] for end in alone.certain])


def test_each_order_needs_its_own_weights() -> None:
    """Those of fewer orders are refused."""
    with pytest.raises(UsageError, match="weights of 2 orders for 3"):
        BettingSequence(10, n_orders=3, weights=np.ones((2, 10)))
