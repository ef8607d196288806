"""The spread over templates, compared with noise alone; ranks over templates."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.prompt_spread import prompt_spread, rank_agreement


def answers(name: str, accuracies: list[float], n: int = 300, difficulty: float = 0.0) -> np.ndarray:
    """Return seeded 0/1 scores [samples, templates]; `difficulty` correlates a sample's scores over templates."""
    draw = generator_for("prompt spread test", name)
    shared = draw.normal(size=(n, 1)) * difficulty
    return (draw.random((n, len(accuracies))) < np.clip(np.array(accuracies) + shared, 0, 1)).astype(float)


@pytest.mark.slow
def test_without_an_effect_p_keeps_its_level() -> None:
    """Over 200 tables of one accuracy, p is below .05 in about 5%, and the spread is near its null on average."""
    results = [prompt_spread(answers(str(i), [0.6] * 8, 120, 0.2), draws=199, name=(i,)) for i in range(200)]
    below = np.mean([each.p <= 0.05 for each in results])
    assert 0.01 < below < 0.10
    assert np.mean([item.spread - item.null_spread for item in results]) == pytest.approx(0.0, abs=0.006)


def test_an_effect_is_detected_and_its_size_estimated() -> None:
    """Templates between 40% and 70% have a spread far above noise, and their standard deviation is recovered."""
    accuracies = list(np.linspace(0.4, 0.7, 8))
    result = prompt_spread(answers("effect", accuracies, 1000))
    assert result.p < 0.001
    assert result.spread > 3 * result.null_high
    assert result.spread_low < 0.3 < result.spread_high
    assert result.sd_templates == pytest.approx(np.std(accuracies, ddof=1), abs=0.02)


def test_the_interval_of_the_mean_covers() -> None:
    """With new samples and templates, the 95% interval of the mean covers the truth about 95% of the time."""
    draw = generator_for("prompt spread coverage")
    n_held = 0
    for i in range(200):
        templates, items = draw.normal(0, 0.05, 10), draw.normal(0, 0.15, (150, 1))
        table = 0.5 + templates[None, :] + items + draw.normal(0, 0.2, (150, 10))
        result = prompt_spread(table, draws=20, name=("coverage", i))
        n_held += result.low <= 0.5 <= result.high
    assert 0.86 < n_held / 200 <= 1.0  # ten templates: the normal quantile is a little short


def test_pairing_makes_the_null_smaller_than_independent_samples_would() -> None:
    """If the same samples are hard under every template, the spread by noise is smaller than without."""
    hard = np.repeat(answers("hard", [0.6], 500), 10, axis=1)
    flipped = generator_for("flips").random(hard.shape) < 0.05
    result = prompt_spread(np.abs(hard - flipped))
    independent = prompt_spread(answers("independent", [0.6] * 10, 500))
    assert independent.null_spread == pytest.approx(0.067, abs=0.008)  # as simulated for 500 samples and 10 templates
    assert result.null_spread < independent.null_spread / 1.8


def test_kendalls_w_of_agreement_and_of_opposites() -> None:
    """The same order everywhere gives W = 1; two opposite orders give 0; the extremes of ranks are returned."""
    same = rank_agreement(np.array([[0.9, 0.8], [0.5, 0.4], [0.1, 0.2]]))
    assert same.kendall_w == pytest.approx(1.0)
    assert (same.best, same.worst, same.n_orders) == ((1, 2, 3), (1, 2, 3), 1)
    opposite = rank_agreement(np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]))
    assert opposite.kendall_w == pytest.approx(0.0)
    assert opposite.best == (1, 2, 1)
    assert opposite.n_orders == 2


def test_insufficient_tables_are_refused() -> None:
    """A table with one template or a missing value is an error."""
    with pytest.raises(DataError):
        prompt_spread(np.ones((5, 1)))
    with pytest.raises(DataError):
        prompt_spread(np.array([[1.0, np.nan], [0.0, 1.0]]))
    with pytest.raises(DataError):
        rank_agreement(np.ones((1, 3)))
