"""Power and minimum detectable effects against the specification's table, published examples and simulation."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.intervals import wilson
from assaymark.statistics.paired import mcnemar_exact
from assaymark.statistics.power import (
    mde,
    mde_paired_binary,
    samples_for_bound,
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


def test_connors_sample_size_has_the_requested_power() -> None:
    """With Connor's n nearly 80% of 4,000 simulated comparisons are significant by the exact test."""
    n = samples_paired_binary(0.05, 0.2)
    counts = np.random.default_rng(0).multinomial(n, [0.125, 0.075, 0.8], 4000)
    assert 0.76 < np.mean([mcnemar_exact(int(b), int(c)) <= 0.05 for b, c, _ in counts]) < 0.8


def test_impossible_input_is_refused() -> None:
    """Percent for shares, a difference of 0 or above the discordance, and no samples are errors."""
    with pytest.raises(DataError, match="not percent"):
        mde_paired_binary(100, 20)
    with pytest.raises(DataError, match="difference"):
        samples_paired_binary(0.3, 0.2)
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
