"""One-sided tests of differences."""

import math

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.paired import mean_above_zero, sign_test_above_zero

SLEEP = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]  # hours gained by laevohyoscyamine


def test_students_own_example() -> None:
    """Student 1908: 10 patients gain 2.33 hours on average, t = 3.68, one-sided p about .0025."""
    result = mean_above_zero(SLEEP)
    assert result.mean == pytest.approx(2.33)
    assert result.statistic == pytest.approx(3.6799, abs=1e-4)
    assert result.p == pytest.approx(0.002538, abs=1e-5)
    assert mean_above_zero([-value for value in SLEEP]).p == pytest.approx(1 - result.p)


def test_the_sign_test_counts() -> None:
    """9 of 10 positive has p = 11/1024, and zeros are excluded."""
    assert sign_test_above_zero(SLEEP).p == pytest.approx(11 / 1024)
    assert sign_test_above_zero([*SLEEP, 0.0, 0.0]).n == 10
    assert sign_test_above_zero([0.0]).p == 1.0


def test_equal_differences_have_a_p_too() -> None:
    """Without spread, p is the probability that all signs are positive; if they are not positive it is 1."""
    assert mean_above_zero([2.0] * 5).p == 2**-5
    assert mean_above_zero([0.0] * 5).p == 1.0
    assert math.isinf(mean_above_zero([2.0] * 5).statistic)
    with pytest.raises(DataError):
        mean_above_zero([1.0])


def test_p_is_uniform_without_an_effect() -> None:
    """Of 2,000 null samples about 5% are below .05, by either test's exact or conservative size."""
    draw = generator_for("location tests")
    samples = draw.normal(size=(2000, 12))
    t = np.mean([mean_above_zero(row).p < 0.05 for row in samples])
    signs = np.mean([sign_test_above_zero(row).p < 0.05 for row in samples])
    assert 0.037 < t < 0.065
    assert signs < 0.065
