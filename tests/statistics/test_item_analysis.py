"""Item analysis beside numpy and scipy, on simulated models."""

import numpy as np
import pytest

from assaymark.statistics.arrays import Floats
from assaymark.statistics.item_analysis import item_statistics


def answers(draw: np.random.Generator, n_models: int, n_items: int, n_wrong_keys: int) -> Floats:
    """Return right answers of models of different ability; of the first questions the key is wrong."""
    ability, difficulty = draw.normal(0, 1.5, (n_models, 1)), draw.normal(0, 1, (1, n_items))
    right = draw.random((n_models, n_items)) < 1 / (1 + np.exp(difficulty - ability))
    right[:, :n_wrong_keys] = ~right[:, :n_wrong_keys]  # who knows the answer misses the key
    return right.astype(np.float64)


def test_correlation_and_p_are_those_of_numpy_and_scipy() -> None:
    """The item-rest correlation is Pearson's, and p the exact one of Mann and Whitney where no ranks are tied."""
    stats = pytest.importorskip("scipy.stats")
    right = answers(np.random.default_rng(1), 12, 400, 0)
    n_untied = 0
    for item, known in enumerate(item_statistics(right)):
        own, rest = right[:, item], (right.sum(axis=1) - right[:, item]) / 399
        assert known.right == own.mean()
        if 0 < own.sum() < 12:
            assert known.correlation == pytest.approx(np.corrcoef(own, rest)[0, 1])
            exact = stats.mannwhitneyu(rest[own == 0], rest[own == 1], alternative="greater", method="exact").pvalue
            assert known.p is not None
            if len(set(rest)) == 12:
                assert known.p == pytest.approx(exact)
                n_untied += 1
            else:
                assert known.p >= exact - 1e-9
        else:
            assert (known.correlation, known.p, known.is_suspicious) == (None, None, False)
    assert n_untied > 100


def test_wrong_keys_are_found_and_few_others() -> None:
    """Over 60 simulated benchmarks three of four wrong keys are suspicious, and hardly any of 294 sound questions."""
    draw = np.random.default_rng(2)
    hits = false = 0
    for _ in range(60):
        suspicious = [known.is_suspicious for known in item_statistics(answers(draw, 25, 300, 6))]
        hits += sum(suspicious[:6])
        false += sum(suspicious[6:])
    assert hits > 0.75 * 60 * 6
    assert false <= 0.001 * 60 * 294


def test_questions_without_any_relation_are_suspicious_in_a_twentieth() -> None:
    """Coin flips are the worst case that the level bounds."""
    draw = np.random.default_rng(3)
    flags = [
        known.is_suspicious
        for _ in range(20)
        for known in item_statistics(draw.integers(0, 2, (25, 200)).astype(np.float64))
    ]
    assert np.mean(flags) <= 0.05 + 3 * (0.05 * 0.95 / len(flags)) ** 0.5


def test_few_models_are_refused() -> None:
    """With four models no order is rare."""
    with pytest.raises(ValueError, match="4 models; expected 5 or more"):
        item_statistics(np.ones((4, 10)))
