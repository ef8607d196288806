"""Composites other than weighted averages: win rates, geometric means, maxima, any function of task means.

Their errors come from resampling samples within tasks. Every model gets the same resample, so that two models'
numbers stay paired and the error of their difference is correct.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.estimate import IntervalEstimate

Combine = Callable[[Floats], Floats]  # task means [draws, tasks, models] -> composite [draws, models]

_CELLS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class CompositeEstimate:
    """A composite of several models with its joint resamples."""

    models: tuple[IntervalEstimate, ...]
    replicates: Floats  # [draws, models]: the same resample for all models in a row

    def difference(self, a: int, b: int, confidence: float = 0.95) -> IntervalEstimate:
        """Return model b minus model a, from the joint resamples."""
        value = self.models[b].value - self.models[a].value
        return _summarise(value, self.replicates[:, b] - self.replicates[:, a], self.models[a].n, confidence)


def resample_composite(
    scores: Sequence[NDArray[Any]],
    combine: Combine,
    *,
    confidence: float = 0.95,
    draws: int = 2000,
    resample_tasks: bool = False,
) -> CompositeEstimate:
    """Estimate any function of task means for several models at once, by bootstrap.

    Args:
        scores: one array [samples, models] per task; the same models in the same order, no score missing.
        combine: task means [draws, tasks, models] to composites [draws, models].
        confidence: of the percentile interval.
        draws: resamples.
        resample_tasks: also draw tasks with replacement, for claims about tasks in general; intervals are much wider.

    Raises: DataError for missing scores, or tables of different width.
    Source: Efron and Tibshirani 1993, chapter 8 (stratified resampling).
    """
    tables = _checked(scores)
    observed = np.stack([table.mean(axis=0) for table in tables])  # [tasks, models]
    generator = generator_for("composite", len(tables), observed.shape[1], draws)
    means = np.stack([_resampled_means(table, draws, generator) for table in tables], axis=1)  # [draws, tasks, models]
    if resample_tasks:
        picks = generator.integers(0, len(tables), size=(draws, len(tables)))
        means = np.take_along_axis(means, picks[:, :, None], axis=1)
    replicates = np.asarray(combine(means), dtype=np.float64)
    values = np.asarray(combine(observed[None]), dtype=np.float64)[0]
    n = sum(len(table) for table in tables)
    models = tuple(_summarise(float(v), replicates[:, i], n, confidence) for i, v in enumerate(values))
    return CompositeEstimate(models, replicates)


def mean_win_rate(
    values: Floats | Sequence[Sequence[float]],
    higher_is_better: Sequence[bool] | None = None,
    *,
    tolerance: float = 0.0,
) -> Floats:
    """Return the share of other models that each model beats, averaged over columns; a tie is half a win.

    Args:
        values: [models, columns] or [draws, models, columns]; missing values are refused, since models with different
            columns are not comparable.
        higher_is_better: per column; None: in all columns.
        tolerance: differences up to this are ties; with 0 a difference of 1e-9 is a full win, as in HELM.

    Source: HELM (Liang et al. 2022), section 10.1.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.shape[-2] < 2 or not np.isfinite(table).all():
        raise DataError(
            f"values have shape {table.shape} and {int((~np.isfinite(table)).sum())} missing; "
            "expected [models, columns] with at least 2 models and a number in every cell"
        )
    if higher_is_better is not None:
        if len(higher_is_better) != table.shape[-1]:
            raise DataError(f"{len(higher_is_better)} directions for {table.shape[-1]} columns; expected one each")
        table = table * np.where(list(higher_is_better), 1.0, -1.0)
    lead = table[..., :, None, :] - table[..., None, :, :]  # [..., models, others, columns]
    wins = (lead > tolerance) + 0.5 * (np.abs(lead) <= tolerance)
    others = table.shape[-2] - 1
    return np.asarray((wins.sum(axis=-2) - 0.5).mean(axis=-1) / others)  # a model ties with itself: not counted


def estimate_win_rate(
    scores: Sequence[NDArray[Any]],
    higher_is_better: Sequence[bool] | None = None,
    *,
    tolerance: float = 0.0,
    confidence: float = 0.95,
    draws: int = 2000,
    resample_tasks: bool = False,
) -> CompositeEstimate:
    """Estimate mean win rates with their errors; scores are [samples, models] per task.

    The rate depends on the pool of models. The value is that of the observed means; if models are nearly tied, the
    resamples are closer to one half, and so is the interval.
    """

    def combine(means: Floats) -> Floats:
        directions = None if resample_tasks else higher_is_better
        return mean_win_rate(np.swapaxes(means, 1, 2), directions, tolerance=tolerance)

    tables = _checked(scores)
    if higher_is_better is not None and resample_tasks:  # resampling reorders tasks: apply the directions first
        signs = [1.0 if up else -1.0 for up in higher_is_better]
        tables = [table * sign for table, sign in zip(tables, signs, strict=True)]
    return resample_composite(tables, combine, confidence=confidence, draws=draws, resample_tasks=resample_tasks)


def _checked(scores: Sequence[NDArray[Any]]) -> list[Floats]:
    tables = [np.asarray(table, dtype=np.float64) for table in scores]
    shapes = [table.shape for table in tables]
    if not tables or any(len(shape) != 2 or shape[0] == 0 or shape[1] != shapes[0][1] for shape in shapes):
        raise DataError(f"tables have shapes {shapes}; expected [samples, models] per task, the same models in each")
    n_missing = sum(int((~np.isfinite(table)).sum()) for table in tables)
    if n_missing:
        raise DataError(f"{n_missing} scores are missing; a composite needs all of them: score them first")
    return tables


def _resampled_means(table: Floats, draws: int, generator: np.random.Generator) -> Floats:
    """Return means of resampled rows, the same rows for all models. Shapes: result [draws, models]."""
    n = len(table)
    rows = max(1, min(draws, _CELLS_AT_ONCE // n))
    parts = []
    for start in range(0, draws, rows):
        size = min(rows, draws - start)
        index = generator.integers(0, n, size=(size, n)) + np.arange(size)[:, None] * n
        counts = np.bincount(index.ravel(), minlength=size * n).reshape(size, n)
        parts.append(counts @ table / n)
    return np.concatenate(parts)


def _summarise(value: float, replicates: Floats, n: int, confidence: float) -> IntervalEstimate:
    tail = (1.0 - confidence) / 2.0
    low, high = (float(end) for end in np.quantile(replicates, [tail, 1.0 - tail]))
    stderr = float(replicates.std(ddof=1))
    return IntervalEstimate(value, min(low, value), max(high, value), stderr, "bootstrap", n, confidence)
