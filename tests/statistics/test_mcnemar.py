"""Paired shares against published examples, scipy, and numerical inversion."""

import math
from itertools import product

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.distributions import binomial_pmf
from assaymark.statistics.paired import (
    mcnemar_exact,
    score_statistic,
    tango_interval,
)


def test_two_wins_and_no_loss_have_p_one_half() -> None:
    """2-0 gives p = 0.5, 5-0 0.0625, 6-1 0.125; no difference at all gives 1."""
    assert [mcnemar_exact(*pair) for pair in ((2, 0), (5, 0), (6, 1), (0, 0))] == [0.5, 0.0625, 0.125, 1.0]


def test_the_specifications_example() -> None:
    """60 against 35 of 500 gives exact p .0134."""
    assert round(mcnemar_exact(60, 35), 4) == 0.0134


def test_airway_reactivity_as_published() -> None:
    """Bentur et al.'s 21 children, 1 against 7: Fagerland et al. print p .0703 and the interval."""
    assert round(mcnemar_exact(1, 7), 4) == 0.0703
    tango = tango_interval(1, 7, 21)
    assert (round(tango.low, 3), round(tango.high, 3)) == (-0.517, -0.026)


def test_exact_p_equals_scipys_sign_test() -> None:
    """For all small counts and some large ones exact p is scipy's binomial test at one half."""
    st = pytest.importorskip("scipy.stats")
    for b, c in [*product(range(7), repeat=2), (400, 500), (3000, 3100)]:
        if b + c:
            assert mcnemar_exact(b, c) == pytest.approx(st.binomtest(b, b + c, 0.5).pvalue, rel=1e-10)


def _profile_z(b: int, c: int, n: int, difference: float) -> float:
    """Return the score statistic by maximising the constrained likelihood over a grid of the nuisance share."""
    q = np.linspace(max(0.0, -difference), (1 - difference) / 2, 400_001)[1:-1]
    with np.errstate(divide="ignore"):
        loglik = b * np.log(q + difference) + c * np.log(q) + (n - b - c) * np.log1p(-2 * q - difference)
    best = float(q[np.argmax(loglik)])
    return (b - c - n * difference) / math.sqrt(n * (2 * best + difference * (1 - difference)))


@pytest.mark.parametrize(("b", "c", "n"), [(1, 7, 21), (9, 2, 40), (60, 35, 500)])
def test_tangos_statistic_equals_brute_force(b: int, c: int, n: int) -> None:
    """The closed form of the constrained estimate is the maximum found on a grid, and the ends have |z| = 1.96."""
    for difference in (-0.3, -0.05, 0.02, 0.2):
        assert score_statistic(b, c, n, difference) == pytest.approx(_profile_z(b, c, n, difference), rel=1e-4)
    interval = tango_interval(b, c, n)
    assert _profile_z(b, c, n, interval.low) == pytest.approx(1.96, abs=1e-3)
    assert _profile_z(b, c, n, interval.high) == pytest.approx(-1.96, abs=1e-3)


def test_no_observed_difference_has_an_interval() -> None:
    """B = c = 0, all b or all c give an interval of positive width, mirrored when models are swapped."""
    for b, c in ((0, 0), (30, 0), (0, 30), (4, 0)):
        first, other = tango_interval(b, c, 30), tango_interval(c, b, 30)
        assert -1.0 <= first.low < first.high <= 1.0
        assert (first.low, first.high) == pytest.approx((-other.high, -other.low), abs=1e-9)
    assert tango_interval(0, 0, 30).high == pytest.approx(0.1135, abs=1e-4)


def test_exact_coverage_of_the_interval() -> None:
    """Summed over all outcomes of 25 pairs the mean coverage is near 95%, the worst above 91%."""
    n = 25
    intervals = {(b, c): tango_interval(b, c, n) for b in range(n + 1) for c in range(n + 1 - b)}
    coverage = []
    for p_b, p_c in ((0.1, 0.1), (0.2, 0.05), (0.3, 0.3), (0.02, 0.1), (0.5, 0.1)):
        total = 0.0
        for (b, c), interval in intervals.items():
            if interval.low <= p_b - p_c <= interval.high:
                total += binomial_pmf(b, n, p_b) * binomial_pmf(c, n - b, p_c / (1 - p_b))
        coverage.append(total)
    assert min(coverage) > 0.91
    assert 0.935 < np.mean(coverage) < 0.98


def test_impossible_counts_are_refused() -> None:
    """More discordant pairs than pairs is an error."""
    with pytest.raises(DataError, match="b \\+ c <= n"):
        tango_interval(3, 3, 5)
