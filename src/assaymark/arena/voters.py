"""Voters: keyed hashes instead of names and addresses, limits on votes, and detection of dishonest voters.

Voters who ignore the answers are found by a sequential test of each voter's votes.

Each vote multiplies the evidence against a voter by q'(vote) / q(vote): q is the probability of his vote if he votes as
all others do, q' that of a voter who clicks at random, always clicks the same button, or always favours one model. If q
is right, the mean of these products over the alternatives is a test martingale, so that with probability 1 - α an
honest voter never reaches 1 / α, however long he votes and whenever one looks (Ville's inequality). Real voters differ
in taste, so q is not exactly right, and the rates of true and false positives are measured by simulation
(`benchmarks/arena_votes.py`).

Two answers are shown at the same cadence, which hides the speed of a model and the size of its chunks.

At each tick both sides advance by the same number of characters. The first tick waits until both have some text in
reserve. If one side runs out of text before its answer is complete, both sides wait until both answers are complete, so
that stalls cannot be assigned to a model. If a model is slower than the cadence, a voter can measure when the later
answer was complete, but not whose it was.
"""

import hashlib
import hmac
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from assaymark.arena.arena_rows import Activity, VoteRow
from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.battles import penalised_strengths


@dataclass(frozen=True, slots=True)
class Cadence:
    """How fast both sides are shown. Units: seconds; characters."""

    tick_seconds: float = 0.1
    chunk: int = 12  # characters of each side at each tick
    reserve: int = 60  # characters that both sides have before the first tick
    start_seconds: float = 1.0  # before the first tick, so that the times of quick answers are equal

    @classmethod
    def of(cls, characters_per_second: float) -> "Cadence":
        """Return the cadence with so many characters per second, in ten ticks."""
        chunk = max(1, round(characters_per_second / 10))
        return cls(chunk / characters_per_second, chunk, 5 * chunk)


@dataclass(eq=False)
class Release:
    """Two answers that arrive, and how many characters of each are shown."""

    cadence: Cadence = field(default_factory=Cadence)
    position: int = 0  # characters shown of each side, as far as it has them
    has_failed: bool = False
    _texts: list[str] = field(default_factory=lambda: ["", ""])
    _ended: list[bool] = field(default_factory=lambda: [False, False])
    _waits: bool = False  # until both are complete

    def put(self, side: int, text: str) -> None:
        """Add text that a model wrote: side 0 is A, 1 is B."""
        self._texts[side] += text

    def end(self, side: int) -> None:
        """Mark an answer as complete."""
        self._ended[side] = True

    def tick(self) -> None:
        """Advance both sides by one chunk, or neither."""
        is_complete = all(self._ended)
        need = self.cadence.reserve if self.position == 0 else self.position + self.cadence.chunk
        has_enough = all(self._ended[side] or len(self._texts[side]) >= need for side in (0, 1))
        if is_complete or (has_enough and not self._waits):
            self.position += self.cadence.chunk
        elif self.position:
            self._waits = True

    def shown(self, since: int = 0) -> tuple[str, str]:
        """Return the text of both sides that is shown, from a position on."""
        return self._texts[0][since : self.position], self._texts[1][since : self.position]

    @property
    def answers(self) -> tuple[str, str]:
        """Both answers as far as they have arrived, without spaces around them."""
        return self._texts[0].strip(), self._texts[1].strip()

    @property
    def is_over(self) -> bool:
        """Whether both answers are shown completely, or one has failed."""
        longest = max(map(len, self._texts))
        return self.has_failed or (all(self._ended) and self.position >= longest)


FALSE_POSITIVES = 0.01
"""α: the share of honest voters that the test may flag."""

FEWEST = 5  # votes before a voter can be flagged
_STUCK = 0.9  # probability with which an alternative voter clicks his button
_LEAST = 0.02  # probability of any choice: bounds the evidence of one vote


@dataclass(frozen=True, slots=True)
class Flag:
    """A voter whose votes are left out of ratings."""

    voter: str
    n_votes: int
    evidence: float  # the largest value that the martingale reached
    reason: str  # the alternative that explains the votes best


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """How all voters vote: strengths of models, and shares of ties and both-bad."""

    numbers: Mapping[str, int]
    strengths: Floats
    tie: float
    both_bad: float

    def choice(self, vote: VoteRow) -> dict[str, float]:
        """Return the probability of each choice for a battle."""
        a, b = (self.strengths[self.numbers[name]] for name in (vote.model_a, vote.model_b))
        win = 1.0 / (1.0 + math.exp(b - a))
        decided = 1.0 - self.tie - self.both_bad
        raw = {"a": decided * win, "b": decided * (1 - win), "tie": self.tie, "both_bad": self.both_bad}
        bounded = {name: max(value, _LEAST) for name, value in raw.items()}
        total = sum(bounded.values())
        return {name: value / total for name, value in bounded.items()}


def expected_votes(votes: Sequence[VoteRow]) -> Expected:
    """Return how voters vote on average, with a prior that keeps every probability above 0."""
    models = sorted({name for vote in votes for name in (vote.model_a, vote.model_b)})
    numbers = {name: number for number, name in enumerate(models)}
    wins = np.zeros((len(models), len(models)))
    for vote in votes:
        a, b = numbers[vote.model_a], numbers[vote.model_b]
        won = {"a": 1.0, "b": 0.0}.get(vote.choice)
        if won is not None:
            wins[a, b] += won
            wins[b, a] += 1.0 - won
    n = len(votes) + 8
    tie, both_bad = ((sum(vote.choice == kind for vote in votes) + 1) / n for kind in ("tie", "both_bad"))
    return Expected(numbers, penalised_strengths(wins).strengths, tie, both_bad)


def flagged_voters(votes: Sequence[VoteRow], alpha: float = FALSE_POSITIVES) -> dict[str, Flag]:
    """Return the voters whose evidence reached 1 / alpha, by voter. A pure function of the votes.

    Args:
        votes: in the order in which they were cast.
        alpha: the largest probability of flagging a voter who votes as the others do.
    """
    expected = expected_votes(votes)
    by_voter: dict[str, list[VoteRow]] = {}
    for vote in votes:
        by_voter.setdefault(vote.voter, []).append(vote)
    flags = {}
    for voter, own in by_voter.items():
        if len(own) >= FEWEST:
            flag = _tested(voter, own, expected)
            if flag.evidence >= 1.0 / alpha:
                flags[voter] = flag
    return flags


def _tested(voter: str, votes: Sequence[VoteRow], expected: Expected) -> Flag:
    """Return a voter's largest evidence, and the alternative with the largest likelihood."""
    met = sorted({name for vote in votes for name in (vote.model_a, vote.model_b)})
    clicks = ("votes at random", "always left", "always right", "always tie", "always both bad")
    favours = tuple(f"favours {name}" for name in met)
    weights = [0.5 / len(clicks)] * len(clicks) + [0.5 / len(favours)] * len(favours)
    logs = np.log(weights)
    largest = -math.inf
    for count, vote in enumerate(votes, start=1):
        q = expected.choice(vote)
        own = [_clicks(name, vote.choice) for name in clicks] + [_favours(name, vote, q) for name in met]
        logs = logs + np.log(own) - math.log(q[vote.choice])
        if count >= FEWEST:
            largest = max(largest, float(np.logaddexp.reduce(logs)))
    return Flag(voter, len(votes), math.exp(min(largest, 700.0)), (*clicks, *favours)[int(np.argmax(logs))])


def _clicks(name: str, choice: str) -> float:
    """Return the probability of a choice by a voter who does not read; one at random clicks left or right."""
    if name == "votes at random":
        return 0.45 if choice in {"a", "b"} else 0.05
    stuck = {"always left": "a", "always right": "b", "always tie": "tie", "always both bad": "both_bad"}[name]
    return _STUCK if choice == stuck else (1.0 - _STUCK) / 3


def _favours(model: str, vote: VoteRow, q: Mapping[str, float]) -> float:
    """Return the probability of a vote by a voter who prefers one model wherever it appears."""
    if model not in {vote.model_a, vote.model_b}:
        return q[vote.choice]
    side = "a" if vote.model_a == model else "b"
    return _STUCK if vote.choice == side else (1.0 - _STUCK) / 3


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
        secret: the server's secret.
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
    if is_vote and last is not None and now - last < limits.cooldown_seconds:
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
