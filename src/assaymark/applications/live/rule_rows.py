"""Records of rules, and of the traces that they draw."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from assaymark.applications.traces.trace_rows import TraceFilter, TraceScore


def draw_of(trace_id: bytes, score: str) -> float:
    """Return the number in [0, 1) by which a trace is drawn: a rule of rate r scores the traces below r.

    It depends on the trace and the scorer's name alone, so the traces of a lower rate are a subset of those of a higher
    rate, and scorers of different names draw independently.
    """
    digest = hashlib.sha256(f"{trace_id.hex()}{score}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56  # 56 bits, which a float holds exactly


class Completeness(NamedTuple):
    """When a trace counts as complete. Units: seconds since its last span arrived.

    quiet_s: if its root has ended; longest_s: if it has not, or has not arrived.
    """

    quiet_s: float = 30.0
    longest_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRule:
    """A rule to store: which of a project's traces are scored, and by which scorer.

    filter: in the syntax of the list of traces; score: the scorer's name; version: a hash of scorer and judge; begins:
    seconds since 1970; scale: of the scores, as the scorer declares it, None: not known.
    """

    name: str
    filter: str
    rate: float
    scorer: str
    score: str
    judge: str | None
    judge_args: str | None
    version: bytes
    begins: float
    scale: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(NewRule):
    """A stored rule. state: active | paused | removed."""

    id: int
    project: int
    state: str
    made: float
    ended_until: float
    open_until: float

    json_keys = "name state filter rate scorer score judge judge_args version"


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Numbers of a rule's drawn traces by state."""

    waiting: int = 0
    running: int = 0
    scored: int = 0
    empty: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class DrawnTrace:
    """A drawn trace that a worker holds. seen: `received` of the state that is scored; epoch: of the claim."""

    rule: int
    project: int
    trace_id: bytes
    rate: float
    seen: float
    n_tries: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ScoringOutcome:
    """The outcome of a drawn trace. reason: why it failed, None if it did not; no scores: it was not scored."""

    drawn: DrawnTrace
    scores: tuple[TraceScore, ...] = ()
    reason: str | None = None
    may_retry: bool = True


class WeightedScore(NamedTuple):
    """A score for estimates. value: None if it failed; rate: None if no rule drew the trace."""

    name: str
    source: str
    version: str | None  # of the application
    rule_version: bytes | None
    value: float | None
    label: str | None
    rate: float | None
    is_failed: bool
    is_stale: bool
    session: str | None  # of its trace: scores of one session may depend on each other
    trace_id: bytes | None


def filter_is_live(wanted: TraceFilter) -> bool:
    """Return whether a filter can be decided when a trace is complete: it has no words, times or scores."""
    return (wanted.text, wanted.score, wanted.since, wanted.until, wanted.before) == (None,) * 5
