"""Bradley-Terry: one strength per model, so that P(i beats j) = σ(θ_i - θ_j), fitted by maximum likelihood.

The model may have covariates: each property of a battle (the side, the difference in length of the answers) gets a
coefficient, and strengths are adjusted for it. All values are in natural logits; `ELO_SCALE` converts them to the
points of the published leaderboards.
"""

import math
from dataclasses import dataclass

import numpy as np

from evalstone.errors import DataError
from evalstone.statistics.arrays import Floats
from evalstone.statistics.battles import Battles, connected_groups

__all__ = ["ELO_SCALE", "BradleyTerry", "expected_win_rates", "fit_bradley_terry", "refit"]


ELO_SCALE = 400.0 / math.log(10.0)
"""Points per natural logit: a difference of 400 points means odds of ten to one."""

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
    inverse_curvature: Floats  # of the negative log-likelihood, for strengths that sum to 0
    log_likelihood: float


def fit_bradley_terry(battles: Battles, covariates: Floats | None = None) -> BradleyTerry:
    """Fit strengths, and one effect per covariate.

    Maximises Σ y log p + (1 - y) log(1 - p) with p = σ(θ_a - θ_b + xᵀβ) and y = ½ for a tie, by Newton's method.

    Args:
        battles: every model must be reached from every other by wins and ties (`connected_groups`).
        covariates: [votes, covariates], from A's side: swapping the sides of a battle changes the sign. A column of
            ones gives the effect of side A.

    Raises: DataError if strengths would be infinite or a covariate's effect cannot be identified.
    Source: Bradley and Terry 1952; Zermelo 1929; ties as halves as in Chiang et al. 2024 (arXiv 2403.04132).
    """
    groups = connected_groups(battles.wins())
    if len(groups) > 1:
        raise DataError(
            f"{battles.n_models} models form {len(groups)} groups without chains of wins and ties in both directions; "
            "expected one group, since strengths are finite and comparable within a group only: rate each group alone"
        )
    columns = np.zeros((len(battles), 0)) if covariates is None else np.asarray(covariates, dtype=np.float64)
    if columns.ndim != 2 or len(columns) != len(battles) or not np.isfinite(columns).all():
        raise DataError(
            f"covariates have shape {columns.shape}; expected [{len(battles)}, covariates] without missing values"
        )
    start = np.zeros(battles.n_models + columns.shape[1])
    values = refit(battles, columns, np.ones(len(battles)), start)
    score = _score(battles, columns, values)
    p = _sigmoid(score)
    curvature = _curvature(battles, columns, p * (1.0 - p))
    n = battles.n_models
    inverse = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
    inverse[:n, :n] -= 1.0 / n  # removes the term that made the curvature regular
    return BradleyTerry(values[:n], values[n:], battles.outcome - p, inverse, -_loss(battles, score))


def refit(battles: Battles, columns: Floats, weights: Floats, start: Floats) -> Floats:
    """Return strengths and effects with these weights of the votes, by damped Newton steps from `start`.

    Shapes: columns [votes, covariates]; weights [votes], all above 0; start and result [models + covariates].
    Raises: DataError if the steps do not converge or a direction has no information.
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
        f"the fit of {len(battles)} votes does not converge in {_STEPS} steps: a covariate may separate wins from "
        "losses, so that its effect is infinite; remove it"
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
    """Return Σ w x xᵀ over votes, plus 1/n in the direction without information (a shift of all strengths)."""
    n, first, second = battles.n_models, battles.first, battles.second
    met = np.bincount(first * n + second, weights, n * n).reshape(n, n)
    met = met + met.T
    curvature = np.empty((n + columns.shape[1],) * 2)
    curvature[:n, :n] = np.diag(met.sum(axis=1)) - met + 1.0 / n
    weighted = columns * weights[:, None]
    for index, column in enumerate(weighted.T, start=n):
        curvature[:n, index] = np.bincount(first, column, n) - np.bincount(second, column, n)
    curvature[n:, :n] = curvature[:n, n:].T
    curvature[n:, n:] = weighted.T @ columns
    return curvature


def _solved(curvature: Floats, gradient: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(curvature, gradient))
    except np.linalg.LinAlgError:
        raise DataError(
            "a covariate is constant over the votes or a sum of others, so that its effect cannot be identified; "
            "remove it"
        ) from None
