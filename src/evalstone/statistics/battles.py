"""Battles as arrays: who met whom, who won, and which models the votes join so that they can be rated together.

A tie is half a win for each side, as the published boards count it.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalstone.errors import DataError
from evalstone.statistics.arrays import Floats, Ints

__all__ = ["Battles", "Standing", "average_win_rates", "joined_groups", "standing_of"]

Standing = Literal["above", "below", "unjoined"]


@dataclass(frozen=True, slots=True, eq=False)
class Battles:
    """Votes between models that are numbered from 0.

    Shapes: first, second, outcome [votes]. Raises: DataError for no votes, a model against itself, other outcomes.
    """

    first: Ints  # the model on side A
    second: Ints
    outcome: Floats  # 1: A won, 0: B won, 0.5: tie
    n_models: int

    def __post_init__(self) -> None:
        """Refuse what is no battle."""
        if not len(self.first) == len(self.second) == len(self.outcome) > 0:
            raise DataError(
                f"{len(self.first)} and {len(self.second)} models for {len(self.outcome)} outcomes; "
                "expected one of each per vote, at least one vote"
            )
        if not np.isin(self.outcome, (0.0, 0.5, 1.0)).all():
            raise DataError("outcomes hold other values than 1 (A won), 0 (B won) and 0.5 (tie)")
        if (self.first == self.second).any():
            raise DataError(f"{int((self.first == self.second).sum())} votes put a model against itself")

    def __len__(self) -> int:
        return len(self.outcome)

    def wins(self) -> Floats:
        """Return how often the row's model beat the column's, ties half. Shapes: [models, models]."""
        won = self._counted(self.first, self.second, self.outcome)
        return won + self._counted(self.second, self.first, 1.0 - self.outcome)

    def ties(self) -> Floats:
        """Return how often two models tied. Shapes: [models, models], symmetric."""
        tied = self._counted(self.first, self.second, (self.outcome == 0.5).astype(np.float64))
        return tied + tied.T

    def votes(self) -> Ints:
        """Return each model's number of votes. Shapes: [models]."""
        return np.bincount(np.concatenate([self.first, self.second]), minlength=self.n_models)

    def among(self, models: Ints) -> tuple["Battles", NDArray[np.bool_]]:
        """Return the battles between these models, renumbered in their order, and which votes those are."""
        place = np.full(self.n_models, -1)
        place[models] = np.arange(len(models))
        kept = (place[self.first] >= 0) & (place[self.second] >= 0)
        battles = Battles(place[self.first[kept]], place[self.second[kept]], self.outcome[kept], len(models))
        return battles, kept

    def _counted(self, rows: Ints, columns: Ints, weights: Floats) -> Floats:
        flat = np.bincount(rows * self.n_models + columns, weights, self.n_models**2).astype(np.float64)
        return flat.reshape(self.n_models, self.n_models)


def average_win_rates(wins: Floats) -> Floats:
    """Return each model's share of wins (ties half) against an opponent, averaged over the opponents that it met.

    Shapes: wins [models, models]; result [models]. NaN never: every model of a battle met somebody.
    Source: the average win rate of FastChat's and Evalica's boards.
    """
    met = wins + wins.T
    shares = np.divide(wins, met, out=np.zeros_like(wins), where=met > 0)
    return np.asarray(shares.sum(axis=1) / np.maximum((met > 0).sum(axis=1), 1))


def joined_groups(wins: Floats) -> list[Ints]:
    """Return the groups of models within which each is reached from each by "won a vote or tied", the largest first.

    Only within such a group do finite ratings that maximise the likelihood exist, and are they unique.

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
    """Return where each model stands to the rated ones: above all, below all, or joined to them by no votes.

    None for the rated ones themselves. Shapes: wins [models, models]; rated [models in the group].
    """
    reached = _reached(wins)
    above, below = reached[:, rated[0]], reached[rated[0]]
    inside = set(rated.tolist())
    return [
        None if model in inside else "above" if above[model] else "below" if below[model] else "unjoined"
        for model in range(len(wins))
    ]


def _reached(wins: Floats) -> NDArray[Any]:
    """Return which models lie below each in some chain of wins and ties, itself included."""
    reached = (wins > 0) | np.eye(len(wins), dtype=bool)
    while True:
        further = (reached.astype(np.float32) @ reached.astype(np.float32)) > 0  # chains twice as long
        if (further == reached).all():
            return further
        reached = further
