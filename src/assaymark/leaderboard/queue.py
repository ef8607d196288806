"""The queue as readers see it: waiting, running and ended jobs, causes of failures, and expected times.

Also the facts of the queue and of moderators about stored runs: names of models, flags, withdrawals.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assaymark.leaderboard.rows import Fact
from assaymark.leaderboard.submission.moderation import Moderation
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobRow, QueueCounts, SubmissionRow
from assaymark.limits.shown_paths import without_folders
from assaymark.store import Store

UPLOADED = "uploaded"  # the command of runs of uploaded results; without a submission they are not shown

MOST_FLAGS = 100_000  # that are read; the latest
FACTS = ("licence", "architecture", "merged", "moe", "params", "precision")


@dataclass(frozen=True, slots=True)
class RunMark:
    """Facts about a run that are stored outside of it."""

    name: str  # of the model, as it stands now
    submission: str
    is_hidden: bool = False  # withdrawn, or replaced by the run that verified it
    note: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Marks:
    """All these facts, and a version that changes with them."""

    version: str = ""
    runs: Mapping[str, RunMark] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # earlier name -> present one
    flagged: frozenset[str] = frozenset()  # models with a report that a moderator upheld
    n_reports: Mapping[str, int] = field(default_factory=dict)  # open reports of readers, by model


def read_marks(store: Store, known: Marks) -> Marks:
    """Return the marks of a store as it is now; `known` if nothing has changed since."""
    version = SubmissionQueue(store).version()
    if version == known.version:
        return known
    names = Moderation(store).names()
    marks: dict[str, RunMark] = {}
    for row, run_id in SubmissionQueue(store).with_results():
        if isinstance(row, str):  # one damaged row must not take the others' pages with it
            note = f"the row of submission {row} is not as it was saved; `assaymark verify` lists what is damaged"
            marks[run_id] = RunMark(f"damaged submission {row}", row, note=note)
            continue
        is_reported = run_id == row.new.reported_run
        facts: dict[str, Fact] = {key: row.new.facts[key] for key in FACTS if key in row.new.facts}
        facts |= {"type": row.new.kind, "weight": row.new.weights}
        if row.new.base:
            facts["base"] = names.get(row.new.base, row.new.base)
        marks[run_id] = RunMark(
            name=names.get(row.new.model, row.new.model),
            submission=row.id,
            is_hidden=row.is_withdrawn or (is_reported and row.is_verified),
            note=(row.verdict or "") if is_reported else "",
            facts=facts,
        )
    flags = Moderation(store).flags(limit=MOST_FLAGS)
    flagged = frozenset(names.get(flag_row.model, flag_row.model) for flag_row in flags if flag_row.state == "upheld")
    n_reports = Counter(names.get(flag_row.model, flag_row.model) for flag_row in flags if flag_row.state == "open")
    return Marks(version, marks, names, flagged, dict(n_reports))


LISTED = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """A job with its submission. `wait_seconds` is an estimate, None if unknown or if the job does not wait."""

    job: JobRow
    submission: SubmissionRow
    name: str  # of the model, as it stands now
    n_ahead: int | None = None
    wait_seconds: float | None = None

    json_keys = (
        "submission=submission.id model=name *submission.new submitted=submission.submitted votes=submission.n_votes "
        "withdrawn=submission.is_withdrawn state=job.state stage=job.stage done=share ahead=n_ahead wait_seconds "
        "fault=job.fault reason log explanation~ run=job.run_id verified=submission.is_verified "
        "verdict=submission.verdict"
    )

    @property
    def reason(self) -> str | None:
        """Why it failed, without folders of this machine."""
        return without_folders(self.job.reason) if self.job.reason else None

    @property
    def log(self) -> str | None:
        """The end of its log, without folders of this machine."""
        return without_folders(self.job.log_tail) if self.job.log_tail else None

    @property
    def share(self) -> float | None:
        """The completed share of a running job, in [0, 1]; None if not known."""
        return self.job.n_done / self.job.n_total if self.job.n_total else None

    @property
    def explanation(self) -> str:
        """The meaning of the state for the submitter, in one sentence; empty if the state needs none."""
        job = self.job
        if job.state == "failed" and job.fault == "submission":
            return "The model could not be evaluated as it was submitted. Correct it and submit the new revision."
        if job.state == "failed":
            return "This was a fault of the evaluation, not of the model; moderators can start it again."
        if job.state == "pending" and job.fault == "killed":
            return "An attempt was ended: it crashed, or used more than a job may. It is tried once more by itself."
        if job.state == "pending" and job.reason:
            return "An attempt failed through a fault of the infrastructure; it is tried again by itself."
        if job.state == "cancelled":
            return "It was cancelled or withdrawn; it can be submitted again."
        return ""


@dataclass(frozen=True, slots=True)
class Overview:
    """The queue: its numbers, and its latest entries by state."""

    counts: QueueCounts
    pending: tuple[Entry, ...]
    running: tuple[Entry, ...]
    failed: tuple[Entry, ...]
    finished: tuple[Entry, ...]


def expected_seconds(counts: QueueCounts, n_ahead: int) -> float | None:
    """Return the expected seconds until a job with `n_ahead` jobs before it has ended; None if unknown.

    It is the mean duration of the last finished jobs, times the jobs up to this one, over the active workers.
    """
    if counts.mean_seconds is None:
        return None
    return counts.mean_seconds * (n_ahead + 1 + counts.by_state["running"]) / max(1, counts.n_working)


def overview(store: Store) -> Overview:
    """Return the queue as it is now."""
    queue = SubmissionQueue(store)
    counts = queue.counts()
    names = Moderation(store).names()
    by_state = {state: queue.jobs_in(state, limit=LISTED) for state in ("pending", "running", "failed", "finished")}
    submissions = queue.submissions_of([job for jobs in by_state.values() for job in jobs])

    def entries(state: str) -> tuple[Entry, ...]:
        listed = []
        for at, job in enumerate(by_state[state]):
            row = submissions[job.submission]
            waits = state == "pending"
            listed.append(
                Entry(
                    job,
                    row,
                    names.get(row.new.model, row.new.model),
                    at if waits else None,
                    expected_seconds(counts, at) if waits else None,
                )
            )
        return tuple(listed)

    return Overview(counts, entries("pending"), entries("running"), entries("failed"), entries("finished"))


def entry_of(store: Store, submission: SubmissionRow, jobs: Sequence[JobRow]) -> Entry:
    """Return a submission with the latest of its jobs."""
    job = jobs[-1]
    name = Moderation(store).names().get(submission.new.model, submission.new.model)
    if job.state != "pending":
        return Entry(job, submission, name)
    n_ahead = SubmissionQueue(store).n_ahead(job)
    return Entry(job, submission, name, n_ahead, expected_seconds(SubmissionQueue(store).counts(), n_ahead))
