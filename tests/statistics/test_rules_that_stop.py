"""Every rule that may stop, over 2,000 random orders: a truth is refuted at some time in at most alpha of them.

The values have the shape that is hardest for the rule: forecasts that are good, bad or constant, weights that differ by
a factor of 20, equal models. Looking as often with an ordinary test fails the same check.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.sequential_rules import peeking

from assaymark.statistics.forecasts import Control, ridge_forecasts
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


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.04, 0.3, 0.7])
@pytest.mark.parametrize("planned", [None, 0.1])
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
@pytest.mark.parametrize("planned", [None, 0.1])
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
    micro = BettingSequence(N, ALPHA, planned=planned, means=values.mean(keepdims=True), n_orders=N_ORDERS, weights=own)
    assert refuted(micro, orders).mean() > 0.5


def forecast_cases() -> dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]]:
    """What other models' scores may be: alike, opposite, noise."""
    return {
        "alike": lambda rng, x: np.where(rng.random((4, N)) < 0.9, x, -x),
        "opposite": lambda rng, x: np.where(rng.random((4, N)) < 0.9, -x, x),
        "noise": lambda rng, x: rng.choice([-1.0, 1.0], size=(20, N)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", forecast_cases())
def test_forecasts_of_any_quality_miss_as_rarely(kind: str) -> None:
    """Ridge regressions on other models that are refitted while values come, weights too: valid in 2,000 orders."""
    rng = np.random.default_rng(3)
    values = np.where(rng.random(N) < 0.6, 1.0, -1.0)
    others = forecast_cases()[kind](rng, values)
    weights = rng.uniform(0.2, 1.0, N)
    macro = ((weights / weights.sum()) * values).sum(keepdims=True)
    n_missed = 0
    for _ in range(N_ORDERS):
        order = (rng.exponential(size=N) / weights).argsort()
        sequence = BettingSequence(
            N, ALPHA, planned=0.1, means=macro, weights=weights[order], control=Control(others[:, order])
        )
        n_missed += bool(refuted(sequence, values[order][None, :])[0])
    assert n_missed / N_ORDERS <= MOST


def test_ridge_forecasts_are_those_of_a_plain_solution() -> None:
    """Of the penalties, the one whose refits without each row err least; then the normal equations' solution."""
    rng = np.random.default_rng(4)
    others, n_seen = rng.random((5, 60)), 30
    values = (others[:, :n_seen].T @ np.array([0.5, -0.2, 0.0, 0.1, 0.3])) + rng.normal(0, 0.1, n_seen)

    def fit(rows: np.ndarray, target: np.ndarray, penalty: float, where: np.ndarray) -> np.ndarray:
        centre, mean = rows.mean(axis=0), target.mean()
        at = rows - centre
        coefficients = np.linalg.solve(at.T @ at + penalty * np.eye(5), at.T @ (target - mean))
        predicted: np.ndarray = mean + (where - centre) @ coefficients
        return predicted

    rows = others.T
    candidates = {}
    for penalty in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0):
        kept = [np.arange(n_seen) != at for at in range(n_seen)]
        errors = [values[at] - fit(rows[:n_seen][keep], values[keep], penalty, rows[at : at + 1])[0]
                  for at, keep in enumerate(kept)]  # fmt: skip
        candidates[penalty] = np.square(errors).mean()
    best = min(candidates, key=lambda penalty: candidates[penalty])
    np.testing.assert_allclose(ridge_forecasts(others, values), fit(rows[:n_seen], values, best, rows), rtol=1e-9)


def test_forecasts_that_help_narrow_the_interval_and_others_hardly_widen_it() -> None:
    """Half-widths after 400 of 2,000 values, beside those without forecasts."""
    rng = np.random.default_rng(5)
    values = np.where(rng.random(2_000) < 0.6, 1.0, -1.0)
    widths = {}
    for kind, others in {
        "none": None,
        "alike": np.where(rng.random((6, 2_000)) < 0.85, values, -values),
        "noise": rng.choice([-1.0, 1.0], size=(20, 2_000)),
    }.items():
        control = None if others is None else Control(others)
        sequence = BettingSequence(2_000, ALPHA, planned=0.08, control=control)
        sequence.add(values[:400])
        low, high = (float(end[0]) for end in sequence.interval())
        assert low <= values.mean() <= high
        assert low <= sequence.mean[0] <= high
        widths[kind] = high - low
    assert widths["alike"] < 0.75 * widths["none"]
    assert widths["noise"] < 1.15 * widths["none"]


def test_a_known_baseline_bounds_what_is_left() -> None:
    """Against scores that are known, a lead is certain sooner: where the baseline is right, one cannot gain on it."""
    baseline = np.array([1.0] * 8 + [0.0] * 2)
    control = Control(np.zeros((1, 10)), known=-baseline, low=0.0, high=1.0)
    sequence = BettingSequence(10, means=np.zeros(1), control=control)
    sequence.add(np.array([-1.0, -1.0, -1.0]))  # three wrong answers where the baseline is right
    least, most = (float(end[0]) for end in sequence.certain)
    assert most == pytest.approx(-0.1)  # five ties and two gains are the most
    assert least == pytest.approx(-0.8)
