"""The records of the arena's tables."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of a voter and his network in a period; times in seconds since 1970, None without a vote."""

    votes_of_voter: int
    votes_of_origin: int
    battles_of_origin: int
    last_of_voter: float | None
    last_of_origin: float | None


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A registered model. Times: ISO, UTC."""

    number: int
    name: str
    added_at: str
    withdrawn_at: str | None


@dataclass(frozen=True, slots=True)
class BattleRow:
    """A battle; the texts are None once erased. Units: opened_at in seconds since 1970."""

    token: str
    opened_at: float
    voter: str
    origin: str
    mode: str  # anonymous | named
    source: str
    prompt_id: str
    category: str | None
    model_a: str
    model_b: str
    is_swapped: bool
    prompt: str | None
    answer_a: str | None
    answer_b: str | None
    is_private: bool = False  # of a new one, whose prompt a voter wrote: its texts are stored for it alone


@dataclass(frozen=True, slots=True)
class NewVote:
    """A vote to append. Units: cast_at in seconds since 1970."""

    battle: str  # token
    idempotency_key: str
    cast_at: float
    choice: str  # a | b | tie | both_bad
    mark_a: str | None = None  # acceptable | poor
    mark_b: str | None = None
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class VoteRow:
    """A vote with the facts of its battle: all that the chain covers, and its hash. Commitments and hash are hex."""

    sequence: int
    battle: str
    opened_at: float
    cast_at: float
    voter: str
    mode: str
    source: str
    prompt_id: str
    category: str | None
    model_a: str
    model_b: str
    is_swapped: bool
    choice: str
    mark_a: str | None
    mark_b: str | None
    is_counted: bool
    prompt_commitment: str
    answer_a_commitment: str
    answer_b_commitment: str
    hash: str


@dataclass(frozen=True, slots=True)
class LogHead:
    """The end of the log: the number of votes and the hash of the last one, in hex."""

    sequence: int
    hash: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Votes up to `sequence` that were published at once. Units: published_at in seconds since 1970."""

    sequence: int
    hash: str
    published_at: float
