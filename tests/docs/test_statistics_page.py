"""The figures on the page about statistics are what the functions give."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from assaymark.statistics.board_scores import average, geometric, interval_of, rescaled
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean
from assaymark.statistics.groups import compare_shares, estimate_composite
from assaymark.statistics.intervals import wilson
from assaymark.statistics.paired import mcnemar_exact
from assaymark.statistics.power import mde_paired_binary
from tests.conftest import ROOT
from tests.statistics.test_board_scores import mean_part

PAGE = " ".join((ROOT / "docs" / "statistics.md").read_text(encoding="utf-8").split())


def binomial(n: int, p: float) -> NDArray[np.float64]:
    """Return the probabilities of 0 to n successes."""
    return np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


def test_the_table_of_minimum_detectable_effects() -> None:
    """Each size of the table has the effect that stands under it, at 20% of differing answers."""
    sizes = (100, 164, 500, 1319, 14042)
    result = " | ".join(f"{100 * mde_paired_binary(n, 0.2):.1f}" for n in sizes)
    assert f"| MDE in points | {result} |" in PAGE


def test_the_coverage_of_two_intervals() -> None:
    """With 30 samples and a true share of 0.9, the usual interval covers 81% and Wilson's 97%."""
    n, p = 30, 0.9
    shares = np.arange(n + 1) / n
    half = 1.96 * np.sqrt(shares * (1 - shares) / n)
    usual = binomial(n, p)[(shares - half <= p) & (p <= shares + half)].sum()
    ends = [wilson(k, n) for k in range(n + 1)]
    wilsons = binomial(n, p)[[each.low <= p <= each.high for each in ends]].sum()
    assert f"it covers {usual:.0%} where Wilson's covers {wilsons:.0%}" in PAGE


def coverage(
    large: NDArray[np.float64],
    small: NDArray[np.float64],
    truth: float,
    interval: Callable[[int, int], IntervalEstimate],
) -> float:
    """Return how often intervals of two counts with these probabilities hold the truth.

    Both ends rise with each count, so that those holding it for one large count are neighbours, and for the next one
    begin and end no later: few of the thousands of intervals are computed.
    """
    ends: dict[tuple[int, int], tuple[float, float]] = {}

    def of(a: int, b: int) -> tuple[float, float]:
        if (a, b) not in ends:
            each = interval(a, b)
            ends[a, b] = (0.0, 0.0) if each.low is None or each.high is None else (each.low, each.high)
        return ends[a, b]

    covered, first, last = 0.0, len(small), len(small)
    for a in np.flatnonzero(large > 1e-7).tolist():
        while first and of(a, first - 1)[1] >= truth:
            first -= 1
        while last and of(a, last - 1)[0] > truth:
            last -= 1
        covered += float(large[a] * small[first:last].sum())
    return covered


SIZES = [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (10, 100))]


@pytest.mark.parametrize("size", SIZES)
def test_the_coverage_of_a_mean_over_a_large_and_a_small_task(size: int) -> None:
    """Summed over the outcomes, the interval of the macro average covers as often as the table says."""
    parts = [[estimate_mean([1.0] * k + [0.0] * (n - k)) for k in range(n + 1)] for n in (100, size)]
    row = [
        coverage(
            binomial(100, 0.5),
            binomial(size, share),
            (0.5 + share) / 2,
            lambda large, small: estimate_composite([parts[0][large], parts[1][small]], [0.5, 0.5]),
        )
        for share in (0.02, 0.1, 0.3, 0.9)
    ]
    assert f"| {size} | {' | '.join(f'{each:.1%}' for each in row)} |" in PAGE


@pytest.mark.slow
def test_the_worst_coverage_of_a_task_of_three_samples() -> None:
    """Over true shares of 0.02 to 0.98 of the small task, the mean and the least coverage are the page's."""
    parts = [[estimate_mean([1.0] * k + [0.0] * (n - k)) for k in range(n + 1)] for n in (1000, 3)]
    large = np.array([math.exp(_log_binomial(1000, k)) for k in range(1001)])
    intervals = {
        (a, b): estimate_composite([parts[0][a], parts[1][b]], [0.5, 0.5])
        for a in np.flatnonzero(large > 1e-6).tolist()
        for b in range(4)
    }
    coverage = []
    for share in np.arange(1, 50) / 50:
        small, truth = binomial(3, float(share)), (0.5 + share) / 2
        held = [
            large[a] * small[b]
            for (a, b), each in intervals.items()
            if each.low is not None and each.high is not None and each.low <= truth <= each.high
        ]
        coverage.append(math.fsum(held))
    assert f"{np.mean(coverage):.1%} on average" in PAGE
    assert f"{min(coverage):.1%} at the worst ({(int(np.argmin(coverage)) + 1) / 50:g})" in PAGE


def _log_binomial(n: int, k: int) -> float:
    """Return the logarithm of the probability of k heads in n tosses of a fair coin."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2)


@pytest.mark.parametrize("size", SIZES)
def test_the_coverage_of_composites_of_a_large_and_a_small_task(size: int) -> None:
    """Summed over the outcomes, the intervals of a suite's mean and geometric mean cover as often as the table says."""
    large, small = (
        [mean_part([1.0] * k + [0.0] * (n - k), [(n, task, i) for i in range(n)]) for k in range(n + 1)]
        for task, n in (("large", 100), ("small", size))
    )

    def of_mean(a: int, b: int) -> IntervalEstimate:
        return interval_of(average([rescaled(large[a], 0.25), rescaled(small[b], 0.5)]), "composite")

    def of_geometric(a: int, b: int) -> IntervalEstimate:
        mean = geometric([large[a], small[b]])
        assert mean is not None
        return interval_of(mean, "composite", logarithmic=mean.value > 0)

    row = [
        *(coverage(binomial(100, 0.6), binomial(size, p), (0.35 / 0.75 + (p - 0.5) / 0.5) / 2, of_mean)
          for p in (0.1, 0.3, 0.9)),
        *(coverage(binomial(100, 0.6), binomial(size, p), math.sqrt(0.6 * p), of_geometric) for p in (0.7, 0.9)),
    ]  # fmt: skip
    assert f"| {size} | {' | '.join(f'{each:.1%}' for each in row)} |" in PAGE


def test_the_example_of_a_paired_comparison() -> None:
    """295 samples right in both, 60 in B and 35 in A alone, of 500: both p-values are the page's."""
    unpaired = compare_shares(295 + 35, 500, 295 + 60, 500)
    assert f"gives p = {unpaired.p:.3f}, McNemar's exact test p = {mcnemar_exact(60, 35):.3f}" in PAGE
    assert f"the exact p is {mcnemar_exact(2, 0)}" in PAGE


def test_the_error_of_a_calibrated_model() -> None:
    """300 samples of confidence 0.7 in 10 bins show the error that the page gives."""
    expected = math.sqrt(2 / math.pi) * 10 * math.sqrt(0.7 * 0.3 * 30) / 300  # each bin's error is nearly normal
    assert f"{expected:.3f} for 300 samples, 10 bins and p = 0.7" in PAGE
