"""Details of ratings: matrices of pairs with residuals, and the votes on which the first rank depends."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from assaymark.arena.rating_fits import RatingFit
from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.influence import smallest_change_of_top
from assaymark.statistics.pair_matrices import pair_matrices

__all__ = ["Pair", "RatingMatrices", "TopVotes", "matrices_of", "top_votes"]

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

    def pairs(self) -> "Iterator[Pair]":
        """Yield the pairs with battles, from the side of the higher rating, the largest residual first."""
        found = [
            self._pair(row, column)
            for row in range(len(self.models))
            for column in range(row + 1, len(self.models))
            if self.n_battles[row][column]
        ]
        yield from sorted(found, key=lambda one: -abs(one.residual or 0.0))

    def _pair(self, row: int, column: int) -> "Pair":
        shares = (self.win_fraction, self.observed, self.predicted, self.residuals, self.significance)
        models = (self.models[row], self.models[column])
        return Pair(*models, self.n_battles[row][column], self.n_decisive[row][column],
                    *(table[row][column] for table in shares))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
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
    found = pair_matrices(fitted.battles, fitted.halves(), fitted.covariates)
    chances = fitted.outcomes()
    at = np.ix_(order, order)

    def shares(table: Floats) -> Shares:
        return tuple(tuple(None if np.isnan(one) else float(one) for one in row) for row in table[at])

    def counts(table: Ints) -> Counts:
        return tuple(tuple(row) for row in table[at].tolist())

    return RatingMatrices(
        tuple(models[index] for index in order), counts(found.n_battles), counts(found.n_decisive),
        shares(found.win_fraction), shares(found.observed), shares(found.predicted), shares(found.residuals),
        shares(found.significance), None if chances is None else shares(chances.win),
        None if chances is None else shares(chances.tie), found.dispersion, found.chi_square,
        found.degrees_of_freedom, found.p_of_fit,
    )  # fmt: skip


def top_votes(fitted: RatingFit, models: tuple[str, ...], rows: Ints) -> TopVotes:
    """Return the votes on which the first rank depends; `rows` are those of all votes in the file.

    Raises: UsageError for a model of ties, or weights.
    """
    if fitted.ties is not None or fitted.weights is not None:
        raise UsageError("the influence of votes is computed for ties as half wins and equal weights; use --ties half")
    battles, fit = fitted.battles, fitted.fit
    found = smallest_change_of_top(battles, fit, fitted.covariates)
    if found is None:
        return TopVotes(models[int(fit.strengths.argmax())], None, 0, 0, 0.0, (), ())
    pairs: dict[tuple[str, str], int] = {}
    for vote in found.votes.tolist():
        sides = (models[battles.first[vote]], models[battles.second[vote]])
        key = sides if battles.outcome[vote] >= 0.5 else (sides[1], sides[0])
        pairs[key] = pairs.get(key, 0) + 1
    listed = sorted(((*key, count) for key, count in pairs.items()), key=lambda one: -one[2])
    n = len(found.votes)
    return TopVotes(models[found.first], models[found.second], n, found.n_predicted, n / len(battles),
                    tuple(rows[found.votes].tolist()), tuple(listed))  # fmt: skip
