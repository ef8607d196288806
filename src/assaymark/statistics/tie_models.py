"""Davidson's and Rao and Kupper's models: win, tie and loss each have a probability, with one parameter for ties.

Bradley-Terry with ties as half wins predicts no ties. These models do; their strengths have a wider scale, so that
differences in points are comparable only between ratings of the same model.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import (
    BradleyTerry,
    check_votes,
    curvature_of,
    gradient_of,
    inverse_without_shift,
    scores_of,
    sigmoid,
    solved,
)

TieModel = Literal["davidson", "rao-kupper"]

_STEPS = 100
_TOLERANCE = 1e-10  # of the last step


class TieOutcomes(NamedTuple):
    """Probabilities of a win of the first model, a tie and a loss; they sum to 1. Shapes: those of the scores."""

    win: Floats
    tie: Floats
    loss: Floats


@dataclass(frozen=True, slots=True, eq=False)
class TieFit:
    """A fitted model. `fit.effects` has the covariates' effects and, last, the tie parameter.

    The parameter is log ν for Davidson and η for Rao-Kupper. Shapes: tie_scores [votes].
    """

    model: TieModel
    fit: BradleyTerry
    tie_scores: Floats  # derivative of each vote's log-likelihood by the parameter

    @property
    def parameter(self) -> float:
        """The parameter of ties: log ν (Davidson) or η (Rao-Kupper)."""
        return float(self.fit.effects[-1])

    def matrix(self) -> TieOutcomes:
        """Return the probabilities for the row's model against the column's. Shapes: [models, models] each."""
        strengths = self.fit.strengths
        return outcomes_of(self.model, strengths[:, None] - strengths[None, :], self.parameter)


class _Derivatives(NamedTuple):
    """Log-likelihoods, their first derivatives, and the second ones with the sign changed. Shapes: [votes]."""

    log_likelihood: Floats
    by_score: Floats
    by_tie: Floats
    score_score: Floats
    score_tie: Floats
    tie_tie: Floats


def outcomes_of(model: TieModel, score: Floats, parameter: float) -> TieOutcomes:
    """Return the probabilities at score z = θ_a - θ_b + xᵀβ.

    Davidson: win, tie and loss are in the ratio exp(z/2) : ν : exp(-z/2). Rao-Kupper: a win has σ(z - η), a loss
    σ(-z - η).

    Source: Davidson 1970; Rao and Kupper 1967.
    """
    if model == "rao-kupper":
        win, loss = sigmoid(score - parameter), sigmoid(-score - parameter)
        return TieOutcomes(win, math.expm1(2.0 * parameter) * win * loss, loss)
    half = 0.5 * score
    total = np.logaddexp(np.logaddexp(half, -half), parameter)
    return TieOutcomes(np.exp(half - total), np.exp(parameter - total), np.exp(-half - total))


def fit_tie_model(battles: Battles, model: TieModel, covariates: Floats | None = None) -> TieFit:
    """Fit strengths, one effect per covariate, and the parameter of ties, by Newton's method (the problem is concave).

    Args:
        battles: connected as for `fit_bradley_terry`, with at least one tie and one vote that is none.
        model: Davidson's or Rao and Kupper's.
        covariates: as for `fit_bradley_terry`.

    Raises: DataError as `fit_bradley_terry`, or if no vote or every vote is a tie.
    """
    n_ties = int((battles.outcome == 0.5).sum())
    if n_ties in {0, len(battles)}:
        raise DataError(
            f"{n_ties} of {len(battles)} votes are ties; expected some ties and some wins, since the tie parameter is "
            "infinite otherwise: rate with ties as half wins"
        )
    columns = check_votes(battles, covariates)
    fitted, fitted_columns, weights = battles, columns, np.ones(len(battles))
    if columns.shape[1] == 0:  # equal votes are merged into one with their number as weight
        fitted, cell = battles.distinct()
        fitted_columns, weights = np.zeros((len(fitted), 0)), np.bincount(cell).astype(np.float64)
    n = battles.n_models
    start = np.zeros(n + columns.shape[1] + 1)
    start[-1] = math.log(n_ties / (len(battles) - n_ties)) + math.log(2.0) if model == "davidson" else 0.5
    values, loss = _fitted(fitted, fitted_columns, weights, start, _DERIVATIVES[model])
    _, curvature = _system(fitted, fitted_columns, weights, values, _DERIVATIVES[model])
    at = _DERIVATIVES[model](scores_of(battles, columns, values[:-1]), battles.outcome, float(values[-1]))
    inverse = inverse_without_shift(curvature, n)
    return TieFit(model, BradleyTerry(values[:n], values[n:], at.by_score, inverse, -loss), at.by_tie)


_Of = Callable[[Floats, Floats, float], _Derivatives]


def _fitted(battles: Battles, columns: Floats, weights: Floats, start: Floats, of: _Of) -> tuple[Floats, float]:
    """Return the maximum and minus its log-likelihood, by damped Newton steps."""
    values = start
    loss = _loss(battles, columns, weights, values, of)
    for _ in range(_STEPS):
        gradient, curvature = _system(battles, columns, weights, values, of)
        step = solved(curvature, gradient, battles, columns)
        size = 1.0
        while True:
            lower = _loss(battles, columns, weights, values + size * step, of)
            if lower <= loss + 1e-12 * abs(loss) or size < 1e-6:
                break
            size /= 2.0
        values, loss = values + size * step, lower
        if float(np.abs(step).max()) < _TOLERANCE:
            return values, loss
    raise DataError(
        f"the fit of {len(battles)} votes with a parameter for ties does not converge in {_STEPS} steps: rate with "
        "ties as half wins"
    )


def _loss(battles: Battles, columns: Floats, weights: Floats, values: Floats, of: _Of) -> float:
    if of is _rao_kupper and values[-1] <= 0.0:  # outside of the model
        return math.inf
    at = of(scores_of(battles, columns, values[:-1]), battles.outcome, float(values[-1]))
    return -float((weights * at.log_likelihood).sum())


def _system(battles: Battles, columns: Floats, weights: Floats, values: Floats, of: _Of) -> tuple[Floats, Floats]:
    """Return the gradient and the curvature. Shapes: [p], [p, p], p = models + covariates + 1."""
    at = of(scores_of(battles, columns, values[:-1]), battles.outcome, float(values[-1]))
    gradient = np.append(gradient_of(battles, columns, weights * at.by_score), float((weights * at.by_tie).sum()))
    size = len(values)
    curvature = np.empty((size, size))
    curvature[:-1, :-1] = curvature_of(battles, columns, weights * at.score_score)
    curvature[:-1, -1] = curvature[-1, :-1] = gradient_of(battles, columns, weights * at.score_tie)
    curvature[-1, -1] = float((weights * at.tie_tie).sum())
    return gradient, curvature


def _davidson(score: Floats, outcome: Floats, log_nu: float) -> _Derivatives:
    half, tied = 0.5 * score, outcome == 0.5
    win, tie, loss = outcomes_of("davidson", score, log_nu)
    total = np.logaddexp(np.logaddexp(half, -half), log_nu)
    gap = win - loss
    return _Derivatives(
        (2.0 * outcome - 1.0) * half + tied * log_nu - total, outcome - (win + 0.5 * tie), tied - tie,
        0.25 * (win + loss - gap * gap), -0.5 * gap * tie, tie * (1.0 - tie)
    )  # fmt: skip


def _rao_kupper(score: Floats, outcome: Floats, eta: float) -> _Derivatives:
    not_lost, not_won = (outcome >= 0.5).astype(np.float64), (outcome <= 0.5).astype(np.float64)
    tied = (outcome == 0.5).astype(np.float64)
    win, loss = sigmoid(score - eta), sigmoid(-score - eta)
    above, below = not_lost * win * (1.0 - win), not_won * loss * (1.0 - loss)
    shrink = math.exp(-2.0 * eta)
    return _Derivatives(
        -not_lost * np.logaddexp(0.0, eta - score)
        - not_won * np.logaddexp(0.0, eta + score)
        + tied * (2.0 * eta + math.log1p(-shrink)),
        not_lost * (1.0 - win) - not_won * (1.0 - loss),
        -not_lost * (1.0 - win) - not_won * (1.0 - loss) + tied * (2.0 / (1.0 - shrink)),
        above + below,
        below - above,
        above + below + tied * (4.0 * shrink / (1.0 - shrink) ** 2),
    )


_DERIVATIVES: dict[TieModel, _Of] = {"davidson": _davidson, "rao-kupper": _rao_kupper}
