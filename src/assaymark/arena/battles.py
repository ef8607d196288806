"""Battles over stored answers: from a drawn pair to a vote.

A battle is `open` until its voter votes, and `voted` afterwards. What is shown of an open battle (`Shown`) has no
model, no source and no order of the pair; the names come with the vote. Reloading an open battle shows the same one, so
that voters cannot skip the pairs that they recognise.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_urlsafe

from assaymark.arena.answers import AnswerSource
from assaymark.arena.ballots import CHOICES, MARKS, Ballots, Publishing, Refused, Shown, Voter, shown_battle
from assaymark.arena.pairing import VotedPairs
from assaymark.arena.voters import DAY, VoteLimits
from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.store import Store
from assaymark.store.arena_rows import NewBattle

__all__ = ["CHOICES", "MARKS", "Arena", "Publishing", "Refused", "Shown", "Voter"]

DRAWS = 50  # pairs tried for one with a common prompt


@dataclass(eq=False)
class Arena:
    """Battles over one source of answers, in one store."""

    store: Store
    source: AnswerSource
    limits: VoteLimits = field(default_factory=VoteLimits)
    publishing: Publishing = field(default_factory=Publishing)
    seed: int | None = None  # of pairs and sides; None: not predictable
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        """Register the source's models and count the votes there are."""
        seed = token_urlsafe() if self.seed is None else self.seed
        self._generator = generator_for("arena", self.source.name, seed)
        self._lock = threading.Lock()
        self._pairs = VotedPairs(self.store, self.source.models, self._generator)
        self._ballots = Ballots(self.store, self.limits, self.publishing, self.clock)

    def begin(self, voter: Voter) -> Shown:
        """Return the voter's open battle, or a new one.

        Raises: Refused over a limit.
        """
        now, log = self.clock(), self.store.arena
        if (waiting := log.open_battle_of(voter.voter, now - DAY)) is not None:
            return shown_battle(waiting, None)
        self._ballots.check(voter, is_vote=False)
        new = self._drawn(voter, now)
        log.open_battle(new)
        return Shown(new.token, "open", new.prompt, new.answer_a, new.answer_b)

    def _drawn(self, voter: Voter, now: float) -> NewBattle:
        with self._lock:
            for _ in range(DRAWS):
                pair = self._pairs.draw()
                drawn = self.source.draw(pair.first, pair.second, self._generator)
                if drawn is not None:
                    break
            else:
                raise DataError(f"{self.source.name}: {DRAWS} drawn pairs have no common prompt; add answers")
        answers = (drawn.second, drawn.first) if pair.is_swapped else (drawn.first, drawn.second)
        return NewBattle(
            token=token_urlsafe(24), opened_at=now, voter=voter.voter, origin=voter.origin, mode="anonymous",
            source=self.source.name, prompt_id=drawn.prompt.id, category=drawn.prompt.category,
            model_a=pair.sides[0], model_b=pair.sides[1], is_swapped=pair.is_swapped,
            prompt=drawn.prompt.text, answer_a=answers[0], answer_b=answers[1],
        )  # fmt: skip

    def show(self, voter: Voter, token: str) -> Shown:
        """Return a battle of this voter; as `Ballots.show`."""
        return self._ballots.show(voter, token)

    def vote(
        self,
        voter: Voter,
        token: str,
        choice: str,
        key: str,
        marks: tuple[str | None, str | None] = (None, None),
    ) -> Shown:
        """Store the voter's vote on his battle, and return the battle with the names; as `Ballots.vote`."""
        return self._ballots.vote(voter, token, choice, key, marks)

    def publish_due(self, now: float) -> None:
        """Publish the votes so far if a batch is due; as `Ballots.publish_due`."""
        self._ballots.publish_due(now)
