"""Intervals of reported results whose samples are not available."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.reported import estimate_reported


@given(
    value=st.floats(0.0, 1.0),
    stderr=st.one_of(st.none(), st.floats(0.0, 5.0)),
    n=st.integers(0, 10_000),
)
def test_a_proportion_stays_within_its_bounds(value: float, stderr: float | None, n: int) -> None:
    """For any reported numbers, the interval of a proportion is in [0, 1] and contains its value, or there is none."""
    result = estimate_reported(value, stderr, n, is_proportion=True)
    if result.low is None or result.high is None:
        assert n == 0
        return
    assert 0.0 <= result.low <= value + 1e-9
    assert value - 1e-9 <= result.high <= 1.0


@pytest.mark.parametrize(("n", "right"), [(20, 13), (100, 1), (1319, 600)])
def test_the_error_of_a_share_gives_nearly_the_interval_of_its_samples(n: int, right: int) -> None:
    """lm-eval's standard error alone gives the ends that the samples give, up to the difference of n and n-1."""
    samples = estimate_mean([1.0] * right + [0.0] * (n - right))
    assert samples.low is not None
    assert samples.high is not None
    p = right / n
    result = estimate_reported(p, math.sqrt(p * (1 - p) / (n - 1)), 0, is_proportion=True)
    assert result.low == pytest.approx(samples.low, abs=0.6 / n)
    assert result.high == pytest.approx(samples.high, abs=0.6 / n)


def test_at_the_ends_the_number_of_samples_counts() -> None:
    """30 of 30 has Wilson's interval of 30 samples, although the reported error is 0."""
    result = estimate_reported(1.0, 0.0, 30, is_proportion=True)
    samples = estimate_mean([1.0] * 30)
    assert result.low == pytest.approx(samples.low)
    assert result.high == 1.0
    assert estimate_reported(1.0, 0.0, 0, is_proportion=True).low is None


def test_graded_scores_have_the_interval_of_their_samples() -> None:
    """A mean of scores between 0 and 1 has Student's interval, as own runs have; one of 0s and 1s keeps Wilson's."""
    scores = [0.2, 0.35, 0.5, 0.6, 0.45, 0.55, 0.3, 0.7, 0.4, 0.65]
    samples = estimate_mean(scores)
    result = estimate_reported(samples.value, samples.stderr, len(scores), is_proportion=True)
    assert samples.method == "t"
    assert result.method == "t, from the file's standard error"
    assert (result.low, result.high) == pytest.approx((samples.low, samples.high))
    known = estimate_reported(samples.value, samples.stderr, len(scores), is_proportion=True, is_binary=True)
    assert known.method == "wilson, from the file's standard error"
    binary = estimate_mean([1.0] * 13 + [0.0] * 7)
    assert estimate_reported(0.65, binary.stderr, 20, is_proportion=True).method.startswith("wilson")


def test_other_numbers_are_not_bounded() -> None:
    """A perplexity has the interval value ± 1.96 stderr."""
    result = estimate_reported(20.0, 0.5, 10, is_proportion=False)
    assert result.low == pytest.approx(19.02, abs=1e-3)
    assert result.high == pytest.approx(20.98, abs=1e-3)
