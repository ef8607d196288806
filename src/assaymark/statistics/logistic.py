"""Logistic regression: does a difference, say in length, decide who wins?

The difference in length is scaled as by AlpacaEval (Dubois et al. 2024, arXiv 2404.04475).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import two_sided_z
from assaymark.statistics.estimate import cluster_sums
from assaymark.statistics.intervals import as_floats


def length_gaps(baseline: Floats, model: Floats) -> Floats:
    """Return tanh of (the baseline's length minus the model's) in standard deviations. Shapes: [items] each."""
    gaps = baseline - model
    return np.asarray(np.tanh(gaps / gaps.std()))


STEPS = 50
SEPARATED = 30.0  # a coefficient this large means that the number separates wins from losses


@dataclass(frozen=True, slots=True)
class LogisticFit:
    """Coefficients and their clustered covariance (None for one cluster). Shapes: [k] and [k, k]."""

    coefficients: Floats
    covariance: Floats | None
    n_clusters: int


def fit_logistic(
    design: Floats, outcomes: Floats, clusters: Sequence[Hashable] | None = None, weights: Floats | None = None
) -> LogisticFit | None:
    """Maximise Σ w (y log p + (1 - y) log(1 - p)) with logit p = design · coefficients, by Newton's method.

    Args:
        design: [n, k], columns of about unit size.
        outcomes: [n], 0 to 1; values in between are shares or ties (a quasi-likelihood).
        clusters: a label for each row; rows with the same label are dependent. None: all are independent.
        weights: [n], above 0; None: all 1.

    Returns None where the fit does not exist: a column separates the outcomes, or is a sum of others.
    Source: covariance H⁻¹ (Σ s_c s_cᵀ) H⁻¹ · C/(C - 1), Liang and Zeger 1986; shares as outcomes Papke and
    Wooldridge 1996.
    """
    n, k = design.shape
    own = np.ones(n) if weights is None else weights
    beta = np.zeros(k)
    for _ in range(STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ beta, -50.0, 50.0)))
        hessian = design.T @ (design * (own * p * (1.0 - p))[:, None])
        if np.abs(beta).max() > SEPARATED or np.linalg.cond(hessian) > 1e12:
            return None
        step = np.linalg.solve(hessian, design.T @ (own * (outcomes - p)))
        beta = beta + step
        if float(np.abs(step).max()) < 1e-10:
            break
    scores = design * (own * (outcomes - p))[:, None]
    labels = list(range(n)) if clusters is None else list(clusters)
    sums = np.column_stack([cluster_sums(scores[:, column], labels) for column in range(k)])  # [clusters, k]
    count = len(sums)
    if count < 2:
        return LogisticFit(beta, None, count)
    inverse = np.linalg.inv(hessian)
    return LogisticFit(beta, np.asarray(inverse @ (sums.T @ sums) @ inverse * count / (count - 1)), count)


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
    x: Sequence[float], wins: Sequence[float], clusters: Sequence[Hashable] | None = None, *, confidence: float = 0.95
) -> Slope:
    """Fit a logistic regression with intercept, and return the slope with its interval.

    Args:
        x: one number for each observation.
        wins: 1 or 0.
        clusters: a label for each observation; those with the same label are dependent. None: all are independent.
        confidence: of the interval, which is normal with the clustered variance of `fit_logistic`.

    The slope is undefined if x or the wins do not vary, or x separates wins from losses.

    Source: that of `fit_logistic`.
    Raises: DataError for counts that differ.
    """
    numbers, won = as_floats(x, "numbers"), as_floats(wins, "wins")
    if len(numbers) != len(won):
        raise DataError(f"{len(numbers)} numbers and {len(won)} wins; expected equal counts")
    n = len(won)
    if n < 3 or numbers.std() == 0 or won.std() == 0:
        return Slope(None, None, None, None, n)
    scale = float(numbers.std())
    fitted = fit_logistic(np.column_stack([np.ones(n), numbers / scale]), won, clusters)
    if fitted is None:
        return Slope(None, None, None, None, n)
    intercept, slope = (float(value) for value in fitted.coefficients / np.array([1.0, scale]))
    if fitted.covariance is None:
        return Slope(slope, None, None, intercept, n)
    half = two_sided_z(confidence) * math.sqrt(float(fitted.covariance[1, 1])) / scale
    return Slope(slope, slope - half, slope + half, intercept, n)
