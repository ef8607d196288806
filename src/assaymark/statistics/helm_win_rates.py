"""HELM's two aggregates of a board, the mean win rate and the mean score, where models may lack values.

Beside them: means of resampled samples, from which both have their intervals, and how much a win rate depends on who is
listed.
Source: HELM, presentation/summarize.py (`compute_aggregate_row_win_rates`, `compute_aggregate_row_means`);
`board_scores.mean_win_rate` has the plain rate of a whole table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats

DRAWS = 1000
MOST_SETS = 512  # sets of other models that are tried for each pair; all of them where there are fewer


def helm_win_rates(values: Floats, higher_is_better: Sequence[bool]) -> Floats:
    """Return each model's win rate: over its columns, the share of others with a value that it beats; a tie is half.

    Args:
        values: [..., models, columns]; NaN where a model has no value. A column with fewer than two is passed over.
        higher_is_better: by column.

    Returns: [..., models]; NaN for a model without a column that counts.
    """
    if values.shape[-1] != len(higher_is_better):
        raise DataError(f"{len(higher_is_better)} directions for {values.shape[-1]} columns; expected one each")
    table = values * np.where(list(higher_is_better), 1.0, -1.0)
    known = np.isfinite(table)
    mine, others = table[..., :, None, :], table[..., None, :, :]  # [..., models, others, columns]
    wins = (mine > others).sum(axis=-2) + ((mine == others).sum(axis=-2) - 1) / 2  # equal to itself: not counted
    n_known = known.sum(axis=-2, keepdims=True)
    counts = known & (n_known >= 2)
    rates = np.where(counts, wins / np.maximum(n_known - 1, 1), 0.0)
    n_columns = counts.sum(axis=-1)
    return np.where(n_columns > 0, rates.sum(axis=-1) / np.maximum(n_columns, 1), np.nan)


def helm_mean_scores(values: Floats) -> Floats:
    """Return each model's mean over the columns in which it has a value.

    values: [..., models, columns], columns of one direction; NaN where a model has no value.

    Returns: [..., models]; NaN for a model without values.
    """
    known = np.isfinite(values)
    n_columns = known.sum(axis=-1)
    return np.where(n_columns > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(n_columns, 1), np.nan)


def resampled_values(columns: Sequence[NDArray[np.float64]], *, draws: int = DRAWS) -> Floats:
    """Return the table's values for resampled samples; each column's samples are drawn alike for all models.

    columns: [samples, models] of each column; NaN throughout for a model without the column. draws: how many.

    Returns: [draws, models, columns].
    """
    return np.stack(
        [
            np.stack([table[generator.integers(0, len(table), len(table))].mean(axis=0) for _ in range(draws)])
            for at, table in enumerate(columns)
            for generator in [generator_for("win rates", at, len(table))]
        ],
        axis=-1,
    )


@dataclass(frozen=True, slots=True)
class OrderDependence:
    """How often the order of two models depends on which others are listed."""

    n_pairs: int
    n_dependent: int  # pairs whose order is another one beside some set of the others
    example: tuple[int, int, tuple[int, ...]] | None = (
        None  # two models, and the others beside which they change places
    )


def order_dependence(values: Floats, higher_is_better: Sequence[bool]) -> OrderDependence:
    """Return for how many pairs of models the win rate's order among all is reversed beside only some of the others.

    values: [models, columns], NaN where there is none. Of many sets of others some are drawn.
    """
    n = len(values)
    whole = helm_win_rates(values, higher_is_better)
    pairs = [(a, b) for a, b in combinations(range(n), 2) if whole[a] != whole[b] and np.isfinite(whole[[a, b]]).all()]
    n_dependent, example = 0, None
    for a, b in pairs:
        others = [model for model in range(n) if model not in {a, b}]
        third = next(
            (
                some
                for some in _sets(others)
                for rates in [helm_win_rates(values[[a, b, *some]], higher_is_better)]
                if (rates[0] - rates[1]) * (whole[a] - whole[b]) < 0
            ),
            None,
        )
        if third is not None:
            n_dependent += 1
            example = example or (a, b, third)
    return OrderDependence(len(pairs), n_dependent, example)


def _sets(others: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sets of others that are tried: all proper ones, or as many drawn ones."""
    if 2 ** len(others) <= MOST_SETS:
        return [some for size in range(len(others)) for some in combinations(others, size)]
    generator = generator_for("sets of models", len(others))
    chosen = generator.random((MOST_SETS, len(others))) < 0.5
    return [tuple(np.asarray(others)[row].tolist()) for row in chosen]
