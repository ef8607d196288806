"""Logistic regression on one number: does a difference, say in length, decide who wins?"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from evalstone.errors import DataError
from evalstone.statistics.distributions import two_sided_z
from evalstone.statistics.estimate import cluster_sums
from evalstone.statistics.intervals import as_floats

__all__ = ["Slope", "logistic_slope"]

STEPS = 50
SEPARATED = 30.0  # a coefficient this large means that the number separates wins from losses


@dataclass(frozen=True, slots=True)
class Slope:
    """The coefficient of x in logit P(win) = intercept + slope · x. None where it cannot be estimated.

    Units: log-odds per unit of x.
    """

    value: float | None
    low: float | None
    high: float | None
    intercept: float | None
    n: int


def logistic_slope(
    x: Sequence[float],
    wins: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    confidence: float = 0.95,
) -> Slope:
    """Fit a logistic regression with intercept, and return the slope with its interval.

    Args:
        x: one number for each observation.
        wins: 1 or 0.
        clusters: a label for each observation; those with the same label are dependent. None: all are independent.
        confidence: of the interval, which is normal with the sandwich variance H⁻¹ (Σ s_c s_cᵀ) H⁻¹ · C/(C - 1).

    The slope is undefined if x or the wins do not vary, or x separates wins from losses.

    Source: Newton's method on the likelihood; clustered variance Liang and Zeger 1986.
    Raises: DataError for counts that differ.
    """
    numbers, won = as_floats(x, "numbers"), as_floats(wins, "wins")
    if len(numbers) != len(won):
        raise DataError(f"{len(numbers)} numbers and {len(won)} wins; expected equal counts")
    n = len(won)
    if n < 3 or numbers.std() == 0 or won.std() == 0:
        return Slope(None, None, None, None, n)
    scale = float(numbers.std())
    design = np.column_stack([np.ones(n), numbers / scale])  # [n, 2]
    beta = np.zeros(2)
    for _ in range(STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ beta, -50.0, 50.0)))
        hessian = design.T @ (design * (p * (1.0 - p))[:, None])
        if np.abs(beta).max() > SEPARATED or np.linalg.cond(hessian) > 1e12:
            return Slope(None, None, None, None, n)
        step = np.linalg.solve(hessian, design.T @ (won - p))
        beta = beta + step
        if float(np.abs(step).max()) < 1e-10:
            break
    scores = design * (won - p)[:, None]
    labels = list(range(n)) if clusters is None else list(clusters)
    sums = np.column_stack([cluster_sums(scores[:, column], labels) for column in (0, 1)])  # [clusters, 2]
    n_clusters = len(sums)
    if n_clusters < 2:
        return Slope(float(beta[1]) / scale, None, None, float(beta[0]), n)
    inverse = np.linalg.inv(hessian)
    variance = inverse @ (sums.T @ sums) @ inverse * n_clusters / (n_clusters - 1)
    slope, half = float(beta[1]) / scale, two_sided_z(confidence) * math.sqrt(float(variance[1, 1])) / scale
    return Slope(slope, slope - half, slope + half, float(beta[0]), n)
