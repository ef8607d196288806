"""Bradley-Terry: one strength per model, so that P(i beats j) = σ(θ_i - θ_j), fitted by maximum likelihood.

The model may have covariates: each property of a battle (the side, the difference in length of the answers) gets a
coefficient, and strengths are adjusted for it. All values are in natural logits; `ELO_SCALE` converts them to the
points of the published leaderboards.

Online Elo ratings, updated after every vote; for a live view, since they depend on the order of the votes.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.battles import Battles, connected_groups


def online_elo(
    battles: Battles, *, k_factor: float = 4.0, scale: float = 400.0, start: float = 1000.0
) -> NDArray[np.float64]:
    """Return each model's rating after all votes, in their order.

    R_a += K (S - E) and R_b -= K (S - E) with E = 1 / (1 + 10^((R_b - R_a) / scale)); a tie is S = ½.

    Shapes: result [models]. Source: Elo 1978, with the K of Chatbot Arena's first leaderboards.
    """
    ratings = [start] * battles.n_models
    votes = zip(battles.first.tolist(), battles.second.tolist(), battles.outcome.tolist(), strict=True)
    for first, second, outcome in votes:
        expected = 1.0 / (1.0 + 10.0 ** ((ratings[second] - ratings[first]) / scale))
        ratings[first] += k_factor * (outcome - expected)
        ratings[second] -= k_factor * (outcome - expected)
    return np.array(ratings)


ELO_SCALE = 400.0 / math.log(10.0)
"""Points per natural logit: a difference of 400 points means odds of ten to one."""

ENOUGH_VOTES = 10
"""Of each model: of two equal models with 20 votes, 99 of 100 sets of votes have finite strengths beside a side's."""

_STEPS = 100
_TOLERANCE = 1e-10  # of the last step, in logits


class TooFewVotes(DataError):
    """No finite strengths and effects fit the votes."""


@dataclass(frozen=True, slots=True, eq=False)
class BradleyTerry:
    """A fitted model. Strengths sum to 0.

    Shapes: strengths [models]; effects [covariates]; residuals [votes]; inverse_curvature [p, p] with p = models +
    covariates.
    """

    strengths: Floats
    effects: Floats
    residuals: Floats  # outcome minus its expectation, times the weight of the vote
    inverse_curvature: Floats  # of the negative log-likelihood, for strengths that sum to 0
    log_likelihood: float


def fit_bradley_terry(
    battles: Battles, covariates: Floats | None = None, weights: Floats | None = None
) -> BradleyTerry:
    """Fit strengths, and one effect per covariate.

    Maximises Σ w (y log p + (1 - y) log(1 - p)) with p = σ(θ_a - θ_b + xᵀβ) and y = ½ for a tie, by Newton's method.

    Args:
        battles: every model must be reached from every other by wins and ties (`connected_groups`).
        covariates: [votes, covariates], from A's side: swapping the sides of a battle changes the sign. A column of
            ones gives the effect of side A.
        weights: [votes], above 0 (`pair_weights`); all 1 if None.

    Raises: DataError if strengths would be infinite or a covariate's effect cannot be identified.
    Source: Bradley and Terry 1952; Zermelo 1929; ties as halves as in Chiang et al. 2024 (arXiv 2403.04132).
    """
    columns = check_votes(battles, covariates)
    own = np.ones(len(battles)) if weights is None else weights
    fitted, fitted_columns, fitted_weights = battles, columns, own
    if columns.shape[1] == 0:  # equal votes are merged into one with the sum of their weights
        fitted, cell = battles.distinct()
        fitted_weights = np.bincount(cell, own, len(fitted)).astype(np.float64)
        fitted_columns = np.zeros((len(fitted), 0))
    start = np.zeros(battles.n_models + columns.shape[1])
    values = refit(fitted, fitted_columns, fitted_weights, start)
    score = scores_of(fitted, fitted_columns, values)
    p = sigmoid(score)
    curvature = curvature_of(fitted, fitted_columns, fitted_weights * p * (1.0 - p))
    residuals = own * (battles.outcome - sigmoid(scores_of(battles, columns, values)))
    n = battles.n_models
    loss = _loss(fitted, score, fitted_weights)
    return BradleyTerry(values[:n], values[n:], residuals, inverse_without_shift(curvature, n), -loss)


def check_votes(battles: Battles, covariates: Floats | None) -> Floats:
    """Return the covariates, without columns if there are none. Shapes: [votes, covariates].

    Raises: DataError if strengths would be infinite, or covariates have another shape or missing values.
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
    return columns


def inverse_without_shift(curvature: Floats, n_models: int) -> Floats:
    """Return the inverse for strengths that sum to 0, of a curvature with 1/n added in the direction of a shift."""
    inverse = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
    inverse[:n_models, :n_models] -= 1.0 / n_models
    return inverse


def pair_weights(battles: Battles, least: int = 50) -> Floats:
    """Return 1 / max(n, least) for each vote, n being the votes of its pair, so that popular pairs do not dominate.

    Shapes: result [votes]. Source: the reweighting of arena-rank 2025.
    """
    n = battles.n_models
    pairs = np.minimum(battles.first, battles.second) * n + np.maximum(battles.first, battles.second)
    return np.asarray(1.0 / np.maximum(np.bincount(pairs, minlength=n * n)[pairs], least))


def refit(battles: Battles, columns: Floats, weights: Floats, start: Floats) -> Floats:
    """Return strengths and effects with these weights of the votes, by damped Newton steps from `start`.

    Shapes: columns [votes, covariates]; weights [votes], all above 0; start and result [models + covariates].
    Raises: DataError if the steps do not converge or a direction has no information.
    """
    values = start
    score = scores_of(battles, columns, values)
    loss = _loss(battles, score, weights)
    for _ in range(_STEPS):
        p = sigmoid(score)
        gradient = gradient_of(battles, columns, weights * (battles.outcome - p))
        step = solved(curvature_of(battles, columns, weights * p * (1.0 - p)), gradient, battles, columns)
        size = 1.0
        while True:
            score = scores_of(battles, columns, values + size * step)
            lower = _loss(battles, score, weights)
            if lower <= loss + 1e-12 * abs(loss) or size < 1e-6:
                break
            size /= 2.0
        values, loss = values + size * step, lower
        if float(np.abs(step).max()) < _TOLERANCE:
            return values
    raise _separated(battles)


def expected_win_rates(outcomes: Floats) -> Floats:
    """Return each model's expected share of wins (ties half) against the others, each met equally often.

    Shapes: outcomes [models, models], expected outcomes of at least two models, ½ on the diagonal; result [models].
    """
    return np.asarray((outcomes.sum(axis=1) - 0.5) / (len(outcomes) - 1))


def expected_outcomes(strengths: Floats) -> Floats:
    """Return σ(θ_i - θ_j), the expected outcome of the row's model against the column's. Shapes: [models, models]."""
    return sigmoid(strengths[:, None] - strengths[None, :])


def scores_of(battles: Battles, columns: Floats, values: Floats) -> Floats:
    """Return θ_a - θ_b + xᵀβ. Shapes: columns [votes, covariates]; values [models + covariates]; result [votes]."""
    score = values[battles.first] - values[battles.second]
    return np.asarray(score + columns @ values[battles.n_models :])


def sigmoid(x: Floats) -> Floats:
    """Return σ(x) = 1 / (1 + exp(-x))."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _loss(battles: Battles, score: Floats, weights: Floats | None = None) -> float:
    losses = np.logaddexp(0.0, score) - battles.outcome * score
    return float((losses if weights is None else weights * losses).sum())


def gradient_of(battles: Battles, columns: Floats, residuals: Floats) -> Floats:
    """Return Σ r x over votes, x being +1 for A, -1 for B and the covariates. Shapes: [models + covariates]."""
    n = battles.n_models
    own = np.bincount(battles.first, residuals, n) - np.bincount(battles.second, residuals, n)
    return np.concatenate([own, columns.T @ residuals])


def curvature_of(battles: Battles, columns: Floats, weights: Floats) -> Floats:
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


def solved(curvature: Floats, gradient: Floats, battles: Battles, columns: Floats) -> Floats:
    """Return the Newton step.

    Raises: DataError if a direction has no information, whatever the strengths; TooFewVotes if only these leave none.
    """
    try:
        return np.asarray(np.linalg.solve(curvature, gradient))
    except np.linalg.LinAlgError:
        whatever = curvature_of(battles, columns, np.ones(len(battles)))
        if np.linalg.matrix_rank(whatever) == len(whatever):
            raise _separated(battles) from None
        raise DataError(
            "a covariate is constant over the votes or a sum of others, so that its effect cannot be identified; "
            "remove it"
        ) from None


def _separated(battles: Battles) -> TooFewVotes:
    """Return the error for votes that are separated. Source: Albert and Anderson 1984."""
    return TooFewVotes(
        f"some strengths and effects of covariates predict every one of the {len(battles):,} votes (separation), so "
        f"that their estimates are infinite; collect more votes, about {ENOUGH_VOTES} for each model, or leave out "
        "covariates"
    )
