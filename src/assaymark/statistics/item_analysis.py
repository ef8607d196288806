"""Item analysis: how hard each question of a benchmark is for several models, and whether it goes with the rest.

A question that better models miss and weaker ones get right may have a wrong key, or two right answers. Sources: Lord
and Novick 1968 (item-rest correlation); Mann and Whitney 1947 (rank sums).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from assaymark.statistics.arrays import Floats

LEVEL = 0.05  # a question that has nothing to do with ability is suspicious that often; sound ones almost never
FEWEST_MODELS = 5  # with four, no order of right and wrong is rarer than one in six


@dataclass(frozen=True, slots=True)
class ItemStatistics:
    """One question over all models."""

    right: float  # share of models that are right
    correlation: float | None  # of being right with the mean of the other questions, over models; None: undefined
    p: float | None  # one-sided, that those who miss it are no better on the rest than those who do not
    is_suspicious: bool  # p is at most LEVEL


def item_statistics(right: Floats) -> list[ItemStatistics]:
    """Return the statistics of each question.

    right: whether a model is right, 0 or 1; shape [models, questions].

    Raises: ValueError for fewer than FEWEST_MODELS models.
    """
    n_models, n_items = right.shape
    if n_models < FEWEST_MODELS:
        raise ValueError(f"{n_models} models; expected {FEWEST_MODELS} or more")
    rest = (right.sum(axis=1, keepdims=True) - right) / max(1, n_items - 1)
    correlations = _correlations(right, rest)
    p_values = [_p_of_missed(right[:, item], rest[:, item]) for item in range(n_items)]
    return [
        ItemStatistics(float(right[:, item].mean()), correlations[item], p, p is not None and p <= LEVEL)
        for item, p in enumerate(p_values)
    ]


def _correlations(right: Floats, rest: Floats) -> list[float | None]:
    own, others = right - right.mean(axis=0), rest - rest.mean(axis=0)
    scale = np.sqrt((own**2).sum(axis=0) * (others**2).sum(axis=0))
    covariance = (own * others).sum(axis=0)
    return [float(covariance[item] / scale[item]) if scale[item] > 0 else None for item in range(right.shape[1])]


def _p_of_missed(right: Floats, rest: Floats) -> float | None:
    """Return P(the ranks of those who miss a question sum up so high), were misses unrelated to the rest.

    Ties share their mean rank, and the sum is rounded down, so that p is not too small.
    """
    missed = right < 0.5
    n_missed = int(missed.sum())
    if not 0 < n_missed < len(right):
        return None
    total = int(np.floor(_midranks(rest)[missed].sum() + 1e-9))
    tail = _rank_sum_tail(len(right), n_missed)
    return float(tail[total])


def _midranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts - 1) / 2)[inverse]
    return ranks


@lru_cache(maxsize=512)
def _rank_sum_tail(n: int, k: int) -> Floats:
    """Return P(sum of k of the ranks 1 to n >= s) for s from 0 to the largest sum."""
    largest = n * (n + 1) // 2
    ways = np.zeros((k + 1, largest + 1))
    ways[0, 0] = 1.0
    for rank in range(1, n + 1):
        for size in range(min(k, rank), 0, -1):
            ways[size, rank:] += ways[size - 1, : largest + 1 - rank]
    tail: Floats = ways[k][::-1].cumsum()[::-1] / ways[k].sum()
    return tail
