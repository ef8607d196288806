"""Which two models meet next, and on which sides.

A pair is drawn with probability proportional to the variance that its battle is expected to remove, so that a voter
cannot tell from the pair which models it is, and every pair keeps a chance. A fair coin decides the sides, and is
stored.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.pair_choice import expected_reductions, penalised_strengths
from assaymark.store import Store
from assaymark.store.arena_rows import VoteRow

__all__ = ["Pair", "Pairing", "VotedPairs"]

UNIFORM_SHARE = 0.1  # of the probability, which all pairs share equally


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models: the one on side A is `first`, unless the coin swapped the sides."""

    first: str
    second: str
    is_swapped: bool

    @property
    def sides(self) -> tuple[str, str]:
        """The models on side A and side B."""
        return (self.second, self.first) if self.is_swapped else (self.first, self.second)


class Pairing:
    """Draws pairs from the counts of wins so far; `count` adds votes."""

    def __init__(self, models: Sequence[str]) -> None:
        """Raises: DataError for fewer than two models."""
        if len(models) < 2:
            raise DataError(f"a battle needs two models; there are {len(models)} that are not withdrawn")
        self._models = tuple(models)
        self._number = {name: number for number, name in enumerate(models)}
        self._wins: Floats = np.zeros((len(models), len(models)))
        self._probabilities: Floats | None = None

    def count(self, votes: Iterable[VoteRow]) -> None:
        """Add votes; those of models that are not drawn are left out."""
        for vote in votes:
            a, b = self._number.get(vote.model_a), self._number.get(vote.model_b)
            if a is None or b is None or not vote.is_counted:
                continue
            won = {"a": 1.0, "b": 0.0}.get(vote.choice, 0.5)
            self._wins[a, b] += won
            self._wins[b, a] += 1.0 - won
            self._probabilities = None

    def probabilities(self) -> Floats:
        """Return the probability of each pair. Shapes: [models, models], 0 on and below the diagonal; the sum is 1."""
        if self._probabilities is None:
            removed = np.triu(expected_reductions(penalised_strengths(self._wins)), 1)
            equal = np.triu(np.ones_like(removed), 1)
            mixed = (1.0 - UNIFORM_SHARE) * removed / removed.sum() + UNIFORM_SHARE * equal / equal.sum()
            self._probabilities = mixed / mixed.sum()
        return self._probabilities

    def draw(self, generator: np.random.Generator) -> Pair:
        """Return a pair and its sides."""
        chosen = int(generator.choice(self._wins.size, p=self.probabilities().ravel()))
        first, second = divmod(chosen, len(self._models))
        return Pair(self._models[first], self._models[second], bool(generator.integers(2)))


class VotedPairs:
    """Draws pairs of a store's models that are not withdrawn, from all votes up to each draw. Safe in threads."""

    def __init__(self, store: Store, models: Sequence[str], generator: np.random.Generator) -> None:
        """Register the models.

        Raises: DataError for fewer than two that are not withdrawn.
        """
        store.arena.register(models)
        withdrawn = {one.name for one in store.arena.models() if one.withdrawn_at}
        self._store, self._generator = store, generator
        self._pairing = Pairing([name for name in models if name not in withdrawn])
        self._lock = threading.Lock()
        self._seen = 0  # votes that are counted

    def draw(self) -> Pair:
        """Return a pair and its sides."""
        with self._lock:
            some = list(self._store.arena.votes(after=self._seen))
            self._pairing.count(some)
            self._seen = some[-1].sequence if some else self._seen
            return self._pairing.draw(self._generator)
