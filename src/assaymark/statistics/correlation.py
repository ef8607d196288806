"""Correlation of two measurements of the same models, with an interval over models."""

from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.intervals import check_confidence

FEWEST = 5  # models for an interval
_CELLS_AT_ONCE = 2_000_000  # bounds memory


@dataclass(frozen=True, slots=True)
class Correlation:
    """A coefficient in [-1, 1] with its interval; None where a variable is constant, or models are too few."""

    value: float | None
    low: float | None
    high: float | None
    n: int


def correlations(
    first: Floats, second: Floats, *, confidence: float = 0.95, draws: int = 2000
) -> tuple[Correlation, Correlation]:
    """Return Spearman's and Pearson's correlation; intervals are percentiles of a bootstrap over models, seeded.

    Draws in which a variable is constant are left out. With fewer than five models there is no interval, with fewer
    than three no value.

    Shapes: first, second [models], finite. Raises: DataError for unequal lengths or missing values.
    Source: Efron and Tibshirani 1993, sections 13.3 and 5.
    """
    check_confidence(confidence)
    if first.shape != second.shape or first.ndim != 1 or not np.isfinite(np.append(first, second)).all():
        raise DataError(
            f"values have shapes {first.shape} and {second.shape}; expected one finite value of each per model"
        )
    n = len(first)
    values = [_pearson(ranks_of(first), ranks_of(second)), _pearson(first, second)]
    if n < FEWEST or None in values:
        return Correlation(values[0], None, None, n), Correlation(values[1], None, None, n)
    generator = generator_for("correlation", n, draws)
    at_once = max(1, _CELLS_AT_ONCE // n)
    sizes = [min(at_once, draws - start) for start in range(0, draws, at_once)]
    drawn = np.concatenate(
        [
            _drawn(first, second, generator.multinomial(n, np.full(n, 1.0 / n), size).astype(np.float64))
            for size in sizes
        ]
    )
    tail = (1.0 - confidence) / 2.0
    ends = np.nanquantile(drawn, [tail, 1.0 - tail], axis=0)
    spearman, pearson = (
        Correlation(value, float(ends[0, index]), float(ends[1, index]), n) for index, value in enumerate(values)
    )
    return spearman, pearson


def ranks_of(values: Floats) -> Floats:
    """Return ranks from 1 for the lowest value; equal values have the mean of their ranks. Shapes: [models]."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[place])


def _drawn(first: Floats, second: Floats, counts: Floats) -> Floats:
    """Return both coefficients of samples in which model i occurs counts[., i] times.

    Shapes: counts [draws, models]; result [draws, 2], NaN where a variable is constant.
    """
    spearman = weighted_correlation(ranks_in_draws(first, counts), ranks_in_draws(second, counts), counts)
    pearson = weighted_correlation(np.broadcast_to(first, counts.shape), np.broadcast_to(second, counts.shape), counts)
    return np.column_stack([spearman, pearson])


def ranks_in_draws(values: Floats, counts: Floats) -> Floats:
    """Return `ranks_of` each sample. Shapes: counts, result [draws, models]."""
    _, place, sizes = np.unique(values, return_inverse=True, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    of_value = np.add.reduceat(counts[:, np.argsort(place, kind="stable")], starts, axis=1)
    return np.asarray((np.cumsum(of_value, axis=1) - (of_value - 1.0) / 2.0)[:, place])


def weighted_correlation(first: Floats, second: Floats, counts: Floats) -> Floats:
    """Return Pearson's correlation of each sample. Shapes: all [draws, models]; result [draws], NaN if one is constant.

    `counts` says how often each model occurs in a sample.
    """
    n = counts.sum(axis=1, keepdims=True)
    centred = first - (counts * first).sum(axis=1, keepdims=True) / n
    other = second - (counts * second).sum(axis=1, keepdims=True) / n
    squares = (counts * centred * centred).sum(axis=1) * (counts * other * other).sum(axis=1)
    limit = (1e-12 * counts.shape[1] * np.abs(first).max() * np.abs(second).max()) ** 2
    products = (counts * centred * other).sum(axis=1)
    coefficients = np.divide(products, np.sqrt(squares), out=np.full(len(counts), np.nan), where=squares > limit)
    return np.asarray(coefficients)


def _pearson(first: Floats, second: Floats) -> float | None:
    if len(first) < 3:
        return None
    centred, other = first - first.mean(), second - second.mean()
    spread = float(np.sqrt((centred @ centred) * (other @ other)))
    if spread <= 1e-12 * len(first) * float(np.abs(first).max() * np.abs(second).max()):
        return None
    return float(np.clip((centred @ other) / spread, -1.0, 1.0))
