"""Errors of averages over tasks, by simulation and compared with lm-eval's."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean, estimate_ratio
from assaymark.statistics.groups import (
    estimate_composite,
    linear_stderr,
)
from assaymark.statistics.intervals import score_interval, wilson, wilson_size
from assaymark.statistics.lm_eval_errors import pooled_stderr


def macro_error(errors: Sequence[float]) -> float:
    """Return the error of the mean of tasks."""
    return linear_stderr(errors, [1 / len(errors)] * len(errors))


def micro_error(errors: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the error of the mean of all samples."""
    return linear_stderr(errors, [n / sum(sizes) for n in sizes])


def macro_of(parts: Sequence[IntervalEstimate]) -> IntervalEstimate:
    """Return the mean of tasks."""
    return estimate_composite(parts, [1 / len(parts)] * len(parts))


@cache
def interval_of(sizes: tuple[int, ...], counts: tuple[int, ...]) -> tuple[float, float]:
    """Return the interval of the mean of tasks of these sizes with so many right answers; many runs have the same."""
    estimate = macro_of([estimate_mean([1.0] * k + [0.0] * (n - k)) for k, n in zip(counts, sizes, strict=True)])
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def micro_of(parts: Sequence[IntervalEstimate]) -> IntervalEstimate:
    """Return the mean of all samples."""
    return estimate_composite(parts, [part.n / sum(each.n for each in parts) for part in parts])


def test_a_worked_example() -> None:
    """Errors 3 and 4 with weights 1/2 give 2.5; stratified by 300 and 100 samples 2.46."""
    assert macro_error([3.0, 4.0]) == 2.5
    assert micro_error([3.0, 4.0], [300, 100]) == pytest.approx(math.hypot(900, 400) / 400)


def test_the_macro_error_is_the_simulated_one() -> None:
    """Over 4,000 simulated runs the macro average has its error, not of the pooled formula."""
    rng = np.random.default_rng(0)
    sizes, shares = (10_000, 100), (0.5, 0.6)
    counts = [rng.binomial(n, p, 4000) / n for n, p in zip(sizes, shares, strict=True)]
    simulated = float(np.mean(counts, axis=0).std())
    errors = [math.sqrt(p * (1 - p) / n) for n, p in zip(sizes, shares, strict=True)]
    assert macro_error(errors) == pytest.approx(simulated, rel=0.04)
    assert pooled_stderr(errors, sizes) < simulated / 4


def test_the_micro_error_is_the_simulated_one_and_lm_evals_is_near_it() -> None:
    """Over simulated runs the mean over all samples has its error."""
    rng = np.random.default_rng(1)
    sizes, shares = np.array([900, 50, 300]), np.array([0.95, 0.5, 0.3])
    runs = np.stack([rng.binomial(n, p, 4000) for n, p in zip(sizes, shares, strict=True)])
    simulated = float((runs.sum(axis=0) / sizes.sum()).std())
    errors = np.sqrt(shares * (1 - shares) / sizes).tolist()
    assert micro_error(errors, sizes.tolist()) == pytest.approx(simulated, rel=0.04)


def test_equal_tasks_make_all_formulas_agree() -> None:
    """With tasks of one size and error, micro, macro and lm-eval's pooled error are the same."""
    assert micro_error([0.1] * 4, [50] * 4) == pytest.approx(macro_error([0.1] * 4))
    assert pooled_stderr([0.1] * 4, [50] * 4) == pytest.approx(macro_error([0.1] * 4))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.6, 0.95, 0.99])
def test_group_intervals_cover_the_truth(share: float) -> None:
    """The micro and macro intervals of 57 small tasks cover the true averages at their confidence."""
    rng = np.random.default_rng(int(share * 100))
    sizes = rng.integers(10, 60, 57)
    shares = np.clip(rng.normal(share, (1 - share) / 3, 57), 0, 1)
    covered = {"micro": 0, "macro": 0}
    for _ in range(100):
        parts = [estimate_mean((rng.random(n) < p).astype(float)) for n, p in zip(sizes, shares, strict=True)]
        micro, macro = micro_of(parts), macro_of(parts)
        for name, estimate, truth in (
            ("micro", micro, float((sizes * shares).sum() / sizes.sum())),
            ("macro", macro, float(shares.mean())),
        ):
            assert estimate.low is not None
            assert estimate.high is not None
            covered[name] += estimate.low <= truth <= estimate.high
    assert covered["micro"] >= 90
    assert covered["macro"] >= 90


def test_a_group_at_100_percent_is_not_a_point() -> None:
    """If all samples are correct the interval has a width, larger for macro with a tiny task."""
    parts = [estimate_mean([1.0] * n) for n in (500, 5)]
    micro, macro = micro_of(parts), macro_of(parts)
    assert (micro.value, micro.high, macro.high) == (1.0, 1.0, 1.0)
    assert micro.low is not None
    assert macro.low is not None
    assert macro.low < micro.low < 1.0


@pytest.mark.parametrize("k", [0, 1, 4, 9, 10])
def test_the_score_interval_is_wilsons_for_one_share(k: int) -> None:
    """Of one part the score interval is Wilson's; equal parts, whose shares may differ, have a slightly wider one."""
    one = (np.array([k / 10]), np.array([10.0]), np.array([1.0]))
    beside_nothing = (np.array([k / 10, 0.5]), np.array([10.0, 10.0]), np.array([1.0, 0.0]))
    for ours in (score_interval(*one), score_interval(*beside_nothing)):
        assert (ours.low, ours.high) == pytest.approx((wilson(k, 10).low, wilson(k, 10).high), abs=1e-9)
    three = score_interval(np.full(3, k / 10), np.full(3, 10.0), np.full(3, 1 / 3))
    pooled = wilson(3 * k, 30)
    assert pooled.low - 0.02 < three.low <= pooled.low + 1e-9 <= pooled.high <= three.high + 2e-9 < pooled.high + 0.02
    assert wilson_size(k / 10, wilson(k, 10).high - wilson(k, 10).low) == pytest.approx(10)


def test_parts_of_two_answers_are_not_taken_for_one() -> None:
    """Sizes that follow from an interval's width are rounded: at 90% the interval lies within that at 95%."""
    parts = [[0.0, 0.0]] * 28 + [[1.0, 1.0]] * 28
    narrow, wide = (
        estimate_composite([estimate_mean(each, confidence=level) for each in parts], [1 / 56] * 56, confidence=level)
        for level in (0.9, 0.95)
    )
    assert wide.low is not None
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.high is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_score_interval_has_the_likeliest_shares_at_its_ends() -> None:
    """A search over all pairs of shares finds the same ends: the mean is z errors from the observed one."""
    values, sizes, weights = np.array([0.5, 0.0]), np.array([100.0, 4.0]), np.array([0.5, 0.5])
    ours = score_interval(values, sizes, weights)
    for end in (ours.low, ours.high):
        first = np.linspace(max(0, 2 * end - 1), min(1, 2 * end), 200_001)[1:-1]
        second = 2 * end - first
        likeliest = int(np.argmax(50 * np.log(first) + 50 * np.log1p(-first) + 4 * np.log1p(-second)))
        p = np.array([first[likeliest], second[likeliest]])
        fixed = p * (1 - p) / sizes / sum(p * (1 - p) / sizes)
        errors = p * (1 - p) / (sizes - 1 + fixed)
        seen = 0.25 / 99 * end * (1 - end) / (0.25 * 0.75)
        errors[0] += (1 - fixed[0]) * max(0.0, seen - errors[0])
        assert abs(end - 0.25) == pytest.approx(1.959964 * math.sqrt(0.25 * errors.sum()), rel=1e-3)
    assert (ours.low, ours.high) == pytest.approx((0.2019, 0.5025), abs=1e-4)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("spread", [0.0, 0.29])
def test_many_tasks_of_few_samples_are_covered(n: int, spread: float) -> None:
    """57 tasks of one or two samples, as mmlu with a limit: at least 90 of 100 simulated intervals hold the truth."""
    rng, covered = np.random.default_rng(n), 0
    for _ in range(100):
        shares = np.clip(rng.uniform(0.5 - spread, 0.5 + spread, 57), 0, 1)
        low, high = interval_of((n,) * 57, tuple(sorted(rng.binomial(n, shares).tolist())))
        covered += low <= shares.mean() <= high
    assert covered >= 90


@pytest.mark.parametrize(
    ("sizes", "shares"),
    [
        ((100, 4), (0.5, 0.1)),
        ((100, 4), (0.95, 0.05)),
        ((1000, 4, 4, 4), (0.7, 0.9, 0.9, 0.9)),
        ((4,) * 20, (0.95,) * 20),
    ],
)
def test_a_small_part_that_is_all_right_or_wrong_is_covered(sizes: tuple[int, ...], shares: tuple[float, ...]) -> None:
    """Over 300 simulated runs the interval of the mean covers the truth at least 91 times in 100."""
    rng = np.random.default_rng(0)
    truth, covered = float(np.mean(shares)), 0
    for _ in range(300):
        low, high = interval_of(sizes, tuple(rng.binomial(sizes, shares).tolist()))
        covered += low <= truth <= high
    assert covered >= 0.91 * 300


def test_a_missing_member_refuses() -> None:
    """The error for an incomplete composite names the position of the missing member."""
    with pytest.raises(DataError, match=r"positions \[1\]"):
        estimate_composite([estimate_mean([1, 0]), None], [0.5, 0.5])


def test_a_composite_of_unbounded_numbers_uses_t() -> None:
    """Bits per byte are not shares: their average gets Student's interval, and weights need not sum to one."""
    parts = [estimate_ratio([-9.0, -8.0, -11.0], [3, 3, 4], family="bits") for _ in range(2)]
    estimate = estimate_composite(parts, [1.0, -1.0], bounds=None)
    assert estimate.value == 0.0
    assert estimate.method == "composite t"
    assert estimate.stderr == pytest.approx(linear_stderr([parts[0].stderr or 0.0] * 2, [1.0, -1.0]))


def test_a_task_of_one_sample_counts_as_uncertain() -> None:
    """A single answer has no error of its own; it gets that of a coin with the overall mean, never 0."""
    lone = estimate_mean([1])
    both = macro_of([lone, estimate_mean([1, 0, 1, 0])])
    assert both.stderr is not None
    assert both.stderr > 0.2
    hole = IntervalEstimate(3.0, None, None, None, "none", 1)
    assert estimate_composite([hole, hole], [0.5, 0.5]).low is None
