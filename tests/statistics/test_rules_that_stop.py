"""Every rule that may stop, over 2,000 random orders: a truth is refuted at some time in at most alpha of them.

The values have the shape that is hardest for the rule: forecasts that are good, bad or constant, weights that differ by
a factor of 20, equal models. Looking as often with an ordinary test fails the same check.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks.sequential_rules import peeking

from assaymark.errors import UsageError
from assaymark.statistics import forecasts
from assaymark.statistics.forecasts import Control, ridge_forecasts
from assaymark.statistics.sequential import BettingSequence, SequentialMean

N, N_ORDERS, ALPHA = 250, 2_000, 0.05
N_FORECAST = 60  # of sequences that are made one after another
FIT_AFTER = 10  # values, in these short sequences
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


GOALS: list[tuple[float | None, float | None]] = [(None, None), (0.1, None), (None, 0.1), (None, 0.3)]


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.04, 0.3, 0.7])
@pytest.mark.parametrize(("planned", "half_width"), GOALS)
def test_an_accuracy_is_rarely_missed(mean: float, planned: float | None, half_width: float | None) -> None:
    """Zeros and ones, rare ones too, as the mean of one model; with bets towards a deadline too."""
    values = np.where(np.arange(N) < round(mean * N), 1.0, -1.0)
    orders = np.random.default_rng(1).permuted(np.tile(values, (N_ORDERS, 1)), axis=1)
    sequence = BettingSequence(
        N, ALPHA, planned=planned, half_width=half_width, means=values.mean(keepdims=True), n_orders=N_ORDERS
    )
    assert refuted(sequence, orders).mean() <= MOST


def weighted_orders(values: np.ndarray, weights: np.ndarray, n_orders: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw one after another with a probability proportional to weight among those left (Efraimidis and Spirakis)."""
    draws = np.random.default_rng(2).exponential(size=(n_orders, len(values))) / weights
    order = draws.argsort(axis=1)
    return values[order], weights[order]


@pytest.mark.slow
@pytest.mark.parametrize(("planned", "half_width"), GOALS)
def test_a_macro_average_is_rarely_missed(planned: float | None, half_width: float | None) -> None:
    """Groups of 10, 40 and 200 questions count the same; the mean of all questions is another number and is refuted."""
    sizes = np.array([10, 40, 200])
    group = np.repeat(np.arange(3), sizes)
    values = np.where(np.arange(N) % 10 < np.array([2, 5, 8])[group], 1.0, -1.0)
    weights = (1 / (3 * sizes))[group]
    orders, own = weighted_orders(values, weights, N_ORDERS)
    macro = (weights * values).sum(keepdims=True)
    sequence = BettingSequence(
        N, ALPHA, planned=planned, half_width=half_width, means=macro, n_orders=N_ORDERS, weights=own
    )
    assert refuted(sequence, orders).mean() <= MOST
    micro = BettingSequence(
        N, ALPHA, planned=planned, half_width=half_width, means=values.mean(keepdims=True), n_orders=N_ORDERS,
        weights=own,
    )  # fmt: skip
    assert refuted(micro, orders).mean() > 0.5


def forecast_cases() -> dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]]:
    """What other models' scores may be: alike, opposite, noise."""
    return {
        "alike": lambda rng, x: np.where(rng.random((4, len(x))) < 0.9, x, -x),
        "opposite": lambda rng, x: np.where(rng.random((4, len(x))) < 0.9, -x, x),
        "noise": lambda rng, x: rng.choice([-1.0, 1.0], size=(20, len(x))),
    }


@pytest.fixture
def early_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let forecasts be fitted as often as in a long sequence."""
    monkeypatch.setattr(forecasts, "FIRST_FIT", FIT_AFTER)


@pytest.mark.slow
@pytest.mark.usefixtures("early_fits")
@pytest.mark.parametrize("kind", forecast_cases())
def test_forecasts_of_any_quality_miss_as_rarely(kind: str) -> None:
    """Ridge regressions on other models that are refitted while values come, weights too: valid in 2,000 orders."""
    rng, n = np.random.default_rng(3), N_FORECAST
    values = np.where(rng.random(n) < 0.6, 1.0, -1.0)
    others = forecast_cases()[kind](rng, values)
    weights = rng.uniform(0.2, 1.0, n)
    macro = ((weights / weights.sum()) * values).sum(keepdims=True)
    orders = (rng.exponential(size=(N_ORDERS, n)) / weights).argsort(axis=1)
    sequence = BettingSequence(
        n, ALPHA, half_width=0.15, means=macro, n_orders=N_ORDERS, weights=weights[orders],
        control=[Control(others[:, order]) for order in orders],
    )  # fmt: skip
    assert refuted(sequence, values[orders]).mean() <= MOST


@pytest.mark.usefixtures("early_fits")
def test_orders_side_by_side_are_each_as_alone() -> None:
    """Capitals, estimates and what is certain of five orders, with forecasts and weights of their own."""
    rng, n = np.random.default_rng(11), N_FORECAST
    values, weights = np.where(rng.random((5, n)) < 0.6, 1.0, -1.0), rng.uniform(0.2, 1.0, (5, n))
    others = np.where(rng.random((5, 4, n)) < 0.8, values[:, None], -values[:, None])

    def sequence(numbers: list[int]) -> BettingSequence:
        own = BettingSequence(
            n, ALPHA, half_width=0.15, n_orders=len(numbers), control=[Control(others[at]) for at in numbers],
            weights=weights[numbers],
        )  # fmt: skip
        own.add(values[numbers][:, :40])
        return own

    together = sequence([0, 1, 2, 3, 4])
    for at in range(5):
        alone = sequence([at])
        np.testing.assert_allclose(together.most_up[at], alone.most_up[0], rtol=1e-9)
        np.testing.assert_allclose(together.most_down[at], alone.most_down[0], rtol=1e-9)
        assert together.mean[at] == pytest.approx(alone.mean[0])
        assert [end[at] for end in together.certain] == pytest.approx([end[0] for end in alone.certain])


@pytest.mark.parametrize(
    ("n", "n_orders", "arguments", "fault"),
    [
        (10, 2, {"control": Control(np.zeros((1, 10)))}, "1 forecasts for 2 orders"),
        (9, 1, {"control": Control(np.zeros((1, 10)))}, "forecasts of 10 values for an order of 9"),
        (10, 3, {"weights": np.ones((2, 10))}, "weights of 2 orders for 3"),
    ],
)
def test_each_order_needs_its_own_forecasts_and_weights(
    n: int, n_orders: int, arguments: dict[str, Any], fault: str
) -> None:
    """Those of fewer orders, or of lists of another length, are refused."""
    with pytest.raises(UsageError, match=fault):
        BettingSequence(n, n_orders=n_orders, **arguments)


@pytest.mark.slow
def test_bets_towards_a_deadline_need_fewer_values() -> None:
    """The median of 20 orders, beside bets on the half-width at every time."""
    values = np.where(np.arange(2_000) < 1_200, 1.0, -1.0)
    needed: dict[bool, list[int]] = {False: [], True: []}
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(values)
        for has_deadline, of_goal in needed.items():
            planned, half_width = (None, 0.08) if has_deadline else (0.08, None)
            means = np.linspace(-0.1, 0.5, 601)
            sequence = BettingSequence(2_000, ALPHA, planned=planned, half_width=half_width, means=means, prunes=True)
            low, high = -1.0, 1.0
            while high - low > 0.16:
                sequence.add(order[sequence.n_seen : sequence.n_seen + 10])
                low, high = (float(end[0]) for end in sequence.interval())
            of_goal.append(sequence.n_seen)
    assert np.median(needed[True]) < 0.88 * np.median(needed[False])
    assert np.quantile(needed[True], 0.8) < 1.1 * np.median(needed[True])


def test_the_deadline_is_where_the_interval_is_narrow_enough() -> None:
    """What is said after a tenth of it is within a twentieth of what is needed."""
    values = np.where(np.arange(2_000) < 1_200, 1.0, 0.0)
    order = np.random.default_rng(1).permutation(values)
    sequence = SequentialMean(2_000, half_width=0.04)
    state = sequence.add(order[:100])
    expected = sequence.n_at_deadline
    assert expected is not None
    while state.half_width > 0.04:
        state = sequence.add(order[state.n_seen : state.n_seen + 1])
    assert state.n_seen == pytest.approx(expected, rel=0.05)


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
