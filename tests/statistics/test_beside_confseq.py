"""Capitals and intervals equal those of confseq, the reference code of the papers, in an environment of its own."""

from typing import Any

import numpy as np
import pytest
from benchmarks.sequential_rules import empirical_bernstein, hedged_capital

from assaymark.statistics.sequential import PORTFOLIO, SHARE_AT_RISK, BettingSequence, SequentialMean
from tests.applications.oracles.locked import needs_oracle, oracle

N, N_SEEN, PLANNED, ALPHA = 400, 150, 0.05, 0.05
MEANS = (0.3, 0.5, 0.62, 0.7)
GRID = 2 * np.linspace(0.0, 1.0, 1_001) - 1

pytestmark = needs_oracle("confseq")


@pytest.fixture(scope="module", params=["shares", "zeros and ones"])
def case(request: pytest.FixtureRequest) -> tuple[np.ndarray, Any]:
    """Values in [0, 1], the first 150 of 400, and what confseq makes of them."""
    draw = np.random.default_rng(11)
    values = draw.random(N_SEEN) if request.param == "shares" else (draw.random(N_SEEN) < 0.63).astype(float)
    bets = [2 * bet for bet in PORTFOLIO]  # ours are for values in [-1, 1]
    asked = {"values": values.tolist(), "n": N, "alpha": ALPHA, "means": MEANS, "planned": PLANNED / 2, "bets": bets}
    return values, oracle("confseq", {**asked, "share_at_risk": SHARE_AT_RISK})


@pytest.mark.parametrize("rule", ["planned", "portfolio"])
def test_capitals_are_confseqs(case: tuple[np.ndarray, Any], rule: str) -> None:
    """After each value, against four means, up and down: the largest so far agrees to a billionth."""
    values, theirs = case
    sequence = BettingSequence(N, ALPHA, planned=PLANNED if rule == "planned" else None, means=2 * np.array(MEANS) - 1)
    ours: list[tuple[np.ndarray, np.ndarray]] = []
    for value in values:
        sequence.add(np.array([2 * value - 1]))
        ours.append((sequence.most_up[0].copy(), sequence.most_down[0].copy()))
    for at, _ in enumerate(MEANS):
        for way in (0, 1):
            expected = np.maximum.accumulate(theirs["capitals"][rule][at][way])
            np.testing.assert_allclose([float(np.exp(both[way][at])) for both in ours], expected, rtol=1e-9)


@pytest.mark.parametrize("rule", ["planned", "portfolio"])
def test_intervals_are_confseqs(case: tuple[np.ndarray, Any], rule: str) -> None:
    """The same ends of a grid of 1,001 means after each block; confseq does not use what is certain of the rest."""
    values, theirs = case
    sequence = BettingSequence(N, ALPHA, planned=PLANNED if rule == "planned" else None, means=GRID)
    low, high = theirs["intervals"][rule]
    for end in range(10, N_SEEN + 1, 10):
        sequence.add(2 * values[end - 10 : end] - 1)
        ends = [(float(each[0]) + 1) / 2 for each in sequence.interval()]
        total = values[:end].sum()
        least, most = total / N, (total + N - end) / N
        expected = max(low[end - 1], least), min(high[end - 1], most)
        np.testing.assert_allclose((max(ends[0], least), min(ends[1], most)), expected, atol=1e-9)


def test_the_interval_of_a_mean_uses_what_is_certain(case: tuple[np.ndarray, Any]) -> None:
    """Without a goal it is confseq's by a portfolio, cut to the means that the values which are left can make."""
    values, theirs = case
    sequence = SequentialMean(N, ALPHA)
    low, high = theirs["intervals"]["portfolio"]
    for end in range(10, N_SEEN + 1, 10):
        state = sequence.add(values[end - 10 : end])
        total = values[:end].sum()
        expected = max(low[end - 1], total / N), min(high[end - 1], (total + N - end) / N)
        np.testing.assert_allclose((state.low, state.high), expected, atol=1e-9)


def test_the_rules_that_ours_are_measured_beside_are_confseqs(case: tuple[np.ndarray, Any]) -> None:
    """Predictable mixtures without replacement: empirical Bernstein's interval, and the hedged capital."""
    values, theirs = case
    low, high = empirical_bernstein(values[None, :], N, ALPHA)
    np.testing.assert_allclose(low[0], theirs["intervals"]["empirical Bernstein"][0], atol=1e-12)
    np.testing.assert_allclose(high[0], theirs["intervals"]["empirical Bernstein"][1], atol=1e-12)
    for at, mean in enumerate(MEANS):
        np.testing.assert_allclose(hedged_capital(values[None, :], N, mean, ALPHA)[0], theirs["hedged"][at], rtol=1e-9)
