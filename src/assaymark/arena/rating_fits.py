"""The fit behind ratings: which model of votes, with which weights, and what it predicts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import BradleyTerry, expected_outcomes, fit_bradley_terry, pair_weights
from assaymark.statistics.rating_errors import RatingErrors, clustered_errors
from assaymark.statistics.tie_models import Outcomes, TieFit, fit_tie_model, outcomes_of

__all__ = ["RatingFit", "TieParameter", "Ties", "fit_votes", "vote_weights"]

MEANS = 3.0  # of the votes on a prompt, which are never capped: chance draws some prompts more often
Ties = Literal["half", "davidson", "rao-kupper"]


@dataclass(frozen=True, slots=True)
class TieParameter:
    """The parameter of a model of ties, and what it means between equal models."""

    model: Ties
    name: str  # log ν or η
    value: float
    low: float | None
    high: float | None
    tie_of_equals: float  # probability of a tie between two equal models
    log_likelihood: float


@dataclass(frozen=True, slots=True, eq=False)
class RatingFit:
    """A fit of battles, whatever its model of ties."""

    battles: Battles
    covariates: Floats | None
    fit: BradleyTerry
    weights: Floats | None = None  # of the votes; None: equal
    ties: TieFit | None = None  # None: ties are half wins

    def errors(self, clusters: NDArray[Any]) -> RatingErrors:
        """Return the clustered errors of strengths and effects."""
        scores = None if self.ties is None else self.ties.tie_scores
        return clustered_errors(self.battles, self.fit, clusters, self.covariates, scores)

    def expected(self) -> Floats:
        """Return the expected outcome (ties half) of the row's model against the column's. Shapes: [models, models]."""
        if self.ties is None:
            return expected_outcomes(self.fit.strengths)
        chances = self.ties.matrix()
        return np.asarray(chances.win + 0.5 * chances.tie)

    def outcomes(self) -> Outcomes | None:
        """Return predicted wins, ties and losses; None where ties are half wins, which predicts none."""
        return None if self.ties is None else self.ties.matrix()

    def log_chance(self) -> Callable[[Floats], Floats] | None:
        """Return the log-probability to win as a function of the difference in strength; None: Bradley-Terry's."""
        if self.ties is None:
            return None
        return partial(_log_win, self.ties)

    def parameter(self, errors: RatingErrors, confidence: float) -> TieParameter | None:
        """Return the parameter of ties with its interval."""
        if self.ties is None:
            return None
        found = errors.effect_interval(self.fit, len(self.fit.effects) - 1, confidence)
        low, high = (None, None) if found is None else (found.low, found.high)
        model, value = self.ties.model, self.ties.parameter
        equals = float(outcomes_of(model, np.zeros(1), value).tie[0])
        name = "log ν" if model == "davidson" else "η"
        return TieParameter(model, name, value, low, high, equals, self.fit.log_likelihood)

    def halves(self) -> BradleyTerry:
        """Return the fit with ties as half wins and equal weights: this one, where it is that."""
        if self.ties is None and self.weights is None:
            return self.fit
        return fit_bradley_terry(self.battles, self.covariates)


def fit_votes(battles: Battles, covariates: Floats | None, ties: Ties, weights: Floats | None = None) -> RatingFit:
    """Fit votes, optionally weighted.

    Raises: DataError if there is no finite fit; UsageError for weights with a model of ties.
    """
    if ties == "half":
        return RatingFit(battles, covariates, fit_bradley_terry(battles, covariates, weights), weights)
    if weights is not None:
        raise UsageError(f"weights of votes are for ties as half wins; {ties} takes every vote once")
    found = fit_tie_model(battles, ties, covariates)
    return RatingFit(battles, covariates, found.fit, None, found)


def vote_weights(
    battles: Battles, prompts: NDArray[Any] | None, *, by_pair: bool, prompt_cap: float | None
) -> Floats | None:
    """Return the weights of votes; None if all are equal.

    by_pair: 1 / max(votes of its pair, 50). prompt_cap: the votes of one prompt weigh together at most this share of
    all votes, or three times the mean of all prompts where that is more. Raises: UsageError for a cap without prompts.
    """
    weights = pair_weights(battles) if by_pair else None
    if prompt_cap is None:
        return weights
    if prompts is None:
        raise UsageError("the votes have no column for their prompts, so the weight of a prompt cannot be limited")
    _, which = np.unique(prompts, return_inverse=True)
    counts = np.bincount(which)
    capped = np.minimum(1.0, max(prompt_cap * len(battles), MEANS * counts.mean()) / counts[which])
    if (capped == 1.0).all():
        return weights
    return np.asarray(capped if weights is None else capped * weights)


def _log_win(ties: TieFit, score: Floats) -> Floats:
    chances = outcomes_of(ties.model, score, ties.parameter)
    return np.asarray(np.log(np.maximum(chances.win, np.finfo(float).tiny)))
