"""F1 and Matthews' correlation with intervals."""

import tracemalloc

import numpy as np
import pytest

from assaymark.errors import DataError, UnknownName
from assaymark.statistics.aggregate import aggregate, estimate_label_metric
from assaymark.statistics.intervals import bca


def pairs_of(rng: np.random.Generator, n: int, right: float, classes: int = 2) -> list[tuple[int, int]]:
    """Return random gold labels and predictions, of which the share `right` is correct."""
    gold = rng.integers(0, classes, n)
    other = (gold + rng.integers(1, max(classes, 2), n)) % classes
    return list(zip(gold.tolist(), np.where(rng.random(n) < right, gold, other).tolist(), strict=True))


@pytest.mark.parametrize("name", ["f1", "mcc"])
@pytest.mark.slow
def test_it_agrees_with_resampling_the_pairs_themselves(name: str) -> None:
    """Value and BCa ends equal those of the plain bootstrap over pairs, up to the noise of draws."""
    pairs = pairs_of(np.random.default_rng(0), 80, 0.7)
    ours = estimate_label_metric(name, pairs)
    assert ours.value == pytest.approx(aggregate(name, pairs))
    table = np.array(pairs, dtype=float)

    def statistic(
        samples: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array([aggregate(name, [tuple(pair) for pair in sample]) for sample in samples.tolist()])

    plain = bca(table, statistic, draws=3000)
    assert (ours.low, ours.high) == pytest.approx((plain.low, plain.high), abs=0.02)


def test_the_intervals_cover() -> None:
    """In 300 simulated runs of 120 samples the 95% interval covers the true values about 95% of the time."""
    rng = np.random.default_rng(0)
    covered = {"f1": 0, "mcc": 0}
    for _ in range(300):
        pairs = pairs_of(rng, 120, 0.75)
        for name, truth in (("f1", 0.75), ("mcc", 0.5)):
            estimate = estimate_label_metric(name, pairs, draws=1000)
            assert estimate.low is not None
            assert estimate.high is not None
            covered[name] += estimate.low <= truth <= estimate.high
    assert min(covered.values()) >= 0.91 * 300


def test_several_classes_and_absent_ones() -> None:
    """Correlation accepts any number of classes; f1 works without samples of class 1 and refuses three classes."""
    pairs = pairs_of(np.random.default_rng(0), 90, 0.6, 4)
    assert estimate_label_metric("mcc", pairs).value == pytest.approx(aggregate("mcc", pairs))
    assert estimate_label_metric("f1", [(0, 0), (0, 0)]).value == 0.0
    with pytest.raises(DataError, match="two classes"):
        estimate_label_metric("f1", [(0, 1), (2, 1)])
    with pytest.raises(DataError, match="no pairs"):
        estimate_label_metric("mcc", [])
    with pytest.raises(UnknownName, match="mcc"):
        estimate_label_metric("bleu", [(0, 0)])


def test_free_texts_as_labels_fit_into_memory() -> None:
    """Their whole table would have 363,609 cells, and 10,000 resamples of it 29 GB; numbers and texts are compared."""
    pairs: list[tuple[int | str, int | str]] = [(i % 3, i % 3 if i % 2 else f"text {i}") for i in range(1200)]
    estimate = estimate_label_metric("mcc", pairs, draws=200)
    assert estimate.value == pytest.approx(aggregate("mcc", pairs))
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def test_a_perfect_table_has_no_interval_rather_than_a_point() -> None:
    """If all resamples are equal, the interval is undefined, not a point."""
    estimate = estimate_label_metric("mcc", [(0, 0), (1, 1)] * 10)
    assert estimate.value == 1.0
    assert (estimate.low, estimate.high, estimate.stderr) == (None, None, None)


def test_a_hundred_thousand_samples_need_the_memory_of_a_hundred() -> None:
    """Cells are drawn and not pairs, of which all draws together would be a hundred million."""
    pairs = pairs_of(np.random.default_rng(0), 100_000, 0.8)
    tracemalloc.start()
    estimate = estimate_label_metric("f1", pairs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * 2**20
    assert estimate.low is not None
    assert estimate.low < estimate.value < (estimate.high or 0)
