"""Battles as arrays: the two models, the outcome, and which models are connected and can be rated together.

A tie counts as half a win for each side, as on the published leaderboards.

Which two models should meet next: the expected reduction of the variances of Bradley-Terry strengths by one battle.

With V the covariance of the strengths (inverse curvature of the penalised likelihood), a battle of i and j with win
probability p adds the information w = p(1 - p) along x = e_i - e_j, and by Sherman and Morrison V becomes
V - w V x xᵀ V / (1 + w xᵀ V x). The sum of the variances falls by w |V x|² / (1 + w xᵀ V x).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats, Ints

PRIOR_DEVIATION = 1.5
"""Standard deviation of strengths before any vote, in logits: 260 points."""

_STEPS = 50
_TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Strengths:
    """Shapes: strengths [models], logits; covariance [models, models]."""

    strengths: Floats
    covariance: Floats


def penalised_strengths(wins: Floats) -> Strengths:
    """Return strengths under a normal prior of mean 0; defined for any counts, also none at all.

    wins: wins of the row's model over the column's, a tie half for each. Shapes: [models, models].
    """
    n = len(wins)
    battles = wins + wins.T
    precision = 1.0 / PRIOR_DEVIATION**2
    strengths = np.zeros(n)
    curvature = np.eye(n) * precision
    for _ in range(_STEPS):
        expected = 1.0 / (1.0 + np.exp(strengths[None, :] - strengths[:, None]))
        gradient = (wins - battles * expected).sum(axis=1) - precision * strengths
        weight = battles * expected * (1.0 - expected)
        curvature = np.diag(weight.sum(axis=1) + precision) - weight
        step = np.linalg.solve(curvature, gradient)
        strengths = strengths + np.clip(step, -2.0, 2.0)
        if np.abs(step).max(initial=0.0) < _TOLERANCE:
            break
    covariance: Floats = np.linalg.inv(curvature).astype(np.float64)
    return Strengths(strengths, covariance)


def expected_reductions(fit: Strengths) -> Floats:
    """Return by how much one battle of each two models lowers the sum of variances; 0 on the diagonal.

    Shapes: [models, models], symmetric. Units: squared logits.
    """
    v = fit.covariance
    difference = fit.strengths[:, None] - fit.strengths[None, :]
    p = 1.0 / (1.0 + np.exp(-difference))
    w = p * (1.0 - p)
    own, squared = np.diag(v), v @ v
    along = own[:, None] + own[None, :] - 2.0 * v
    length = np.diag(squared)[:, None] + np.diag(squared)[None, :] - 2.0 * squared
    reductions: Floats = w * length / (1.0 + w * along)
    np.fill_diagonal(reductions, 0.0)
    return np.maximum(reductions, 0.0)


Standing = Literal["above", "below", "unjoined"]

_MOST_KEYS = 30_000_000  # bounds memory: a table of all pairs and outcomes has 8 bytes each


@dataclass(frozen=True, slots=True, eq=False)
class Battles:
    """Votes between models, which are numbered from 0.

    Shapes: first, second, outcome [votes]. Raises: DataError for no votes, a model against itself, other outcomes.
    """

    first: Ints  # the model on side A
    second: Ints
    outcome: Floats  # 1: A won, 0: B won, 0.5: tie
    n_models: int

    def __post_init__(self) -> None:
        """Check the arrays."""
        if not len(self.first) == len(self.second) == len(self.outcome) > 0:
            raise DataError(
                f"{len(self.first)} and {len(self.second)} models for {len(self.outcome)} outcomes; "
                "expected one of each per vote, at least one vote"
            )
        if not np.isin(self.outcome, (0.0, 0.5, 1.0)).all():
            raise DataError("outcomes contain other values than 1 (A won), 0 (B won) and 0.5 (tie)")
        if (self.first == self.second).any():
            raise DataError(f"{int((self.first == self.second).sum())} votes compare a model with itself")

    def __len__(self) -> int:
        return len(self.outcome)

    def wins(self) -> Floats:
        """Return the wins of the row's model over the column's, ties half. Shapes: [models, models]."""
        won = self._counted(self.first, self.second, self.outcome)
        return won + self._counted(self.second, self.first, 1.0 - self.outcome)

    def ties(self) -> Floats:
        """Return the number of ties of each two models. Shapes: [models, models], symmetric."""
        tied = self._counted(self.first, self.second, (self.outcome == 0.5).astype(np.float64))
        return tied + tied.T

    def votes(self) -> Ints:
        """Return each model's number of votes. Shapes: [models]."""
        return np.bincount(np.concatenate([self.first, self.second]), minlength=self.n_models)

    def among(self, models: Ints) -> tuple["Battles", NDArray[np.bool_]]:
        """Return the battles between these models, renumbered in their order, and a mask of their votes."""
        number = np.full(self.n_models, -1)
        number[models] = np.arange(len(models))
        used = (number[self.first] >= 0) & (number[self.second] >= 0)
        battles = Battles(number[self.first[used]], number[self.second[used]], self.outcome[used], len(models))
        return battles, used

    def distinct(self) -> tuple["Battles", Ints]:
        """Return one battle for each pair and outcome, the model with the lower number first, and the one of each vote.

        The likelihood of votes without covariates depends only on how often each of these occurs.
        """
        swapped = self.first > self.second
        low, high = np.where(swapped, self.second, self.first), np.where(swapped, self.first, self.second)
        outcome = np.where(swapped, 1.0 - self.outcome, self.outcome)
        keys = (low * self.n_models + high) * 3 + (2.0 * outcome).astype(np.int64)
        n_keys = 3 * self.n_models**2
        if n_keys > _MOST_KEYS:
            occurring, cell = np.unique(keys, return_inverse=True)
        else:  # without sorting the votes
            occurring = np.flatnonzero(np.bincount(keys, minlength=n_keys))
            number = np.empty(n_keys, dtype=np.int64)
            number[occurring] = np.arange(len(occurring))
            cell = number[keys]
        pairs = occurring // 3
        return Battles(pairs // self.n_models, pairs % self.n_models, (occurring % 3) / 2.0, self.n_models), cell

    def _counted(self, rows: Ints, columns: Ints, weights: Floats) -> Floats:
        flat = np.bincount(rows * self.n_models + columns, weights, self.n_models**2).astype(np.float64)
        return flat.reshape(self.n_models, self.n_models)


def average_win_rates(wins: Floats) -> Floats:
    """Return each model's share of wins (ties half) against an opponent, averaged over the opponents that it met.

    Shapes: wins [models, models]; result [models], never NaN.
    Source: the average win rate of FastChat's and Evalica's leaderboards.
    """
    met = wins + wins.T
    shares = np.divide(wins, met, out=np.zeros_like(wins), where=met > 0)
    return np.asarray(shares.sum(axis=1) / np.maximum((met > 0).sum(axis=1), 1))


def connected_groups(wins: Floats) -> list[Ints]:
    """Return the strongly connected groups of models under "won a vote or tied", the largest first.

    Finite and unique maximum-likelihood ratings exist only within such a group.

    Shapes: wins [models, models]; each group [models in it], ascending.
    Source: Ford 1957; Zermelo 1929.
    """
    reached = _reached(wins)
    mutual = reached & reached.T
    names = mutual.argmax(axis=1)  # the first model of each one's group
    votes = (wins + wins.T).sum(axis=1)
    groups = [np.flatnonzero(names == name) for name in np.unique(names)]
    return sorted(groups, key=lambda group: (-len(group), -float(votes[group].sum())))


def standing_of(wins: Floats, rated: Ints) -> list[Standing | None]:
    """Return each model's relation to the rated ones: above all, below all, or not connected by votes.

    None for the rated ones themselves. Shapes: wins [models, models]; rated [models in the group].
    """
    reached = _reached(wins)
    above, below = reached[:, rated[0]], reached[rated[0]]
    inside = set(rated.tolist())
    return [
        None if model in inside else "above" if above[model] else "below" if below[model] else "unjoined"
        for model in range(len(wins))
    ]


def _reached(wins: Floats) -> NDArray[np.bool_]:
    """Return which models each one reaches by a chain of wins and ties, itself included. Shapes: [models, models]."""
    reached = (wins > 0) | np.eye(len(wins), dtype=bool)
    while True:
        further = (reached.astype(np.float32) @ reached.astype(np.float32)) > 0  # chains twice as long
        if (further == reached).all():
            return further
        reached = further
