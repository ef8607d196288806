"""Win rates against a baseline: by Bradley-Terry and at equal length, against independent computations."""

import numpy as np
import pytest
from scipy.optimize import minimize

from assaymark.errors import DataError
from assaymark.statistics.baseline_rates import bradley_terry_rate, equal_length_rate, why_no_equal_length
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import fit_bradley_terry

Lengths = list[tuple[float, float]]


def drawn(n: int, seed: int, quality: float = 0.4, slope: float = 1.2) -> tuple[list[float], Lengths]:
    """Return outcomes that depend on quality and on length, and the lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(6.0, 0.5, size=(n, 2))
    gaps = lengths[:, 0] - lengths[:, 1]
    chance = 1.0 / (1.0 + np.exp(-(quality + slope * np.tanh(gaps / gaps.std()))))
    pairs: Lengths = [(float(own), float(other)) for own, other in lengths]
    return list((rng.random(n) < chance).astype(float)), pairs


def test_against_one_baseline_bradley_terry_is_the_weighted_share_of_wins() -> None:
    """Three models that meet a baseline only, strong verdicts three times: σ(θ - θ_baseline) of the whole fit."""
    rng = np.random.default_rng(3)
    first = np.repeat([1, 2, 3], 200)
    weights = rng.choice([1.0, 3.0], 600)
    chances = np.array([0.0, 0.2, 0.5, 0.9])[first]
    outcome = np.where(rng.random(600) < 0.1, 0.5, (rng.random(600) < chances).astype(float))
    battles = Battles(first, np.zeros(600, dtype=np.int64), outcome, 4)
    fitted = fit_bradley_terry(battles, weights=weights)
    for model in (1, 2, 3):
        own = first == model
        result = bradley_terry_rate(list(outcome[own]), list(weights[own]), list(range(200)))
        expected = 1.0 / (1.0 + np.exp(fitted.strengths[0] - fitted.strengths[model]))
        assert result.value == pytest.approx(expected, abs=1e-9)


def test_the_bootstrap_agrees_with_the_error_of_a_ratio() -> None:
    """Questions of two battles each: the interval is about ±1.96 errors of Σ w y / Σ w clustered by question."""
    rng = np.random.default_rng(1)
    questions = np.repeat(np.arange(300), 2)
    quality = rng.normal(0, 2, 300)[questions]
    outcomes = (rng.random(600) < 1 / (1 + np.exp(-quality))).astype(float)
    weights = rng.choice([1.0, 3.0], 600)
    result = bradley_terry_rate(list(outcomes), list(weights), list(questions))
    rest = np.bincount(questions, weights * (outcomes - result.value))
    error = np.sqrt(300 / 299 * (rest**2).sum()) / weights.sum()
    assert result.low is not None
    assert result.high is not None
    assert result.stderr == pytest.approx(error, rel=0.08)
    assert result.high - result.low == pytest.approx(2 * 1.96 * error, rel=0.08)
    assert (result.n, result.n_clusters) == (600, 300)


def test_one_question_and_equal_outcomes_have_no_interval() -> None:
    """A score of 100% whose draws never differ is not printed as certain."""
    for questions in ([0, 0, 0], [0, 1, 2]):
        result = bradley_terry_rate([1.0, 1.0, 1.0], [1.0, 3.0, 1.0], questions)
        assert (result.value, result.low, result.high) == (1.0, None, None)
    with pytest.raises(DataError, match="weights above 0"):
        bradley_terry_rate([1.0, 0.0], [1.0, 0.0], [0, 1])


def test_the_rate_at_equal_length_is_scipys() -> None:
    """The maximum of the weighted likelihood by another optimiser, with shares as outcomes: equal to 1e-6."""
    outcomes, lengths = drawn(400, 5)
    shares = [0.9 * y + 0.05 for y in outcomes]
    weights = np.random.default_rng(0).choice([1.0, 3.0], 400)
    gaps = np.array([own - other for own, other in lengths])
    x = np.tanh(gaps / gaps.std())

    def loss(values: np.ndarray) -> float:
        score = values[0] + values[1] * x
        return float((weights * (np.logaddexp(0.0, score) - np.array(shares) * score)).sum())

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-8})
    result = equal_length_rate(shares, lengths, list(range(400)), list(weights))
    assert result is not None
    assert result.value == pytest.approx(1.0 / (1.0 + np.exp(-best.x[0])), abs=1e-6)
    assert result.n == 400


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 200])
def test_intervals_at_equal_length_hold_the_true_rate(n: int) -> None:
    """About 95% of 400 simulated judgings, in which length counts, have σ(0.4) in their interval."""
    truth = 1.0 / (1.0 + np.exp(-0.4))
    held = total = 0
    for seed in range(400):
        result = equal_length_rate(*drawn(n, seed), list(range(n)))
        if result is not None and result.low is not None and result.high is not None:
            total += 1
            held += result.low <= truth <= result.high
    assert total > 390
    assert 0.93 <= held / total <= 0.98


def test_a_longer_answer_that_wins_by_length_alone_is_even_at_equal_length() -> None:
    """Quality 0 and answers longer by a third: the win rate is above one half, the rate at equal length holds it."""
    rng = np.random.default_rng(2)
    lengths: Lengths = [(float(own), float(other)) for own, other in rng.normal((1200, 1000), 250, size=(2000, 2))]
    gaps = np.array([own - other for own, other in lengths])
    wins = rng.random(2000) < 1 / (1 + np.exp(-1.5 * np.tanh(gaps / gaps.std())))
    result = equal_length_rate(list(wins.astype(float)), lengths, list(range(2000)))
    assert wins.mean() > 0.6
    assert result is not None
    assert result.low is not None
    assert result.high is not None
    assert result.low < 0.5 < result.high


@pytest.mark.parametrize(
    ("lengths", "outcomes", "why"),
    [
        ([(100.0 + n, 300.0) for n in range(20)], [0.0, 1.0] * 10, "only 0% of the answers are longer"),
        ([(300.0 + n, 100.0) for n in range(20)], [0.0, 1.0] * 10, "only 0% of the answers are shorter"),
        ([(10.0, 5.0)] * 20, [0.0, 1.0] * 10, "the same number everywhere"),
        ([(float(n), 10.0) for n in range(20)], [1.0] * 20, "all verdicts are equal"),
        ([(float(n), 9.5) for n in range(20)], [0.0] * 10 + [1.0] * 10, "the longer answer always wins"),
        ([(float(n), 4.5) for n in range(9)], [0.0, 1.0, 0.0] * 3, "9 questions; at least 10"),
    ],
)
def test_what_cannot_be_said_is_undefined(lengths: Lengths, outcomes: list[float], why: str) -> None:
    """No value, and the reason."""
    questions = list(range(len(outcomes)))
    assert equal_length_rate(outcomes, lengths, questions) is None
    assert why in str(why_no_equal_length(outcomes, lengths, questions))
