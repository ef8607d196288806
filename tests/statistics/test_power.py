"""Power and minimum detectable effects against the specification's table, published examples and simulation."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, multinomial

from assaymark.errors import DataError
from assaymark.statistics.intervals import wilson
from assaymark.statistics.paired import mcnemar_exact
from assaymark.statistics.power import (
    mde_mcnemar,
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


def power_of(n: int, discordance: float, difference: float) -> float:
    """Return how often scipy's binomial test of the discordant answers has p below 5%, over all tables (b, c)."""
    share = max(discordance, difference)
    cells = [(share + difference) / 2, (share - difference) / 2, 1 - share]
    tables = [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]
    chances = multinomial.pmf([[b, c, n - b - c] for b, c in tables], n, cells)
    found = [b + c > 0 and binomtest(b, b + c).pvalue < 0.05 for b, c in tables]
    return float(chances[found].sum())


@pytest.mark.parametrize(("n", "discordance"), [(6, 0.0), (20, 0.05), (20, 0.3), (40, 0.3)])
def test_mcnemars_effect_has_the_power_it_promises(n: int, discordance: float) -> None:
    """Summed over all tables, the exact test finds it with a power of 80%, and one 2% smaller less often."""
    effect = mde_mcnemar(n, discordance)
    assert effect is not None
    assert power_of(n, discordance, effect) == pytest.approx(0.8, abs=1e-4)
    assert power_of(n, discordance, 0.98 * effect) < 0.8


def test_with_few_differing_answers_the_effect_is_all_of_them() -> None:
    """Of 200 answers at least 6 must differ one way, which is so in 80% of samples at a true share of 3.9%."""
    effect = mde_mcnemar(200, 1 / 200)
    assert effect is not None
    assert binom.sf(5, 200, effect) == pytest.approx(0.8, abs=1e-4)
    assert round(effect, 3) == 0.039
    assert mde_mcnemar(5, 0.2) is None


@pytest.mark.parametrize("n", [20, 50, 200, 1000])
def test_the_power_of_mcnemars_effect_by_simulation(n: int) -> None:
    """With 1% to 30% differing answers 79 to 81% of 20,000 comparisons are significant, as the documentation says."""
    for discordance in (0.01, 0.03, 0.1, 0.2, 0.3):
        effect = mde_mcnemar(n, discordance)
        assert effect is not None
        share = max(discordance, effect)
        cells = [(share + effect) / 2, (share - effect) / 2, 1 - share]
        tables, counts = np.unique(np.random.default_rng(1).multinomial(n, cells, 20_000), axis=0, return_counts=True)
        found = [mcnemar_exact(int(b), int(c)) < 0.05 for b, c, _ in tables]
        assert 0.79 < counts[found].sum() / 20_000 < 0.81


def test_beyond_the_exact_sum_connors_effect_is_near_it() -> None:
    """At 201 expected differing answers the approximation is at most 1% above the exact one at 200."""
    at, beyond = mde_mcnemar(1000, 0.2), mde_mcnemar(1000, 0.201)
    assert at is not None
    assert beyond is not None
    assert 1 < beyond / at < 1.01


def test_impossible_input_is_refused() -> None:
    """Percent for shares, a difference of 0 or above the discordance, and no samples are errors."""
    with pytest.raises(DataError, match="not percent"):
        mde_paired_binary(100, 20)
    with pytest.raises(DataError, match="difference"):
        samples_paired_binary(0.3, 0.2)
    with pytest.raises(DataError, match="n >= 1"):
        mde_paired_binary(0, 0.2)
    with pytest.raises(DataError, match="between 0 and 1"):
        mde_paired_binary(10, 0.2, power=80)


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
