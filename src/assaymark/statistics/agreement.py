"""Agreement of raters beyond chance: Krippendorff's alpha for any number of raters with gaps, Cohen's kappa for two.

Both are 1 for perfect agreement, 0 for agreement by chance, and None if the ratings do not vary at all, since the
coefficients are then undefined. What is agreement by chance depends on how often each rater gives each rating; where
that differs between kinds of units, it is computed for each kind (`stratified_kappa`).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.distributions import two_sided_z

Level = Literal["nominal", "ordinal", "interval", "ratio"]
Weights = Literal["linear", "quadratic"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """A coefficient of agreement with its interval."""

    value: float | None
    low: float | None
    high: float | None
    stderr: float | None
    method: str
    n: int  # units with at least two ratings


def krippendorff_alpha(
    ratings: Sequence[Sequence[float | str | None]],
    level: Level = "nominal",
    *,
    confidence: float = 0.95,
    draws: int = 1000,
) -> Agreement:
    """Return Krippendorff's alpha with a bootstrap interval over units.

    alpha = 1 - observed / expected disagreement, over all pairable ratings.

    Args:
        ratings: [raters][units]; None for a unit without a rating. Names for nominal, numbers otherwise.
        level: of measurement; it defines the distance of two values.
        draws: resamples of units; 0: no interval.

    Raises: DataError if no unit has two ratings.
    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability".
    """
    counts, values = _value_counts(ratings, level)
    pairable = counts[counts.sum(axis=1) >= 2]
    if len(pairable) == 0:
        raise DataError("no unit has two ratings; agreement needs at least one")
    distances = _distances(pairable.sum(axis=0), values, level)
    alpha = _alpha(pairable, distances)
    method = f"{level} alpha, bootstrap over units"
    if alpha is None or draws == 0:
        return Agreement(alpha, None, None, None, method, len(pairable))
    generator = generator_for("krippendorff", level, len(pairable))
    resampled = []
    for _ in range(draws):
        part = pairable[generator.integers(0, len(pairable), len(pairable))]
        again = _alpha(part, _distances(part.sum(axis=0), values, level))
        if again is not None:
            resampled.append(again)
    tail = (1.0 - confidence) / 2.0
    low, high = (float(end) for end in np.quantile(resampled, [tail, 1.0 - tail]))
    return Agreement(alpha, low, high, float(np.std(resampled, ddof=1)), method, len(pairable))


def cohen_kappa(
    first: Sequence[float | str],
    second: Sequence[float | str],
    *,
    weights: Weights | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Return Cohen's kappa of two raters with its large-sample interval; weighted for ordered categories.

    Source: Cohen 1960, 1968; standard error Fleiss, Cohen and Everitt 1969, equation 13 (weighted: 15).
    """
    if len(first) != len(second) or not first:
        raise DataError(f"{len(first)} and {len(second)} ratings; expected equal numbers from both raters, at least 1")
    labels = sorted(set(first) | set(second))
    index_of = {label: index for index, label in enumerate(labels)}
    k, n = len(labels), len(first)
    table = np.zeros((k, k))
    for a, b in zip(first, second, strict=True):
        table[index_of[a], index_of[b]] += 1.0 / n
    agree = _agreement_weights(k, weights)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    observed, chance = float((agree * table).sum()), float(rows @ agree @ columns)
    method = "kappa" if weights is None else f"{weights}ly weighted kappa"
    if chance >= 1.0 - 1e-15:
        return Agreement(None, None, None, None, method, n)
    kappa = (observed - chance) / (1.0 - chance)
    marginal = (agree @ columns)[:, None] + (rows @ agree)[None, :]
    spread = float((table * (agree - marginal * (1.0 - kappa)) ** 2).sum())
    variance = (spread - (kappa - chance * (1.0 - kappa)) ** 2) / (n * (1.0 - chance) ** 2)
    stderr = math.sqrt(max(variance, 0.0))
    half = two_sided_z(confidence) * stderr
    return Agreement(kappa, max(kappa - half, -1.0), min(kappa + half, 1.0), stderr, method, n)


def stratified_kappa(
    first: Sequence[object],
    second: Sequence[object],
    strata: Sequence[Hashable],
    clusters: Sequence[Hashable],
    *,
    confidence: float = 0.95,
) -> tuple[Agreement, float]:
    """Return Cohen's kappa of two raters with chance by stratum, and the share of agreement by chance.

    kappa = (observed - chance) / (1 - chance), where chance is the mean over all units of sum_v p_first(v) p_second(v)
    with the shares of the unit's stratum. With one stratum it is Cohen's kappa. The standard error is the jackknife's
    over clusters of units that depend on each other; None for a single cluster. A stratum of few units fits its own
    shares, which makes chance too high and kappa too low.

    Args:
        first: the ratings of one rater.
        second: the ratings of the other.
        strata: the stratum of each unit.
        clusters: the cluster of each unit.

    Source: Cohen 1960; Barlow, Lai and Azen 1991 (kappa over strata); Efron 1982 (jackknife).
    """
    if not len(first) == len(second) == len(strata) == len(clusters) or not first:
        raise DataError(f"{len(first)} and {len(second)} ratings; expected equal numbers from both raters, at least 1")
    n = len(first)
    ratings = _codes([*first, *second])
    first_codes, other, stratum, cluster = ratings[:n], ratings[n:], _codes(strata), _codes(clusters)
    n_values, n_strata, n_clusters = int(ratings.max()) + 1, int(stratum.max()) + 1, int(cluster.max()) + 1
    cells, cell = np.unique(cluster * n_strata + stratum, return_inverse=True)  # the strata that each cluster has
    shape = (len(cells), n_values)
    ones, others = np.zeros(shape), np.zeros(shape)
    np.add.at(ones, (cell, first_codes), 1.0)
    np.add.at(others, (cell, other), 1.0)
    cell_stratum, cell_cluster = cells % n_strata, cells // n_strata
    all_ones, all_others = np.zeros((n_strata, n_values)), np.zeros((n_strata, n_values))
    np.add.at(all_ones, cell_stratum, ones)
    np.add.at(all_others, cell_stratum, others)
    by_chance = _units_by_chance(all_ones, all_others)  # [strata]
    agreeing = (first_codes == other).astype(np.float64)
    observed, chance = float(agreeing.mean()), float(by_chance.sum()) / n
    method = "kappa" if n_strata == 1 else f"kappa over {n_strata} strata"
    if chance >= 1.0 - 1e-15:
        return Agreement(None, None, None, None, method, n), chance
    kappa = (observed - chance) / (1.0 - chance)
    without = _units_by_chance(all_ones[cell_stratum] - ones, all_others[cell_stratum] - others)
    change = np.bincount(cell_cluster, without - by_chance[cell_stratum], n_clusters)
    left = n - np.bincount(cluster, minlength=n_clusters)
    kept = agreeing.sum() - np.bincount(cluster, agreeing, n_clusters)
    chances = by_chance.sum() + change
    if n_clusters < 2 or bool((left - chances < 1e-9).any()):
        return Agreement(kappa, None, None, None, method, n), chance
    again = (kept - chances) / (left - chances)
    variance = (n_clusters - 1.0) / n_clusters * float(((again - again.mean()) ** 2).sum())
    stderr = math.sqrt(variance)
    half = two_sided_z(confidence) * stderr
    return Agreement(kappa, max(kappa - half, -1.0), min(kappa + half, 1.0), stderr, method, n), chance


def _codes(values: Sequence[Hashable]) -> Ints:
    """Return whole numbers from 0 for values, in the order in which they first occur. Shape: [values]."""
    index_of: dict[Hashable, int] = {}
    return np.array([index_of.setdefault(value, len(index_of)) for value in values], dtype=np.int64)


def _units_by_chance(ones: Floats, others: Floats) -> Floats:
    """Return the number of units on which raters with these counts agree by chance. Shapes: [n, values]; [n]."""
    sizes = ones.sum(axis=1)
    by_chance = (ones * others).sum(axis=1)
    return np.asarray(np.divide(by_chance, sizes, out=np.zeros_like(sizes), where=sizes > 0))


def _agreement_weights(k: int, weights: Weights | None) -> Floats:
    """Return weights [k, k]: 1 on the diagonal, decreasing to 0 at the far corners; unweighted: 0 off the diagonal."""
    if weights is None or k < 2:
        return np.eye(k)
    steps = np.abs(np.subtract.outer(np.arange(k), np.arange(k))) / (k - 1)
    return np.asarray(1.0 - (steps if weights == "linear" else steps**2), dtype=np.float64)


def _value_counts(ratings: Sequence[Sequence[float | str | None]], level: Level) -> tuple[Floats, Floats]:
    """Count each value in each unit. Shapes: counts [units, values]; values [values]."""
    lengths = {len(row) for row in ratings}
    if len(lengths) != 1:
        raise DataError(f"raters have {sorted(lengths)} units; expected the same number, None for an unrated unit")
    distinct = {value for row in ratings for value in row if value is not None}
    labels = sorted(distinct, key=str) if level == "nominal" else sorted(distinct)
    index_of = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((lengths.pop(), len(labels)))
    for row in ratings:
        for unit, value in enumerate(row):
            if value is not None:
                counts[unit, index_of[value]] += 1
    numbers = np.arange(len(labels)) if level == "nominal" else np.array(labels)
    return counts, numbers.astype(np.float64)


def _distances(totals: Floats, values: Floats, level: Level) -> Floats:
    """Return squared distances of values. Shapes: totals [values] of pairable ratings; result [values, values]."""
    difference = np.subtract.outer(values, values)
    match level:
        case "nominal":
            return np.asarray(difference != 0, dtype=np.float64)
        case "interval":
            return np.asarray(difference**2)
        case "ratio":
            total = np.add.outer(values, values)
            share = np.divide(difference, total, out=np.zeros_like(total), where=total != 0)
            return np.asarray(share**2)
        case "ordinal":
            below = np.cumsum(totals) - totals / 2.0  # rank mid-points: distances count the ratings between
            return np.asarray(np.subtract.outer(below, below) ** 2)


def _alpha(counts: Floats, distances: Floats) -> float | None:
    sizes = counts.sum(axis=1)  # [units]
    totals = counts.sum(axis=0)  # [values]
    n = float(sizes.sum())
    pairs = np.einsum("ui,uj,u->ij", counts, counts, 1.0 / (sizes - 1.0))
    pairs -= np.diag((counts / (sizes - 1.0)[:, None]).sum(axis=0))  # a rating is not paired with itself
    expected = float((np.outer(totals, totals) * distances).sum()) / (n - 1.0)
    return 1.0 - float((pairs * distances).sum()) / expected if expected > 0 else None
