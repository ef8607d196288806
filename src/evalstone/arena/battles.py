"""Battles: from a drawn pair to a vote.

A battle is `open` until its voter votes, and `voted` afterwards. What is shown of an open battle (`Shown`) has no
model, no source and no order of the pair; the names come with the vote. Reloading an open battle shows the same one, so
that voters cannot skip the pairs that they recognise.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_urlsafe

from evalstone.arena.answers import AnswerSource
from evalstone.arena.pairing import Pairing
from evalstone.arena.voters import DAY, VoteLimits, refusal
from evalstone.errors import DataError, UnknownName, UsageError
from evalstone.randomness import generator_for
from evalstone.store import Store
from evalstone.store.arena_rows import BattleRow, NewBattle, NewVote, VoteRow

__all__ = ["CHOICES", "MARKS", "Arena", "Publishing", "Refused", "Shown", "Voter"]

CHOICES = ("a", "b", "tie", "both_bad")
MARKS = ("acceptable", "poor")
DRAWS = 50  # pairs tried for one with a common prompt


class Refused(UsageError):
    """A vote or battle that a limit does not allow now."""


@dataclass(frozen=True, slots=True)
class Voter:
    """Keyed hashes of a visitor and of his network address."""

    voter: str
    origin: str


@dataclass(frozen=True, slots=True)
class Publishing:
    """When votes become visible in ratings: after so many, or so many seconds if there are at least a few."""

    votes: int = 50
    seconds: float = 600.0
    fewest: int = 10  # new votes in a batch


@dataclass(frozen=True, slots=True)
class Shown:
    """What a voter sees of a battle. `models` and `choice` are None while it is open."""

    token: str
    state: str  # open | voted
    prompt: str | None
    answer_a: str | None
    answer_b: str | None
    models: tuple[str, str] | None = None
    choice: str | None = None
    marks: tuple[str | None, str | None] | None = None


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
        self.store.arena.register(self.source.models)
        withdrawn = {one.name for one in self.store.arena.models() if one.withdrawn_at}
        self._lock = threading.Lock()
        self._pairing = Pairing([name for name in self.source.models if name not in withdrawn])
        self._seen = 0  # votes that the pairing has counted
        seed = token_urlsafe() if self.seed is None else self.seed
        self._generator = generator_for("arena", self.source.name, seed)

    def begin(self, voter: Voter) -> Shown:
        """Return the voter's open battle, or a new one.

        Raises: Refused over a limit.
        """
        now, log = self.clock(), self.store.arena
        if (waiting := log.open_battle_of(voter.voter, now - DAY)) is not None:
            return _shown(waiting, None)
        activity = log.activity(voter.voter, voter.origin, now - DAY)
        if (reason := refusal((*activity[:3], None), self.limits, now)) is not None:
            raise Refused(reason)
        new = self._drawn(voter, now)
        log.open_battle(new)
        return Shown(new.token, "open", new.prompt, new.answer_a, new.answer_b)

    def _drawn(self, voter: Voter, now: float) -> NewBattle:
        with self._lock:
            some = list(self.store.arena.votes(after=self._seen))
            self._pairing.count(some)
            self._seen = some[-1].sequence if some else self._seen
            for _ in range(DRAWS):
                pair = self._pairing.draw(self._generator)
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
        """Return a battle of this voter.

        Raises: UnknownName if there is none with this token, or it is another voter's.
        """
        return _shown(self._own(voter, token), self.store.arena.vote_of(token))

    def vote(
        self,
        voter: Voter,
        token: str,
        choice: str,
        key: str,
        marks: tuple[str | None, str | None] = (None, None),
    ) -> Shown:
        """Store the voter's vote on his battle, and return the battle with the models' names.

        Args:
            voter: who votes.
            token: of the battle.
            choice: one of CHOICES.
            key: the idempotency key: sending the same vote again with the same key changes nothing.
            marks: one of MARKS or None, of answer A and of answer B.

        Raises: UnknownName; UsageError for another choice; AlreadyVoted for another vote on the battle; Refused over a
            limit.
        """
        if choice not in CHOICES or any(mark not in {None, *MARKS} for mark in marks):
            raise UsageError(f"'{choice}' with marks {marks} is not a vote; expected {', '.join(CHOICES)}")
        if not 1 <= len(key) <= 64:
            raise UsageError("the idempotency key has no characters or more than 64; expected 1 to 64")
        battle, now, log = self._own(voter, token), self.clock(), self.store.arena
        if log.vote_of(token) is None:
            activity = log.activity(voter.voter, voter.origin, now - DAY)
            if (reason := refusal(activity, self.limits, now)) is not None:
                raise Refused(reason)
        stored = log.append(NewVote(token, key, now, choice, *marks, is_counted=battle.mode == "anonymous"))
        self.publish_due(now)
        return _shown(battle, stored)

    def publish_due(self, now: float) -> None:
        """Publish the votes so far if a batch is due, so that no single vote is seen in the ratings."""
        log = self.store.arena
        head, last = log.head().sequence, log.last_batch()
        n_new = head - (last.sequence if last else 0)
        is_late = last is not None and now - last.published_at >= self.publishing.seconds
        if n_new >= self.publishing.votes or (is_late and n_new >= self.publishing.fewest):
            log.publish(head, now)

    def _own(self, voter: Voter, token: str) -> BattleRow:
        found = self.store.arena.battle(token)
        if found is None or found.voter != voter.voter:
            raise UnknownName("battle", token[:20], remedy="a battle can be seen by its voter only; begin a new one")
        return found


def _shown(battle: BattleRow, vote: VoteRow | None) -> Shown:
    seen = Shown(battle.token, "open", battle.prompt, battle.answer_a, battle.answer_b)
    if vote is None:
        return seen
    return Shown(
        *(seen.token, "voted", seen.prompt, seen.answer_a, seen.answer_b),
        models=(battle.model_a, battle.model_b),
        choice=vote.choice,
        marks=(vote.mark_a, vote.mark_b),
    )
