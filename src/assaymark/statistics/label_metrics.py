"""F1 and Matthews' correlation with intervals, computed from the confusion table of (gold, predicted) pairs.

A resample of the pairs is a multinomial draw of the table's cells, and omitting one pair changes one cell, so the cost
of the bootstrap does not depend on the number of samples.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from assaymark.errors import DataError, UnknownName
from assaymark.randomness import generator_for
from assaymark.statistics import aggregate
from assaymark.statistics.arrays import Floats
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.intervals import bca_ends


def estimate_label_metric(
    name: str, pairs: Sequence[tuple[Any, Any]], *, confidence: float = 0.95, draws: int = 10_000
) -> IntervalEstimate:
    """Estimate f1 (of class 1) or mcc over (gold, predicted) pairs, with a BCa bootstrap interval.

    If all resamples give the same number (for example if all samples are correct), the table has no information on the
    uncertainty, and the interval is None.

    Raises: UnknownName; DataError for no pairs, or three classes in f1.
    Source: Efron 1987; f1 and mcc as in `aggregate`.
    """
    if not aggregate.traits_of(name).is_of_labels:
        known = [known for known, one in aggregate.AGGREGATIONS.items() if one.is_of_labels]
        raise UnknownName("label metric", name, known)
    if not pairs:
        raise DataError(f"{name} of no pairs; expected at least one (gold, predicted) pair")
    if name == "f1":
        aggregate.check_two_classes(pairs)
    labels = sorted({label for pair in pairs for label in pair} | ({0, 1} if name == "f1" else set()))
    index_of = {label: index for index, label in enumerate(labels)}
    k, n = len(labels), len(pairs)
    counts = np.bincount([index_of[g] * k + index_of[p] for g, p in pairs], minlength=k * k).astype(np.float64)
    statistic = partial(_statistic, name, index_of.get(1, 0), k)
    value = float(statistic(counts[None])[0])
    drawn = generator_for("label metric", name, n).multinomial(n, counts / n, size=draws).astype(np.float64)
    replicates = statistic(drawn)
    if n < 2 or replicates.min() == replicates.max():
        return IntervalEstimate(value, None, None, None, "none: all resamples are equal", n, confidence)
    seen = np.flatnonzero(counts)
    jackknifed = np.repeat(statistic(counts[None] - np.eye(k * k)[seen]), counts[seen].astype(np.int64))
    interval = bca_ends(value, replicates, jackknifed, confidence)
    stderr = float(replicates.std(ddof=1))
    return IntervalEstimate(value, interval.low, interval.high, stderr, "bca", n, confidence)


def _statistic(name: str, one: int, k: int, cells: Floats) -> Floats:
    """Return the metric of tables of gold by predicted; `one` is class 1's index. Shapes: cells [tables, k * k]."""
    tables = cells.reshape(-1, k, k)
    if name != "f1":
        return aggregate.mcc_of_tables(tables)
    hits, predicted, gold = tables[:, one, one], tables[:, :, one].sum(axis=1), tables[:, one, :].sum(axis=1)
    return np.asarray(aggregate.f1_of_counts(hits, predicted, gold))
