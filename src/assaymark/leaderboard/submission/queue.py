"""The queue of submissions, in the store.

The order of work is start-time fair queuing over submitters, moved forward by votes. A new job's *turn* is the round
that the queue has reached, or one after the last job of the same submitter: whoever submits a hundred models gets a
hundred turns, and another submitter's first job is in the present round. Votes move a job forward by log2(1 + votes)
turns, at most `MOST_ADVANCE`. So a job waits at most for the jobs with a turn no later than its own plus MOST_ADVANCE,
at most one per submitter and turn: no job waits for ever, whatever others submit or vote.
Source: Goyal, Vin, Cheng, Start-time Fair Queuing, SIGCOMM 1996 (unit packets, equal weights).
"""

import json
import math
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields

from sqlalchemy import ColumnElement, Connection, and_, func, insert, select, update

from assaymark.errors import HashMismatch, LeaseLost, UnknownName, UsageError
from assaymark.leaderboard.submission.queue_rows import (
    STATES,
    JobProgress,
    JobRow,
    NewSubmission,
    QueueCounts,
    SubmissionRow,
)
from assaymark.leaderboard.submission.tables import flags, jobs, models_seen, moderation, queue_votes, submissions
from assaymark.records import content_hash
from assaymark.store.claims import Claims
from assaymark.store.feature_tables import FeatureLog
from assaymark.store.leases import clock_of, now
from assaymark.store.schema import StoredRow, as_saved, is_as_saved, with_checksum

MOST_ADVANCE = 5.0  # turns, by votes
# attempts of jobs that fail by a fault of the infrastructure, or whose workers die
CLAIMS = Claims(jobs, "pending", "n_attempts", most_tries=4, retry_seconds=60.0)
RECENT = 50  # finished jobs whose mean duration is used
_NEW = tuple(field.name for field in fields(NewSubmission))


class SubmissionQueue(FeatureLog):
    """Submissions and their jobs. May be used by several threads and processes."""

    # ------------------------------------------------------------------------------------- submitting

    def submit(self, new: NewSubmission, *, kind: str = "evaluate", at_most: tuple[int, float] | None = None) -> str:
        """Store a submission with its job and its submitter's own vote; return its id.

        Args:
            kind: of its job, evaluate or reproduce.
            at_most: how many submissions the submitter may make in how many seconds; None: any number.

        Raises: UsageError if the same content is waiting, running or finished in this setup, or there were too many.
        """
        key = content_hash([new.content_hash, new.precision, new.preset, new.weights, new.base_revision, new.board])
        submission = secrets.token_hex(6)
        with self._database.writing(locked=True) as connection:  # turns and limits are counted, then used
            at = now(connection)
            self._refuse_too_many(connection, new.submitter, at, at_most)
            earlier = connection.execute(
                select(submissions.c.id, submissions.c.model).where(submissions.c.duplicate_key == key)
            ).one_or_none()
            if earlier is not None:
                raise UsageError(
                    f"the same model was submitted as '{earlier.model}' in this setup (submission {earlier.id}); "
                    "follow that one, or choose another precision or prompt preset"
                )
            row = {**asdict(new), "facts": json.dumps(dict(new.facts)), "id": submission, "submitted": at}
            row |= {"duplicate_key": key, "n_votes": 1, "is_withdrawn": 0, "verdict": None, "is_verified": 0}
            connection.execute(insert(submissions), with_checksum(submissions, row))
            vote = {"submission": submission, "voter": new.submitter, "made": at}
            connection.execute(insert(queue_votes), vote)
            here = (models_seen.c.model == new.model) & (models_seen.c.revision == new.revision)
            if connection.execute(select(models_seen.c.model).where(here)).first() is None:
                row = {"model": new.model, "revision": new.revision, "content_hash": new.content_hash, "seen": at}
                connection.execute(insert(models_seen), {**row, "facts": json.dumps(dict(new.facts))})
            self._add_job(connection, submission, new.submitter, kind, at)
        return submission

    @staticmethod
    def _refuse_too_many(connection: Connection, submitter: str, at: float, at_most: tuple[int, float] | None) -> None:
        if at_most is None:
            return
        most, seconds = at_most
        recent = (submissions.c.submitter == submitter) & (submissions.c.submitted > at - seconds)
        times = sorted(connection.execute(select(submissions.c.submitted).where(recent)).scalars())
        if len(times) >= most:
            hours = (times[-most] + seconds - at) / 3600
            raise UsageError(
                f"{submitter} has made {len(times)} submissions in the last {seconds / 86400:g} days, and {most} are "
                f"allowed; the next one can be made in {hours:.1f} h"
            )

    @staticmethod
    def _add_job(connection: Connection, submission: str, submitter: str, kind: str, at: float) -> None:
        reached = select(func.max(jobs.c.turn)).where(jobs.c.first_started.isnot(None))
        own = select(func.max(jobs.c.turn)).where(jobs.c.submitter == submitter)
        last = connection.execute(own).scalar()
        turn = max(connection.execute(reached).scalar() or 0, -1 if last is None else last + 1)
        row: dict[str, object] = {
            "id": secrets.token_hex(6),
            "submission": submission,
            "kind": kind,
            "state": "pending",
        }
        row |= {"submitter": submitter, "turn": turn, "position": turn - _advance(1), "created": at, "not_before": 0.0}
        row |= {"epoch": 0, "owner": "", "expires": 0.0, "n_attempts": 0, "n_done": 0, "n_total": 0, "stage": ""}
        connection.execute(insert(jobs), row)

    # ------------------------------------------------------------------------------- working (workers)

    def claim(self, owner: str, seconds: float) -> JobRow | None:
        """Take the next job for `seconds`; None if there is none to take now.

        Begun jobs come first. The queue is read before it is written, so that idle workers write nothing.
        """
        CLAIMS.expire_dead(self._database)
        with self._database.reading() as connection:
            free = CLAIMS.may_begin(connection) | CLAIMS.has_lapsed(connection)
            if connection.execute(select(jobs.c.id).where(free).limit(1)).first() is None:
                return None
        with self._database.writing() as connection:
            _give_up(connection)
            for candidates in (CLAIMS.has_lapsed(connection), CLAIMS.may_begin(connection)):
                first = (
                    select(jobs.c.id)
                    .where(candidates)
                    .order_by(jobs.c.position, jobs.c.created, jobs.c.id)
                    .limit(1)
                    .with_for_update(skip_locked=True)
                    .scalar_subquery()
                )
                at = clock_of(connection)
                began = {"started": at, "first_started": func.coalesce(jobs.c.first_started, at), "stage": "starting"}
                taking = update(jobs).where(jobs.c.id == first).returning(jobs)
                taken = taking.values({**CLAIMS.taken(connection, owner, seconds), **began})
                row = connection.execute(taken).one_or_none()
                if row is not None:
                    return JobRow(**row._asdict())
        return None

    def renew(self, job: JobRow, seconds: float, progress: JobProgress) -> None:
        """Keep a job for `seconds` from now, and store its progress.

        Raises: LeaseLost if it was taken over, cancelled or withdrawn.
        """
        with self._database.writing() as connection:
            values = {"n_done": progress.n_done, "n_total": progress.n_total, "stage": progress.stage[:32]}
            _change(connection, job, expires=clock_of(connection) + seconds, **values)

    def finish(self, job: JobRow, run_id: str, verdict: tuple[bool, str] | None = None) -> None:
        """End a job with its run; a `reproduce` job with its verdict.

        Raises: LeaseLost if it was taken over or cancelled; nothing is changed then.
        """
        with self._database.writing() as connection:
            _change(connection, job, state="finished", run_id=run_id, ended=clock_of(connection), owner="", stage="",
                    fault=None, reason=None, log_tail=None, n_done=jobs.c.n_total)  # fmt: skip
            if verdict is not None:
                _set(connection, job.submission, is_verified=int(verdict[0]), verdict=verdict[1])

    def fail(self, job: JobRow, fault: str, reason: str, log_tail: str = "") -> JobRow:
        """End an attempt that failed; return the job as it is then: `pending` where it will be tried again.

        After a fault of the infrastructure (a full disk, no network, a worker killed) the job is tried again, later
        each time, at most `CLAIMS.most_tries` times. A job whose process was `killed` (it exceeded a limit, crashed,
        ended without a result, or blamed the infrastructure itself) is tried once more; the second time it is the
        submission's fault.

        Raises: LeaseLost if the job was taken over or cancelled; nothing is changed then.
        """
        was_killed = job.fault == "killed"
        if was_killed and fault == "killed":
            fault, reason = "submission", f"{reason}; it happened twice, so it is not tried again"
        is_retried = fault != "submission" and job.n_attempts < CLAIMS.most_tries
        if fault != "submission":
            fault = "infrastructure" if not is_retried else "killed" if was_killed else fault
        with self._database.writing() as connection:
            values: dict[str, object] = {"fault": fault, "reason": reason, "log_tail": log_tail}
            values |= {"owner": "", "stage": ""}
            if is_retried:
                values |= CLAIMS.retried(connection, job.n_attempts)
            else:
                values |= {"state": "failed", "ended": clock_of(connection)}
            _change(connection, job, **values)
            if not is_retried:
                _free_key(connection, job.submission)
            return JobRow(**connection.execute(select(jobs).where(jobs.c.id == job.id)).one()._asdict())

    def release(self, job: JobRow) -> None:
        """Put a job back for the next worker at once, without counting the attempt; a lost one is left alone."""
        with self._database.writing() as connection:
            connection.execute(update(jobs).where(_held(job)).values({**CLAIMS.returned(), "stage": ""}))

    # ------------------------------------------------------------------------- votes and moderation

    def vote(self, submission: str, voter: str) -> int:
        """Count a voter's vote once; return the number of votes.

        Raises: UnknownName; UsageError if the voter has voted, or nothing is waiting.
        """
        with self._database.writing() as connection:
            row = _locked(connection, submission)
            pending = select(jobs.c.id).where((jobs.c.submission == submission) & (jobs.c.state == "pending"))
            if connection.execute(pending).first() is None:
                raise UsageError(f"submission {submission} is not waiting, so votes change nothing")
            mine = (queue_votes.c.submission == submission) & (queue_votes.c.voter == voter)
            if connection.execute(select(queue_votes.c.voter).where(mine)).first() is not None:
                raise UsageError("you have voted for this submission; a voter has one vote")
            vote = {"submission": submission, "voter": voter, "made": now(connection)}
            connection.execute(insert(queue_votes), vote)
            n_votes = int(row.n_votes) + 1
            _set(connection, submission, n_votes=n_votes)
            position = jobs.c.turn - _advance(n_votes)
            connection.execute(update(jobs).where(jobs.c.submission == submission).values(position=position))
        return n_votes

    def cancel(self, submission: str) -> bool:
        """Cancel the pending and running jobs of a submission; return whether there were any."""
        with self._database.writing() as connection:
            _locked(connection, submission)
            open_jobs = (jobs.c.submission == submission) & jobs.c.state.in_(("pending", "running"))
            values = {"state": "cancelled", "owner": "", "ended": clock_of(connection), "stage": ""}
            n_jobs = connection.execute(update(jobs).where(open_jobs).values(**values)).rowcount
            if n_jobs:
                _set(connection, submission, duplicate_key=None)
        return bool(n_jobs)

    def relaunch(self, submission: str, kind: str | None = None) -> bool:
        """Put the failed or cancelled jobs of a submission into the queue again, at the present turn.

        Returns whether there were any. Raises: UnknownName; UsageError if the same content was submitted again since.
        """
        with self._database.writing() as connection:
            row = _locked(connection, submission)
            new = _submission(row).new
            ended = (jobs.c.submission == submission) & jobs.c.state.in_(("failed", "cancelled"))
            ended &= jobs.c.kind == kind if kind else ended
            values = {"state": "pending", "n_attempts": 0, "not_before": 0.0, "ended": None, "fault": None}
            values |= {"reason": None, "log_tail": None, "stage": ""}
            n_jobs = connection.execute(update(jobs).where(ended).values(**values)).rowcount
            if n_jobs:
                key = content_hash(
                    [new.content_hash, new.precision, new.preset, new.weights, new.base_revision, new.board]
                )
                other = (submissions.c.duplicate_key == key) & (submissions.c.id != submission)
                if (duplicate := connection.execute(select(submissions.c.id).where(other)).scalar()) is not None:
                    raise UsageError(f"the same content was submitted again as {duplicate}; relaunch that one")
                _set(connection, submission, duplicate_key=key, is_withdrawn=0)
        return bool(n_jobs)

    def reproduce(self, submission: str) -> None:
        """Add the job that verifies reported results. Raises: UnknownName; UsageError if there is one."""
        with self._database.writing(locked=True) as connection:
            row = _locked(connection, submission)
            mine = (jobs.c.submission == submission) & (jobs.c.kind == "reproduce")
            if connection.execute(select(jobs.c.id).where(mine)).first() is not None:
                raise UsageError(f"submission {submission} has a job that reproduces it")
            self._add_job(connection, submission, row.submitter, "reproduce", now(connection))

    def withdraw(self, submission: str) -> None:
        """Take a submission off the board; its jobs that have not ended are cancelled. Raises: UnknownName."""
        self.cancel(submission)
        with self._database.writing() as connection:
            _locked(connection, submission)
            _set(connection, submission, is_withdrawn=1, duplicate_key=None)

    # ----------------------------------------------------------------------------------------- reading

    def submission(self, submission: str) -> SubmissionRow:
        """Return one submission. Raises: UnknownName."""
        with self._database.reading() as connection:
            row = connection.execute(select(submissions).where(submissions.c.id == submission)).one_or_none()
        if row is None:
            raise UnknownName("submission", submission[:40])
        return _submission(row)

    def submissions_of(self, jobs_: Sequence[JobRow]) -> dict[str, SubmissionRow]:
        """Return the submissions of jobs, by id."""
        ids = list({job.submission for job in jobs_})
        rows = self._rows(select(submissions).where(submissions.c.id.in_(ids)))
        return {row.id: _submission(row) for row in rows}

    def with_results(self) -> list[tuple[SubmissionRow | str, str]]:
        """Return the submissions that have a run in the store, with the run's id: measured, or reported.

        Of one whose row is not as it was saved it is the submission's id.
        """
        of_job = select(submissions, jobs.c.run_id.label("measured")).join(jobs).where(jobs.c.run_id.isnot(None))
        of_file = select(submissions).where(submissions.c.reported_run.isnot(None))
        with self._database.reading() as connection:
            pairs = [(row, str(row.measured)) for row in connection.execute(of_job)]
            pairs += [(row, str(row.reported_run)) for row in connection.execute(of_file)]
        return [(_submission(row) if is_as_saved(submissions, row) else row.id, run_id) for row, run_id in pairs]

    def jobs_of(self, submission: str) -> list[JobRow]:
        """Return the jobs of a submission, the first one first."""
        return self._jobs(jobs.c.submission == submission, (jobs.c.created,))

    def ended(self, names: Sequence[str]) -> list[str]:
        """Return which of these are ids of jobs that are neither waiting nor running."""
        if not names:
            return []
        statement = select(jobs.c.id).where(jobs.c.id.in_(names), jobs.c.state.not_in(("pending", "running")))
        with self._database.reading() as connection:
            return list(connection.execute(statement).scalars())

    def jobs_in(self, state: str, *, limit: int = 100) -> list[JobRow]:
        """Return jobs of a state: pending ones in the order of work, others the latest first."""
        order: tuple[ColumnElement[object], ...] = (jobs.c.position, jobs.c.created, jobs.c.id)
        if state != "pending":
            order = (jobs.c.started.desc() if state == "running" else jobs.c.ended.desc(), jobs.c.id)
        return self._jobs(jobs.c.state == state, order, limit)

    def _jobs(
        self, which: ColumnElement[bool], order: Sequence[ColumnElement[object]], limit: int = 1000
    ) -> list[JobRow]:
        statement = select(jobs).where(which).order_by(*order).limit(limit)
        return [JobRow(**row._asdict()) for row in self._rows(statement)]

    def n_ahead(self, job: JobRow) -> int:
        """Return how many pending jobs come before a pending one."""
        before = (jobs.c.position < job.position) | ((jobs.c.position == job.position) & (jobs.c.created < job.created))
        with self._database.reading() as connection:
            counted = select(func.count()).select_from(jobs).where((jobs.c.state == "pending") & before)
            return int(connection.execute(counted).scalar_one())

    def counts(self) -> QueueCounts:
        """Return the queue in numbers."""
        with self._database.reading() as connection:
            grouped = connection.execute(select(jobs.c.state, func.count()).group_by(jobs.c.state)).all()
            by_state = dict.fromkeys(STATES, 0) | {str(state): int(n) for state, n in grouped}
            held = (jobs.c.state == "running") & ~CLAIMS.has_lapsed(connection)
            n_working = connection.execute(select(func.count()).select_from(jobs).where(held)).scalar_one()
            last = (
                select((jobs.c.ended - jobs.c.started).label("seconds"))
                .where((jobs.c.state == "finished") & jobs.c.started.isnot(None))
                .order_by(jobs.c.ended.desc())
                .limit(RECENT)
                .subquery()
            )
            mean = connection.execute(select(func.avg(last.c.seconds))).scalar()
        return QueueCounts(by_state, None if mean is None else float(mean), int(n_working))

    def has_submitted(self, submitter: str, models: Sequence[str]) -> bool:
        """Return whether someone has submitted a model under one of these names."""
        mine = (submissions.c.submitter == submitter) & submissions.c.model.in_(list(models))
        with self._database.reading() as connection:
            return connection.execute(select(submissions.c.id).where(mine)).first() is not None

    def version(self) -> str:
        """Return a text that changes when a job ends, a submission is withdrawn or a moderator or a flag acts.

        It is read before each page, so it takes one statement of four look-ups in indexes.
        """
        with self._database.reading() as connection:
            return " ".join(str(part) for part in connection.execute(_VERSION).one())


_VERSION = select(
    func.count(),
    func.max(jobs.c.ended),
    select(func.max(moderation.c.number)).scalar_subquery(),
    select(func.count()).select_from(flags).scalar_subquery(),
    select(func.count()).where(submissions.c.reported_run.isnot(None)).scalar_subquery(),
).where(jobs.c.state.in_(("finished", "cancelled")))


def _advance(n_votes: int) -> float:
    """Return by how many turns votes move a job forward."""
    return min(MOST_ADVANCE, math.log2(1 + n_votes))


def _submission(row: StoredRow) -> SubmissionRow:
    """Return a submission. Raises: HashMismatch if its row is not as it was saved."""
    as_saved(submissions, [row])
    values = {name: getattr(row, name) for name in _NEW}
    values["facts"] = json.loads(row.facts)
    return SubmissionRow(
        row.id, NewSubmission(**values), row.submitted, row.n_votes, bool(row.is_withdrawn), row.verdict,
        bool(row.is_verified),
    )  # fmt: skip


def _held(job: JobRow) -> ColumnElement[bool]:
    return and_(jobs.c.id == job.id, CLAIMS.is_held(job.epoch))


def _give_up(connection: Connection) -> None:
    """Fail the jobs whose last worker died too, and give their submissions' keys back."""
    reason = f"its worker ended {CLAIMS.most_tries} times without a result (out of memory, or the machine stopped)"
    given_up = connection.execute(
        update(jobs)
        .where(CLAIMS.is_spent(connection))
        .values(state="failed", fault="infrastructure", reason=reason, owner="", ended=clock_of(connection), stage="")
        .returning(jobs.c.submission)
    ).scalars()
    for submission in list(given_up):
        _free_key(connection, submission)


def _change(connection: Connection, job: JobRow, **values: object) -> None:
    done = connection.execute(update(jobs).where(_held(job)).values(**values))
    if done.rowcount != 1:
        raise LeaseLost(
            f"job {job.id} was cancelled, or taken over by another worker while this one was suspended for longer "
            "than its lease; this worker stores nothing of it"
        )


def _locked(connection: Connection, submission: str) -> StoredRow:
    statement = select(submissions).where(submissions.c.id == submission).with_for_update()
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise UnknownName("submission", submission[:40])
    return as_saved(submissions, [row])[0]


def _set(connection: Connection, submission: str, **values: object) -> None:
    row = with_checksum(submissions, {**_locked(connection, submission)._asdict(), **values})
    connection.execute(update(submissions).where(submissions.c.id == submission).values(**row))


def _free_key(connection: Connection, submission: str) -> None:
    """Allow the same model to be submitted again; a damaged row stays as it is, and its job ends all the same."""
    with suppress(HashMismatch):
        _set(connection, submission, duplicate_key=None)
