"""The records of the queue, frozen. Times are seconds since 1970 by the database's clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from assaymark.leaderboard.rows import Fact
from assaymark.records import JsonValue

STATES = ("pending", "running", "finished", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class NewSubmission:
    """The choices of a submission; once it passed its checks also who made it, and which model was found."""

    submitter: str
    board: str
    model: str
    revision: str  # commit, or hash of a folder's content; of a choice also a branch or a tag, empty for the latest
    source: str  # hub | folder | file
    content_hash: str
    precision: str
    preset: str | None = None
    weights: str = "original"  # original | adapter | delta
    base: str | None = None
    base_revision: str | None = None
    kind: str = "unknown"  # as columns.MODEL_TYPES
    facts: Mapping[str, Fact] = field(default_factory=dict)
    reported_run: str | None = None  # of results that were uploaded

    json_keys = "board revision precision preset weights base submitter"


@dataclass(frozen=True, slots=True)
class SubmissionRow:
    """A submission as it is stored."""

    id: str
    new: NewSubmission
    submitted: float
    n_votes: int
    is_withdrawn: bool
    verdict: str | None  # of `reproduce` on a worker
    is_verified: bool


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job of the queue."""

    id: str
    submission: str
    kind: str  # evaluate | reproduce
    state: str  # one of STATES
    submitter: str
    turn: int
    position: float
    created: float
    not_before: float
    epoch: int
    owner: str
    expires: float
    n_attempts: int
    started: float | None
    first_started: float | None
    ended: float | None
    fault: str | None  # infrastructure | submission | killed, while it waits for another attempt
    reason: str | None
    log_tail: str | None
    run_id: str | None
    n_done: int
    n_total: int
    stage: str

    json_keys = "id kind state attempts=n_attempts run=run_id"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a running job is."""

    n_done: int = 0
    n_total: int = 0
    stage: str = ""


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The queue in numbers. Units: mean_seconds of the last finished jobs, None before the first."""

    by_state: Mapping[str, int]
    mean_seconds: float | None
    n_working: int  # running jobs whose lease has not expired


@dataclass(frozen=True, slots=True)
class FlagRow:
    """A report on a model."""

    id: str
    model: str
    kind: str  # contamination | copy | other
    text: str
    reporter: str
    made: float
    state: str  # open | upheld | rejected
    settled_by: str | None
    settled: float | None

    json_keys = "flag=id model kind text by=reporter made state settled_by"


@dataclass(frozen=True, slots=True)
class FlagReply:
    """A reply on a flag's page."""

    writer: str
    role: str  # owner | moderator | reader
    text: str
    made: float

    json_keys = "by=writer role text made"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the log of moderation."""

    number: int
    made: float
    moderator: str
    action: str
    subject: str
    detail: Mapping[str, JsonValue]
    hash: str

    json_keys = "number made=moment by=moderator action subject detail hash"

    @property
    def moment(self) -> str:
        """When it was made, in UTC."""
        return datetime.fromtimestamp(self.made, UTC).isoformat()
