"""Details of ratings: matrices of pairs with residuals, and the votes on which the first rank depends.

Also the fit behind ratings: the model of votes, its weights, and its predictions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import BradleyTerry, expected_outcomes, fit_bradley_terry, pair_weights
from assaymark.statistics.influence import smallest_change_of_top
from assaymark.statistics.pair_matrices import pair_matrices
from assaymark.statistics.rating_errors import RatingErrors, clustered_errors
from assaymark.statistics.tie_models import TieFit, TieOutcomes, fit_tie_model, outcomes_of

MEANS = 3.0  # of the votes on a prompt, which are never capped: chance draws some prompts more often
Ties = Literal["half", "davidson", "rao-kupper"]


@dataclass(frozen=True, slots=True)
class TieParameter:
    """The parameter of a model of ties, and its meaning for equal models."""

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

    def errors(self, clusters: NDArray[np.generic]) -> RatingErrors:
        """Return the clustered errors of strengths and effects."""
        scores = None if self.ties is None else self.ties.tie_scores
        return clustered_errors(self.battles, self.fit, clusters, self.covariates, scores)

    def expected(self) -> Floats:
        """Return the expected outcome (ties half) of the row's model against the column's. Shapes: [models, models]."""
        if self.ties is None:
            return expected_outcomes(self.fit.strengths)
        chances = self.ties.matrix()
        return np.asarray(chances.win + 0.5 * chances.tie)

    def outcomes(self) -> TieOutcomes | None:
        """Return predicted wins, ties and losses; None if ties are half wins, a model that predicts no ties."""
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
        interval = errors.effect_interval(self.fit, len(self.fit.effects) - 1, confidence)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        model, value = self.ties.model, self.ties.parameter
        equals = float(outcomes_of(model, np.zeros(1), value).tie[0])
        name = "log ν" if model == "davidson" else "η"
        return TieParameter(model, name, value, low, high, equals, self.fit.log_likelihood)

    def halves(self) -> BradleyTerry:
        """Return the fit with ties as half wins and equal weights, which may be this one."""
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
    fit = fit_tie_model(battles, ties, covariates)
    return RatingFit(battles, covariates, fit.fit, None, fit)


def vote_weights(
    battles: Battles, prompts: NDArray[np.generic] | None, *, by_pair: bool, prompt_cap: float | None
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


Shares = tuple[tuple[float | None, ...], ...]
Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RatingMatrices:
    """Battles of each two models, in the order of the ratings; None where undefined. Shapes: [models][models]."""

    models: tuple[str, ...]
    n_battles: Counts
    n_decisive: Counts
    win_fraction: Shares  # of the row's model, without ties
    observed: Shares  # ties half
    predicted: Shares  # by Bradley-Terry with ties half
    residuals: Shares  # z: observed minus predicted in standard errors
    significance: Shares  # p of z after Holm's correction
    predicted_win: Shares | None  # by the model of ties
    predicted_tie: Shares | None
    dispersion: float
    chi_square: float
    degrees_of_freedom: int
    p_of_fit: float | None  # that all pairs are on one scale

    def pairs(self) -> "Iterator[HeadToHead]":
        """Yield the pairs with battles, from the side of the higher rating, the largest residual first."""
        pairs = [
            self._pair(row, column)
            for row in range(len(self.models))
            for column in range(row + 1, len(self.models))
            if self.n_battles[row][column]
        ]
        yield from sorted(pairs, key=lambda pair: -abs(pair.residual or 0.0))

    def _pair(self, row: int, column: int) -> "HeadToHead":
        shares = (self.win_fraction, self.observed, self.predicted, self.residuals, self.significance)
        models = (self.models[row], self.models[column])
        return HeadToHead(*models, self.n_battles[row][column], self.n_decisive[row][column],
                    *(table[row][column] for table in shares))  # fmt: skip


@dataclass(frozen=True, slots=True)
class HeadToHead:
    """Two models' battles, from the side of `model`."""

    model: str
    other: str
    n_battles: int
    n_decisive: int
    win_fraction: float | None
    observed: float | None
    predicted: float | None
    residual: float | None
    significance: float | None


@dataclass(frozen=True, slots=True)
class TopVotes:
    """The smallest set found of votes without which another model is first; none found: `second` is None."""

    first: str
    second: str | None
    n_votes: int  # in the set
    n_predicted: int  # by the first order approximation
    share: float  # of all votes
    rows: tuple[int, ...]  # of the file, from 1 without the header, the most influential first
    pairs: tuple[tuple[str, str, int], ...]  # winner (or first of a tie), loser, votes of the set; most frequent first


def matrices_of(fitted: RatingFit, models: tuple[str, ...], order: Ints) -> RatingMatrices:
    """Return the matrices in this order of the models (their numbers, the highest rating first)."""
    matrices = pair_matrices(fitted.battles, fitted.halves(), fitted.covariates)
    chances = fitted.outcomes()
    at = np.ix_(order, order)

    def shares(table: Floats) -> Shares:
        return tuple(tuple(None if np.isnan(value) else float(value) for value in row) for row in table[at])

    def counts(table: Ints) -> Counts:
        return tuple(tuple(row) for row in table[at].tolist())

    return RatingMatrices(
        tuple(models[index] for index in order), counts(matrices.n_battles), counts(matrices.n_decisive),
        shares(matrices.win_fraction), shares(matrices.observed), shares(matrices.predicted),
        shares(matrices.residuals),
        shares(matrices.significance), None if chances is None else shares(chances.win),
        None if chances is None else shares(chances.tie), matrices.dispersion, matrices.chi_square,
        matrices.degrees_of_freedom, matrices.p_of_fit,
    )  # fmt: skip


def top_votes(fitted: RatingFit, models: tuple[str, ...], rows: Ints) -> TopVotes:
    """Return the votes on which the first rank depends; `rows` are those of all votes in the file.

    Raises: UsageError for a model of ties, or weights.
    """
    if fitted.ties is not None or fitted.weights is not None:
        raise UsageError("the influence of votes is computed for ties as half wins and equal weights; use --ties half")
    battles, fit = fitted.battles, fitted.fit
    change = smallest_change_of_top(battles, fit, fitted.covariates)
    if change is None:
        return TopVotes(models[int(fit.strengths.argmax())], None, 0, 0, 0.0, (), ())
    pairs: dict[tuple[str, str], int] = {}
    for vote in change.votes.tolist():
        sides = (models[battles.first[vote]], models[battles.second[vote]])
        key = sides if battles.outcome[vote] >= 0.5 else (sides[1], sides[0])
        pairs[key] = pairs.get(key, 0) + 1
    listed = sorted(((*key, count) for key, count in pairs.items()), key=lambda row: -row[2])
    n = len(change.votes)
    return TopVotes(models[change.first], models[change.second], n, change.n_predicted, n / len(battles),
                    tuple(rows[change.votes].tolist()), tuple(listed))  # fmt: skip
