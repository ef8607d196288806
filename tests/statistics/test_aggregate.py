"""Aggregations against lm-eval's own and against scikit-learn."""

import math
from typing import Any

import numpy as np
import pytest

from assaymark.errors import DataError, UnknownName
from assaymark.statistics.aggregate import AGGREGATIONS, aggregate, traits_of


def test_worked_values() -> None:
    """Small hand calculations of every numeric aggregation."""
    assert aggregate("mean", [0, 1, 1, 0]) == 0.5
    assert aggregate("median", [3.0, 1.0, 2.0, 4.0]) == 3.0
    assert aggregate("perplexity", [-1.0, -3.0]) == pytest.approx(math.exp(2))
    assert aggregate("weighted_perplexity", [(-6.0, 2), (-4.0, 3)]) == pytest.approx(math.exp(2))
    assert aggregate("bits_per_byte", [(-6.0, 2), (-4.0, 3)]) == pytest.approx(2 / math.log(2))
    assert aggregate("brier_score", [(0, (1.0, 0.0)), (1, (0.5, 0.5))]) == pytest.approx(0.25)
    assert aggregate("f1", [(1, 1), (1, 0), (0, 1), (0, 0)]) == 0.5
    assert aggregate("nanmean", [1.0, math.nan, 2.0]) == 1.5
    assert aggregate("bypass", [None]) == 999.0


def test_no_samples_are_undefined_not_zero() -> None:
    """An aggregation over no samples is None."""
    assert all(aggregate(name, []) is None for name in AGGREGATIONS)


def test_invalid_input_is_refused() -> None:
    """The error for an unknown name suggests the nearest; three classes in f1 and ragged probabilities are errors."""
    with pytest.raises(UnknownName, match="perplexity"):
        aggregate("perplexty", [1.0])
    with pytest.raises(DataError, match="two classes"):
        aggregate("f1", [(0, 1), (2, 1)])
    with pytest.raises(DataError, match="same number of choices"):
        aggregate("brier_score", [(0, (1.0, 0.0)), (0, (1.0, 0.0, 0.0))])
    with pytest.raises(DataError, match="each correct answer among the choices"):
        aggregate("brier_score", [(0, (1.0, 0.0)), (-100, (0.5, 0.5))])


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("classes", [1, 2, 3, 5])
def test_f1_and_mcc_equal_scikit_learn(classes: int) -> None:
    """For random labels, one class only included, both equal scikit-learn's."""
    sk = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(classes)
    for n in (1, 3, 40):
        gold, predicted = rng.integers(0, classes, (2, n)).tolist()
        pairs = list(zip(gold, predicted, strict=True))
        assert aggregate("matthews_corrcoef", pairs) == pytest.approx(sk.matthews_corrcoef(gold, predicted), abs=1e-15)
        if classes <= 2:
            assert aggregate("f1", pairs) == pytest.approx(sk.f1_score(gold, predicted, zero_division=0), abs=1e-15)


ITEMS: dict[str, list[Any]] = {
    "mean": [0.0, 1.0, 0.3],
    "nanmean": [0.5, math.nan, 0.25],
    "median": [4.0, 1.0, 3.0, 2.0],
    "perplexity": [-1.5, -2.25, -0.5],
    "weighted_perplexity": [(-10.0, 4), (-3.0, 2)],
    "bits_per_byte": [(-10.0, 4), (-3.0, 2)],
    "brier_score": [(0, (0.2, 0.8)), (1, (0.4, 0.6))],
    "f1": [(1, 1), (0, 1), (1, 0), (1, 1)],
    "matthews_corrcoef": [(1, 1), (0, 1), (2, 0), (1, 1)],
    "bypass": [None, None],
    "bleu": [("the cat sat on the mat", "the cat sat on a mat"), ("a dog runs fast today", "a dog runs today")],
    "chrf": [(["the cat", "a cat"], "the cats"), (["a dog", "dog"], "the dog")],
    "chrf++": [("the cat", "the cats"), ("a dog", "the dog")],
    "ter": [("the cat sat", "the cat sits"), ("a dog", "the dog")],
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(ITEMS))
def test_every_aggregation_equals_lm_eval(name: str) -> None:
    """On a worked set of items each aggregation is lm-eval's, to the last digits."""
    pytest.importorskip("lm_eval.api.metrics")
    registry = pytest.importorskip("lm_eval.api.registry")
    theirs = registry.get_aggregation(name)(ITEMS[name])
    assert aggregate(name, ITEMS[name]) == pytest.approx(theirs, rel=1e-14)


@pytest.mark.oracle
def test_every_lm_eval_aggregation_is_known() -> None:
    """No aggregation of lm-eval's registry is missing."""
    pytest.importorskip("lm_eval.api.metrics")
    registry = pytest.importorskip("lm_eval.api.registry")
    assert set(registry.aggregation_registry) <= set(AGGREGATIONS)


def test_nothing_follows_from_a_function_of_a_task_file() -> None:
    """A callable, or a name that nobody knows, is neither a mean nor comparable sample by sample."""
    for unknown in (len, "best_score", None):
        traits = traits_of(unknown)
        assert not any((traits.is_mean, traits.is_per_sample, traits.is_of_labels, traits.is_bootstrapped))
    assert traits_of("mean").is_mean


@pytest.mark.oracle
def test_acc_all_and_its_error_equal_lm_eval() -> None:
    """MultiRC's questions are correct only as a whole; lm-eval's value groups by paragraph, its error does not."""
    metrics = pytest.importorskip("lm_eval.api.metrics")
    from assaymark.statistics.lm_eval_errors import stderr

    rng = np.random.default_rng(0)
    items = [
        (bool(rng.integers(2)), {"idx": {"paragraph": p, "question": q}, "label": int(rng.integers(2))})
        for p in range(6)
        for q in range(4)
        for _ in range(2)
    ]
    assert aggregate("acc_all", items) == pytest.approx(metrics.acc_all(items), rel=1e-14)
    assert stderr("acc_all", items) == pytest.approx(metrics.acc_all_stderr(items), rel=1e-14)
