"""Power and minimum detectable effects against the specification's table, published examples and simulation."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.intervals import wilson
from assaymark.statistics.paired import mcnemar_exact
from assaymark.statistics.power import (
    difference_variance,
    mde,
    mde_of_mean,
    mde_paired_binary,
    mde_unpaired_binary,
    power_mcnemar,
    power_paired,
    samples_for_bound,
    samples_needed,
    samples_paired_binary,
)


def test_the_specifications_table() -> None:
    """Percentage points at 5% and 80% power for three discordances and five benchmark sizes."""
    table = {
        0.1: (8.9, 6.9, 4.0, 2.4, 0.75),
        0.2: (12.5, 9.8, 5.6, 3.5, 1.1),
        0.3: (15.3, 12.0, 6.9, 4.2, 1.3),
    }
    for discordance, row in table.items():
        for n, points in zip((100, 164, 500, 1319, 14042), row, strict=True):
            assert 100 * mde_paired_binary(n, discordance) == pytest.approx(points, abs=0.051)


def test_millers_example() -> None:
    """Miller 2024: omega² 1/9, sigma² 1/6, a difference of 3 points needs 3,876 questions with one draw each."""
    for repeats, expected in ((1, 3876), (10, 1260), (10**9, 969)):
        assert samples_needed(difference_variance(1 / 9, 1 / 6, 1 / 6, repeats, repeats), 0.03) == expected


def test_mde_and_samples_are_inverse() -> None:
    """The minimum detectable effect of n samples needs n samples, and has the requested power."""
    for variance in (0.1, 0.3):
        for n in (50, 1319):
            difference = mde(variance, n)
            assert samples_needed(variance, difference) == n
            assert power_paired(n, difference, variance) == pytest.approx(0.8, abs=1e-3)


def test_unpaired_samples_need_a_larger_difference() -> None:
    """Two runs on different questions at 50% can detect 5.6 points at n = 1,250 each."""
    assert mde_unpaired_binary(1250, 1250, 0.5) == pytest.approx(0.056, abs=1e-4)
    assert mde_of_mean(0.01) == pytest.approx(0.028016, abs=1e-6)


def test_exact_power_equals_simulation() -> None:
    """The sum over outcomes is the share of significant results in 4,000 simulated comparisons by McNemar's test."""
    rng = np.random.default_rng(0)
    n, difference, discordance = 150, 0.12, 0.25
    counts = rng.multinomial(n, [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance], 4000)
    result = np.mean([mcnemar_exact(int(b), int(c)) <= 0.05 for b, c, _ in counts])
    assert power_mcnemar(n, difference, discordance) == pytest.approx(result, abs=0.025)


def test_connors_sample_size_has_the_requested_power() -> None:
    """With Connor's n the mid-p test has 80% power, the exact one a little less; the level is kept at no difference."""
    n = samples_paired_binary(0.05, 0.2)
    assert power_mcnemar(n, 0.05, 0.2, mid_p=True) == pytest.approx(0.8, abs=0.01)
    assert 0.76 < power_mcnemar(n, 0.05, 0.2) < 0.8
    assert power_mcnemar(200, 0.0, 0.2) <= 0.05
    assert power_mcnemar(200, 0.0, 0.2, mid_p=True) <= 0.052


def test_impossible_input_is_refused() -> None:
    """Percent for shares, a difference of 0 or above the discordance, and no samples are errors."""
    with pytest.raises(DataError, match="not percent"):
        mde_paired_binary(100, 20)
    with pytest.raises(DataError, match="smallest difference"):
        samples_needed(0.2, 0.0)
    with pytest.raises(DataError, match="difference"):
        samples_paired_binary(0.3, 0.2)
    with pytest.raises(DataError, match="difference"):
        power_mcnemar(100, 0.3, 0.2)
    with pytest.raises(DataError, match="n >= 1"):
        mde(0.2, 0)
    with pytest.raises(DataError, match="between 0 and 1"):
        mde(0.2, 10, power=80)


def test_samples_for_a_one_sided_bound() -> None:
    """By hand: (1.645 * .3 + .842 * .218)^2 / .05^2 for .95 against .9; without spread the limit counts."""
    assert samples_for_bound(0.05, 0.95 * 0.05, 0.9 * 0.1) == 184
    assert samples_for_bound(0.1, 0.0, 0.9 * 0.1) == 25
    assert samples_for_bound(-0.05, 0.95 * 0.05, 0.9 * 0.1) == 184
    assert samples_for_bound(0.0, 0.2, 0.2) is None
    with pytest.raises(DataError, match=r"confidence is 0\.3"):
        samples_for_bound(0.1, 0.2, 0.2, confidence=0.3)


def test_a_one_sided_bound_has_the_power_it_promises() -> None:
    """With that n, 80% of simulated samples have Wilson's one-sided bound above the limit."""
    n = samples_for_bound(0.05, 0.95 * 0.05, 0.9 * 0.1)
    assert n is not None
    right = np.random.default_rng(0).binomial(n, 0.95, 4000)
    result = np.mean([wilson(float(count), n, 0.9).low >= 0.9 for count in right])
    assert 0.75 < result < 0.87
