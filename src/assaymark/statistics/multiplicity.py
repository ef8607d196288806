"""Multiple comparisons: adjusted p-values, and rank sets that reflect which differences are significant."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.paired import compare_paired

ALPHA = 0.05


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Return Holm's adjusted p-values, which control the family-wise error rate under any dependence.

    Source: Holm 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or len(p) == 0 or not ((p >= 0) & (p <= 1)).all():
        raise DataError(f"p-values {p_values!r}; expected at least one number, each between 0 and 1")
    order = np.argsort(p, kind="stable")
    factors = np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


@dataclass(frozen=True, slots=True)
class RankSet:
    """The possible ranks of a model, given which differences are significant; 1 is best."""

    index: int  # of the model, in the table that was ranked
    value: float  # mean score, or rating
    best: int
    worst: int
    beats: tuple[int, ...]  # models it is significantly better than


def rank_sets(scores: NDArray[np.number | np.bool_]) -> list[RankSet]:
    """Return each model's rank set, the largest mean first.

    A outranks B only if the paired test is significant after Holm's correction over all pairs. `best` is 1 + the number
    of models that beat it, `worst` is the number of models minus those that it beats.

    Shapes: scores [samples, models]. Raises: DataError unless there are at least two models.
    Source: after Mogstad, Romano, Shaikh and Wilhelm 2024 (rank confidence sets from pairwise tests).
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2:
        raise DataError(f"scores have shape {table.shape}; expected [samples, models] with at least 2 models")
    n_models = table.shape[1]
    pairs = list(combinations(range(n_models), 2))
    results = [compare_paired(table[:, i], table[:, j]) for i, j in pairs]
    adjusted = holm([result.p for result in results])
    wins = np.zeros((n_models, n_models), dtype=bool)
    for (i, j), result, p in zip(pairs, results, adjusted, strict=True):
        if p < ALPHA:
            winner, loser = (j, i) if result.difference > 0 else (i, j)
            wins[winner, loser] = True
    return ranks_from_wins(table.mean(axis=0), wins)


def ranks_from_wins(values: Floats, wins: NDArray[np.bool_]) -> list[RankSet]:
    """Return rank sets, the largest value first, from the significant pairwise comparisons.

    Shapes: values [models]; wins [models, models], true where the row's model is better than the column's.
    """
    order = sorted(range(len(values)), key=lambda index: (-values[index], index))
    return [
        RankSet(
            index,
            float(values[index]),
            best=1 + int(wins[:, index].sum()),
            worst=len(values) - int(wins[index].sum()),
            beats=tuple(np.flatnonzero(wins[index]).tolist()),
        )
        for index in order
    ]
