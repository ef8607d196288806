"""Battles over stored answers: from a drawn pair to a vote.

A battle is `open` until its voter votes, and `voted` afterwards. The view of an open battle (`VoterView`) has no
model, no source and no order of the pair; the names come with the vote. Reloading an open battle shows the same one;
skipped battles are counted.

A pair is drawn with a probability that grows with the variance that its battle is expected to remove, and every pair
keeps a chance, so that voters cannot infer the models from the pairing. A fair coin decides the sides, and is stored.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from secrets import token_urlsafe

import numpy as np

from assaymark.arena.answer_files import StoredAnswers
from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.arena_rows import BattleRow, VoteRow
from assaymark.arena.ballots import DAY, Ballots, Publishing, VoteLimits, Voter, VoterView, shown_battle
from assaymark.errors import DataError, UsageError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.battles import expected_reductions, penalised_strengths
from assaymark.store import Store

UNIFORM_SHARE = 0.1  # of the probability, which all pairs share equally


@dataclass(frozen=True, slots=True)
class BattlePair:
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

    def draw(self, generator: np.random.Generator) -> BattlePair:
        """Return a pair and its sides."""
        chosen = int(generator.choice(self._wins.size, p=self.probabilities().ravel()))
        first, second = divmod(chosen, len(self._models))
        return BattlePair(self._models[first], self._models[second], bool(generator.integers(2)))


class VotedPairs:
    """Draws pairs of a store's models that are not withdrawn, from all votes up to each draw. Safe in threads."""

    def __init__(self, store: Store, models: Sequence[str], generator: np.random.Generator) -> None:
        """Register the models.

        Raises: DataError for fewer than two that are not withdrawn.
        """
        ArenaLog(store).register(models)
        withdrawn = {model.name for model in ArenaLog(store).models() if model.withdrawn_at}
        self._store, self._generator = store, generator
        self._pairing = Pairing([name for name in models if name not in withdrawn])
        self._lock = threading.Lock()
        self._seen = 0  # votes that are counted

    def draw(self) -> BattlePair:
        """Return a pair and its sides."""
        with self._lock:
            some = list(ArenaLog(self._store).votes(after=self._seen))
            self._pairing.count(some)
            self._seen = some[-1].sequence if some else self._seen
            return self._pairing.draw(self._generator)


DRAWS = 50  # pairs tried for one with a common prompt


class Arena(Ballots):
    """Battles over one source of answers, and the votes on them, in one store."""

    def __init__(
        self,
        store: Store,
        source: StoredAnswers,
        limits: VoteLimits | None = None,
        publishing: Publishing | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Register the source's models and count the votes there are. seed: of pairs and sides; None: unpredictable."""
        super().__init__(store, limits or VoteLimits(), publishing or Publishing(), clock)
        self.source = source
        self._generator = generator_for("arena", source.name, token_urlsafe() if seed is None else seed)
        self._lock = threading.Lock()
        self._pairs = VotedPairs(store, source.models, self._generator)

    def begin(self, voter: Voter) -> VoterView:
        """Return the voter's open battle, or a new one.

        Raises: Refused over a limit.
        """
        if (waiting := ArenaLog(self.store).open_battle_of(voter.voter, self.clock() - DAY)) is not None:
            return shown_battle(waiting, None)
        return self._begun(voter)

    def _begun(self, voter: Voter) -> VoterView:
        self.check(voter, is_vote=False)
        new = self._drawn(voter, self.clock())
        ArenaLog(self.store).open_battle(new)
        return VoterView(new.token, "open", new.prompt, new.answer_a, new.answer_b)

    def skip(self, voter: Voter, token: str) -> VoterView:
        """Leave a battle without a vote and return a new one; skipped ones count towards the limit of open battles.

        Raises: UnknownName; Refused over a limit; UsageError if the battle has a vote.
        """
        if self.show(voter, token).state != "open":
            raise UsageError("this battle has a vote already; begin a new one")
        waiting = ArenaLog(self.store).open_battle_of(voter.voter, self.clock() - DAY)
        if waiting is not None and waiting.token != token:  # skipped before, in another window
            return shown_battle(waiting, None)
        begun = self._begun(voter)
        ArenaLog(self.store).skip_battle(token, self.clock())
        return begun

    def _drawn(self, voter: Voter, now: float) -> BattleRow:
        sealed = self.store.seals.recogniser()  # a task may be sealed while its answers are shown
        with self._lock:
            for _ in range(DRAWS):
                pair = self._pairs.draw()
                drawn = self.source.draw(pair.first, pair.second, self._generator)
                if drawn is not None and not (sealed is not None and sealed.sources(drawn.prompt.text)):
                    break
            else:
                raise DataError(
                    f"{self.source.name}: {DRAWS} drawn pairs have no common prompt that may be shown; add answers"
                )
        answers = (drawn.second, drawn.first) if pair.is_swapped else (drawn.first, drawn.second)
        return BattleRow(
            token=token_urlsafe(24), opened_at=now, voter=voter.voter, origin=voter.origin, mode="anonymous",
            source=self.source.name, prompt_id=drawn.prompt.id, category=drawn.prompt.category,
            model_a=pair.sides[0], model_b=pair.sides[1], is_swapped=pair.is_swapped,
            prompt=drawn.prompt.text, answer_a=answers[0], answer_b=answers[1],
        )  # fmt: skip
