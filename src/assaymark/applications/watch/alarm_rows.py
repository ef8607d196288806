"""Records of alarms."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSettings:
    """What an alarm promises of each of its metrics, and where it is sent."""

    name: str
    alpha: float
    horizon: int
    bound: float | None
    is_two_sided: bool
    lower_is_better: bool
    n_baseline: int
    webhook: str | None
    allow_private: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAlarm(AlarmSettings):
    """An alarm to make. metrics: errors, latency, cost or score:NAME, which share its false alarms."""

    metrics: tuple[str, ...]
    signing_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmStream(AlarmSettings):
    """One metric of an alarm."""

    id: int
    project: int
    metric: str
    n_metrics: int
    made: float
    begins: float
    looked_until: float
    n_values: int


@dataclass(frozen=True, slots=True)
class AlarmEpoch:
    """The values of a stream from a restart on. low, high: of the baseline's mean; None while it is gathered."""

    epoch: int
    first: int
    reason: str  # made | reset | judge
    source: str | None
    rule: int | None
    rule_version: bytes | None
    low: float | None
    high: float | None
    quantile: float | None
    is_inherited: bool
    n_watched: int
    evidence: float
    state: bytes | None


class AlarmValue(NamedTuple):
    """A counted value."""

    position: int
    trace_id: bytes
    at: int
    value: float
    version: str | None


class PendingValue(NamedTuple):
    """A value that has yet to be counted. source, rule, rule_version: of a score."""

    trace_id: bytes
    at: int
    value: float
    version: str | None
    source: str | None = None
    rule: int | None = None
    rule_version: bytes | None = None


@dataclass(frozen=True, slots=True)
class AlarmEvent:
    """An alarm that was raised."""

    stream: int
    epoch: int
    id: str
    raised: float
    at: int
    trace_id: bytes
    version: str | None
    n_watched: int
    evidence: float
    threshold: float
    since: int
    n_since: int
    mean_before: float | None
    mean_after: float
    is_drop: bool
    delivered: float | None = None
    n_tries: int = 0
    not_before: float = 0.0
    failure: str | None = None
    source: str | None = None  # of the scores, as its epoch states it
