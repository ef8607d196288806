"""Votes on battles: who may vote now, the one vote of a battle, and when ratings are published.

Voters are keyed hashes in place of names and addresses.
"""

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.arena_rows import Activity, BattleRow, NewVote, VoteRow
from assaymark.errors import UnknownName, UsageError
from assaymark.store import Store

CHOICES = ("a", "b", "tie", "both_bad")
MARKS = ("acceptable", "poor")
DAY = 86_400.0  # seconds


@dataclass(frozen=True, slots=True)
class VoteLimits:
    """How often one voter, and one network address, may vote. Units: seconds; counts per day."""

    cooldown_seconds: float = 5.0  # between two votes of a voter
    votes_per_voter: int = 100
    votes_per_address: int = 1000
    battles_per_address: int = 3000
    unvoted_per_address: int = 100  # battles of a network, in a day, on which nobody voted

    def __post_init__(self) -> None:
        """Refuse limits under which nobody could vote."""
        if self.cooldown_seconds < 0 or min(self.votes_per_voter, self.votes_per_address, self.battles_per_address) < 1:
            raise UsageError(
                f"a pause of {self.cooldown_seconds:g} seconds with {self.votes_per_voter} votes of a voter and "
                f"{self.votes_per_address} of a network in a day allows no vote; expected 0 seconds or more and counts "
                "from 1"
            )


def keyed_hash(secret: bytes, kind: str, value: str) -> str:
    """Return HMAC-SHA-256 of a value as 32 hex digits: equal values give equal hashes, and none can be reversed.

    Args:
        kind: `voter` or `origin`, so that hashes of different kinds never agree.
        value: the visitor's random number, or the network part of an address.
    """
    return hmac.new(secret, f"{kind}\x1f{value}".encode(), hashlib.sha256).hexdigest()[:32]


def refusal(activity: Activity, limits: VoteLimits, now: float, *, is_vote: bool) -> str | None:
    """Return why a voter may not vote now, or begin a battle; None if allowed.

    Args:
        activity: of the voter and of his network in the last day.
        limits: on them.
        now: seconds since 1970.
        is_vote: whether it is a vote; votes have a pause between them. A voter without a vote today waits for the pause
            after the last vote of his network, so that a new cookie cannot vote sooner than the former one.
    """
    last = activity.last_of_voter if activity.votes_of_voter else activity.last_of_origin
    if is_vote and last is not None and 0 <= now - last < limits.cooldown_seconds:  # before 0 the clock was set back
        wait = limits.cooldown_seconds - (now - last)
        whose = "last vote" if activity.votes_of_voter else "last vote of your network"
        return f"the {whose} was less than {limits.cooldown_seconds:g} seconds ago; try again in {wait:.0f} seconds"
    if activity.votes_of_voter >= limits.votes_per_voter:
        return f"a voter has {limits.votes_per_voter:,} votes a day; come back tomorrow"
    n_unvoted = activity.battles_of_origin - activity.votes_of_origin
    if not is_vote and n_unvoted >= limits.unvoted_per_address:
        return f"{n_unvoted:,} battles of this network have no vote; vote on one that is open, or come back tomorrow"
    if activity.votes_of_origin >= limits.votes_per_address or activity.battles_of_origin >= limits.battles_per_address:
        return "too many votes came from this network today; come back tomorrow"
    return None


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
class VoterView:
    """A battle as its voter sees it. `models` and `choice` are None while it is open."""

    token: str
    state: str  # open | voted
    prompt: str | None
    answer_a: str | None
    answer_b: str | None
    models: tuple[str, str] | None = None
    choice: str | None = None
    marks: tuple[str | None, str | None] | None = None
    is_counted: bool | None = None  # of the vote


@dataclass(eq=False)
class Ballots:
    """The votes of one store. `clock`: seconds since 1970."""

    store: Store
    limits: VoteLimits = field(default_factory=VoteLimits)
    publishing: Publishing = field(default_factory=Publishing)
    clock: Callable[[], float] = time.time

    def check(self, voter: Voter, *, is_vote: bool) -> None:
        """Raises: Refused if a limit does not allow the voter a vote now, or a battle that he could vote on later."""
        now = self.clock()
        activity = ArenaLog(self.store).activity(voter.voter, voter.origin, now - DAY)
        if (reason := refusal(activity, self.limits, now, is_vote=is_vote)) is not None:
            raise Refused(reason)

    def show(self, voter: Voter, token: str) -> VoterView:
        """Return a battle of this voter.

        Raises: UnknownName if there is none with this token, or it is another voter's.
        """
        return shown_battle(self._own(voter, token), ArenaLog(self.store).vote_of(token))

    def vote(
        self,
        voter: Voter,
        token: str,
        choice: str,
        key: str,
        marks: tuple[str | None, str | None] = (None, None),
        *,
        is_counted: bool = True,
    ) -> VoterView:
        """Store the voter's vote on his battle, and return the battle with the models' names.

        Args:
            choice: one of CHOICES.
            key: the idempotency key: sending the same vote again with the same key changes nothing.
            marks: one of MARKS or None, of answer A and of answer B.
            is_counted: False: stored, and left out of ratings, as all votes of the named mode are.

        Raises: UnknownName; UsageError for another choice; AlreadyVoted for another vote on the battle; Refused over a
            limit.
        """
        check_vote(choice, key, marks)
        battle, now, log = self._own(voter, token), self.clock(), ArenaLog(self.store)
        if log.vote_of(token) is None:
            self.check(voter, is_vote=True)
        counts = is_counted and battle.mode == "anonymous"
        stored = log.append(NewVote(token, key, now, choice, *marks, is_counted=counts))
        self.publish_due(now)
        return shown_battle(battle, stored)

    def publish_due(self, now: float) -> None:
        """Publish the votes so far if a batch is due, so that no single vote is seen in the ratings."""
        log = ArenaLog(self.store)
        head, last = log.head().sequence, log.last_batch()
        n_new = head - (last.sequence if last else 0)
        is_late = last is not None and now - last.published_at >= self.publishing.seconds
        if n_new >= self.publishing.votes or (is_late and n_new >= self.publishing.fewest):
            log.publish(head, now)

    def _own(self, voter: Voter, token: str) -> BattleRow:
        battle_row = ArenaLog(self.store).battle(token)
        if battle_row is None or battle_row.voter != voter.voter:
            raise UnknownName(
                "battle",
                token[:20],
                remedy="a battle can be seen by its voter only, and a live "
                "one without a vote ends when the server restarts; begin a new one",
            )
        return battle_row


def check_vote(choice: str, key: str, marks: tuple[str | None, str | None]) -> None:
    """Raises: UsageError for anything that is not a vote."""
    if choice not in CHOICES:
        raise UsageError(f"'{choice:.40}' is not a vote; expected {', '.join(CHOICES)}")
    if (mark := next((mark for mark in marks if mark not in {None, *MARKS}), None)) is not None:
        raise UsageError(f"'{mark:.40}' is not a mark of an answer; expected {', '.join(MARKS)}")
    if not 1 <= len(key) <= 64:
        raise UsageError("the idempotency key has no characters or more than 64; expected 1 to 64")


def shown_battle(battle: BattleRow, vote: VoteRow | None) -> VoterView:
    """Return a stored battle as its voter sees it."""
    seen = VoterView(battle.token, "open", battle.prompt, battle.answer_a, battle.answer_b)
    if vote is None:
        return seen
    return VoterView(
        *(seen.token, "voted", seen.prompt, seen.answer_a, seen.answer_b),
        models=(battle.model_a, battle.model_b),
        choice=vote.choice,
        marks=(vote.mark_a, vote.mark_b),
        is_counted=vote.is_counted,
    )
