"""Bradley-Terry: one strength per model, so that P(i beats j) = σ(θ_i - θ_j), fitted by maximum likelihood.

Covariates stand beside the strengths: what is known of a battle (which side, how much longer one answer is) gets a
coefficient, and strengths are those of models that are alike in it. All is in natural logits; `ELO_SCALE` makes the
points of the published boards of them.
"""

import math
from dataclasses import dataclass

import numpy as np

from evalstone.errors import DataError
from evalstone.statistics.arrays import Floats
from evalstone.statistics.battles import Battles, joined_groups

__all__ = ["ELO_SCALE", "BradleyTerry", "expected_win_rates", "fit_bradley_terry", "refit"]


ELO_SCALE = 400.0 / math.log(10.0)
"""Points per natural logit: 400 points are odds of ten to one."""

_STEPS = 100
_TOLERANCE = 1e-10  # of the last step, in logits


@dataclass(frozen=True, slots=True, eq=False)
class BradleyTerry:
    """A fitted model. Strengths sum to 0.

    Shapes: strengths [models]; effects [covariates]; residuals [votes]; inverse_curvature [p, p] with p = models +
    covariates.
    """

    strengths: Floats
    effects: Floats
    residuals: Floats  # outcome minus its expectation
    inverse_curvature: Floats  # of minus the log-likelihood, within strengths that sum to 0
    log_likelihood: float


def fit_bradley_terry(battles: Battles, covariates: Floats | None = None) -> BradleyTerry:
    """Fit strengths, and one effect per covariate.

    Maximises Σ y log p + (1 - y) log(1 - p) with p = σ(θ_a - θ_b + xᵀβ) and y = ½ for a tie, by Newton's method.

    Args:
        battles: every model reached from every other by wins and ties (`joined_groups`).
        covariates: [votes, covariates], from A's side: swapping the sides of a battle changes the sign. A column of
            ones is the effect of standing on side A.

    Raises: DataError where strengths would be infinite or a covariate's effect cannot be told.
    Source: Bradley and Terry 1952; Zermelo 1929; ties as halves as in Chiang et al. 2024 (arXiv 2403.04132).
    """
    groups = joined_groups(battles.wins())
    if len(groups) > 1:
        raise DataError(
            f"{battles.n_models} models fall into {len(groups)} groups that no chain of wins and ties joins both ways; "
            "expected one group, for only its strengths are finite and comparable: rate each group alone"
        )
    columns = np.zeros((len(battles), 0)) if covariates is None else np.asarray(covariates, dtype=np.float64)
    if columns.ndim != 2 or len(columns) != len(battles) or not np.isfinite(columns).all():
        raise DataError(f"covariates have shape {columns.shape}; expected [{len(battles)}, covariates], no holes")
    start = np.zeros(battles.n_models + columns.shape[1])
    values = refit(battles, columns, np.ones(len(battles)), start)
    score = _score(battles, columns, values)
    p = _sigmoid(score)
    curvature = _curvature(battles, columns, p * (1.0 - p))
    n = battles.n_models
    inverse = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
    inverse[:n, :n] -= 1.0 / n  # takes out again what made it regular
    return BradleyTerry(values[:n], values[n:], battles.outcome - p, inverse, -_loss(battles, score))


def refit(battles: Battles, columns: Floats, weights: Floats, start: Floats) -> Floats:
    """Return strengths and effects with these weights of the votes, by damped Newton steps from `start`.

    Shapes: columns [votes, covariates]; weights [votes], all above 0; start and result [models + covariates].
    Raises: DataError if the steps do not settle or a direction has no information.
    """
    values = start
    score = _score(battles, columns, values)
    loss = _loss(battles, score, weights)
    for _ in range(_STEPS):
        p = _sigmoid(score)
        gradient = _gradient(battles, columns, weights * (battles.outcome - p))
        step = _solved(_curvature(battles, columns, weights * p * (1.0 - p)), gradient)
        size = 1.0
        while True:
            score = _score(battles, columns, values + size * step)
            lower = _loss(battles, score, weights)
            if lower <= loss + 1e-12 * abs(loss) or size < 1e-6:
                break
            size /= 2.0
        values, loss = values + size * step, lower
        if float(np.abs(step).max()) < _TOLERANCE:
            return values
    raise DataError(
        f"the fit of {len(battles)} votes does not settle in {_STEPS} steps: a covariate may separate wins from "
        "losses, so that its effect is infinite; leave it out"
    )


def expected_win_rates(strengths: Floats) -> Floats:
    """Return each model's expected share of wins (ties half) against the others, each met equally often.

    (1/(k-1)) Σ_j σ(θ_i - θ_j). Shapes: strengths [models], at least two; result [models].
    """
    chances = _sigmoid(strengths[:, None] - strengths[None, :])
    return np.asarray((chances.sum(axis=1) - 0.5) / (len(strengths) - 1))


def _score(battles: Battles, columns: Floats, values: Floats) -> Floats:
    score = values[battles.first] - values[battles.second]
    return np.asarray(score + columns @ values[battles.n_models :])


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _loss(battles: Battles, score: Floats, weights: Floats | None = None) -> float:
    losses = np.logaddexp(0.0, score) - battles.outcome * score
    return float((losses if weights is None else weights * losses).sum())


def _gradient(battles: Battles, columns: Floats, residuals: Floats) -> Floats:
    """Return Σ r x over votes, x being +1 for A, -1 for B and the covariates. Shapes: [models + covariates]."""
    n = battles.n_models
    own = np.bincount(battles.first, residuals, n) - np.bincount(battles.second, residuals, n)
    return np.concatenate([own, columns.T @ residuals])


def _curvature(battles: Battles, columns: Floats, weights: Floats) -> Floats:
    """Return Σ w x xᵀ over votes, made regular in the one direction that votes say nothing of: all strengths alike."""
    n, first, second = battles.n_models, battles.first, battles.second
    met = np.bincount(first * n + second, weights, n * n).reshape(n, n)
    met = met + met.T
    curvature = np.empty((n + columns.shape[1],) * 2)
    curvature[:n, :n] = np.diag(met.sum(axis=1)) - met + 1.0 / n
    weighted = columns * weights[:, None]
    for place, column in enumerate(weighted.T, start=n):
        curvature[:n, place] = np.bincount(first, column, n) - np.bincount(second, column, n)
    curvature[n:, :n] = curvature[:n, n:].T
    curvature[n:, n:] = weighted.T @ columns
    return curvature


def _solved(curvature: Floats, gradient: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(curvature, gradient))
    except np.linalg.LinAlgError:
        raise DataError(
            "a covariate is constant over the votes or a sum of others, so that its effect cannot be told; leave it out"
        ) from None
