"""Sequential intervals and races: valid at every time, exact at the end, equal to a plain computation."""

import math

import numpy as np
import pytest

from assaymark.errors import UsageError
from assaymark.statistics.sequential import BettingSequence, PairedRace, SequentialMean


def answers(n: int, discordance: float, difference: float) -> np.ndarray:
    """Return differences of n questions with a share of disagreement and a mean."""
    better, worse = round(n * (discordance + difference) / 2), round(n * (discordance - difference) / 2)
    return np.concatenate([np.ones(better), -np.ones(worse), np.zeros(n - better - worse)])


def orders(values: np.ndarray, n_orders: int, seed: int = 0) -> np.ndarray:
    """Return random orders of values. Shape: [orders, n]."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(values) for _ in range(n_orders)])


def false_share(n: int, planned: float | None, mean: float = 0.0) -> float:
    """Return how often a true mean is refuted at some time, over 2,000 orders."""
    shuffled = orders(answers(n, 0.3, mean), 2_000)
    true = shuffled[0].mean()
    bets = BettingSequence(n, planned=planned, means=np.array([true]), n_orders=2_000)
    bets.add(shuffled[:, : n - 1])  # at n everything is known
    return float(((bets.most_up[:, 0] >= bets.log_needed) | (bets.most_down[:, 0] >= bets.log_needed)).mean())


@pytest.mark.parametrize("mean", [0.0, 0.1, -0.2])
@pytest.mark.parametrize("planned", [None, 0.05, 0.2])
def test_a_true_mean_is_rarely_refuted_at_any_time(planned: float | None, mean: float) -> None:
    """Looking after every question, at most alpha of the orders refute it, within three standard errors."""
    assert false_share(300, planned, mean) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2_000)


def test_peeking_with_a_fixed_test_fails_the_same_check() -> None:
    """The check can fail: a z test, corrected for N, decides wrongly in many of the same orders."""
    n = 300
    shuffled = orders(answers(n, 0.3, 0.0), 2_000)
    t = np.arange(1, n)
    sums = np.cumsum(shuffled, axis=1)[:, :-1]
    squares = np.cumsum(shuffled**2, axis=1)[:, :-1]
    error = np.sqrt(np.maximum(squares / t - (sums / t) ** 2, 1e-9) / t * (1 - t / n))
    assert (np.abs(sums / t) > 1.96 * error)[:, 20:].any(axis=1).mean() > 0.3


def test_capitals_equal_a_plain_computation() -> None:
    """One order, one mean, one bet after another, with a loop and no arrays."""
    values, n, mean, planned = orders(answers(60, 0.4, 0.1), 1, seed=3)[0], 60, 0.03, 0.1
    up, down, total, squares, best = 1.0, 1.0, 0.0, 0.0, [0.0, 0.0]
    for t, value in enumerate(values[:40]):
        expected = (n * mean - total) / (n - t)
        bet = planned / ((1 + squares) / (t + 1)) * n / (n - t)
        up *= 1 + min(bet, 0.9 / (1 + expected)) * (value - expected)
        down *= 1 - min(bet, 0.9 / (1 - expected)) * (value - expected)
        squares += (value - (total / t if t else 0.0)) ** 2
        total += value
        best = [max(best[0], up), max(best[1], down)]
    bets = BettingSequence(n, planned=planned, means=np.array([mean]))
    bets.add(values[:40])
    assert math.exp(bets.most_up[0, 0]) == pytest.approx(best[0], rel=1e-9)
    assert math.exp(bets.most_down[0, 0]) == pytest.approx(best[1], rel=1e-9)


def test_the_interval_shrinks_and_ends_at_the_mean() -> None:
    """It never widens, holds the mean, does not depend on how values are cut into blocks, and is the mean at N."""
    values = orders(answers(500, 0.3, 0.12), 1, seed=5)[0]
    whole, cut = BettingSequence(500), BettingSequence(500)
    before = (-1.0, 1.0)
    for start in range(0, 500, 50):
        whole.add(values[start : start + 50])
        for value in values[start : start + 50]:
            cut.add(np.array([value]))
        low, high = (float(end[0]) for end in whole.interval())
        assert before[0] <= low <= values.mean() + 1e-9
        assert values.mean() - 1e-9 <= high <= before[1]
        assert (low, high) == tuple(float(end[0]) for end in cut.interval())
        before = (low, high)
    assert before[0] == before[1] == pytest.approx(values.mean())


def test_a_race_is_decided_in_few_questions_and_in_the_right_direction() -> None:
    """A difference of 10 points in 14,042 questions takes under 2% of them, in the median of 40 orders."""
    shares = []
    for order in orders(answers(14_042, 0.25, -0.10), 40, seed=1):
        race = PairedRace(14_042, margin=0.05)
        state = race.state()
        while not state.is_decided:
            state = race.add(order[state.n_seen : state.n_seen + 50])
        assert state.verdict == "second"
        assert state.high <= 0
        shares.append(state.n_seen / state.n)
    assert np.median(shares) < 0.02


def test_equal_models_are_equivalent_within_a_margin_and_the_same_without_one() -> None:
    """With a margin of 10 points a race of two equal models ends early; without one it ends at the last question."""
    order = orders(answers(2_000, 0.2, 0.0), 1)[0]
    race = PairedRace(2_000, margin=0.1)
    state, guesses = race.state(), []
    while not state.is_decided:
        state = race.add(order[state.n_seen : state.n_seen + 50])
        guesses.append(state.n_seen + (state.n_more or 0))
    assert (state.verdict, state.n_seen < 1_500) == ("equivalent", True)
    halfway = guesses[len(guesses) // 2]
    assert 0.5 < halfway / state.n_seen < 2, "about how many would decide, by the interval's width"
    whole = PairedRace(2_000).add(order)
    assert (whole.verdict, whole.is_decided, whole.difference) == ("undecided", True, 0.0)


def test_what_is_left_cannot_change_a_certain_verdict() -> None:
    """Where the lead is larger than the number of questions left, the verdict is certain."""
    race = PairedRace(10, alpha=1e-9)
    assert race.add(np.ones(5)).verdict == "undecided"
    state = race.add(np.ones(1))
    assert (state.verdict, state.is_certain) == ("first", True)


def test_impossible_arguments_are_refused() -> None:
    """More values than there are questions, a margin beyond 1, no level."""
    with pytest.raises(UsageError, match="3 values of 2"):
        BettingSequence(2).add(np.zeros(3))
    for value in (math.nan, 1.5):
        with pytest.raises(UsageError, match="expected a bounded score"):
            BettingSequence(2).add(np.array([value]))
    with pytest.raises(UsageError, match="the margin is 5"):
        PairedRace(10, margin=5)
    with pytest.raises(UsageError, match="0 < alpha < 1"):
        BettingSequence(10, alpha=0)


def weighted_orders(n_orders: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return values and weights in orders of weighted draws, and the mean of the groups' means.

    Four groups of 10, 20, 60 and 210 questions with accuracies of 90%, 70%, 40% and 20%: the mean of all is 28%.
    Shapes: [orders, n].
    """
    sizes, shares = (10, 20, 60, 210), (0.9, 0.7, 0.4, 0.2)
    values = np.concatenate([np.arange(n) < share * n for n, share in zip(sizes, shares, strict=True)]).astype(float)
    weights = np.concatenate([np.full(n, 1 / (len(sizes) * n)) for n in sizes])
    clocks = np.random.default_rng(3).exponential(size=(n_orders, len(values))) / weights
    order = np.argsort(clocks, axis=1)
    return values[order], weights[order], float(weights @ values)


@pytest.mark.parametrize("planned", [None, 0.05])
def test_the_mean_of_groups_means_is_rarely_refuted_at_any_time(planned: float | None) -> None:
    """Drawn with probabilities in proportion to weights, at most alpha of 2,000 orders refute it at some time."""
    values, weights, mean = weighted_orders(2_000)
    bets = BettingSequence(300, planned=planned, means=np.array([2 * mean - 1]), n_orders=2_000, weights=weights)
    bets.add(2 * values[:, :299] - 1)
    misses = (bets.most_up[:, 0] >= bets.log_needed) | (bets.most_down[:, 0] >= bets.log_needed)
    assert misses.mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2_000)


def test_without_the_weights_the_same_check_fails() -> None:
    """The same draws taken for draws with equal probabilities refute the mean of all in most orders."""
    values, _, _ = weighted_orders(500)
    bets = BettingSequence(300, means=np.array([2 * values[0].mean() - 1]), n_orders=500)
    bets.add(2 * values[:, :150] - 1)
    assert (bets.most_up[:, 0] >= bets.log_needed).mean() > 0.5


def test_a_weighted_interval_ends_at_the_mean_of_groups_means() -> None:
    """Its ends hold the mean in nearly all orders, come closer, and meet in it once everything is seen."""
    values, weights, mean = weighted_orders(40)
    n_missed = 0
    for own, own_weights in zip(values, weights, strict=True):
        sequence = SequentialMean(300, weights=own_weights)
        half = sequence.add(own[:150])
        n_missed += not half.low - 1e-9 <= mean <= half.high + 1e-9
        whole = sequence.add(own[150:])
        assert whole.low == pytest.approx(mean)
        assert whole.high == pytest.approx(mean)
        assert half.half_width < 0.5
    assert n_missed <= 4
