"""Taking a job, keeping it and ending it.

A claim is one statement: on PostgreSQL its sub-select skips the rows that other workers are taking, on SQLite the
writing transaction has begun before it. The claim raises the job's *epoch*, and every later change by that worker names
the epoch: a worker that was suspended past its lease changes nothing more. A job whose lease has expired is taken
before pending ones, so that what was begun is finished; after `MOST_ATTEMPTS` it is given up.
"""

from sqlalchemy import ColumnElement, Connection, and_, func, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from assaymark.errors import LeaseLost
from assaymark.leaderboard.submission.queue_rows import JobProgress, JobRow
from assaymark.leaderboard.submission.tables import jobs, submissions
from assaymark.store.connection import Database
from assaymark.store.leases import clock_of
from assaymark.store.liveness import Owner

MOST_ATTEMPTS = 4  # of a job that fails by a fault of the infrastructure, or whose workers die
RETRY_SECONDS = 60.0  # before the second attempt; doubled each time


def claim(database: Database, owner: str, seconds: float) -> JobRow | None:
    """Take the next job for `seconds`; None if there is none to take now.

    Whether there is one is read first, so that idle workers write nothing.
    """
    _expire_dead(database)
    with database.reading() as connection:
        lapsed, waiting = _candidates(connection)
        if connection.execute(select(jobs.c.id).where(waiting | lapsed).limit(1)).first() is None:
            return None
    with database.writing() as connection:
        _give_up(connection)
        for candidates in _candidates(connection):
            row = connection.execute(_take(connection, candidates, owner, seconds)).one_or_none()
            if row is not None:
                return JobRow(**row._asdict())
    return None


def _candidates(connection: Connection) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions of jobs to take: those whose lease has expired, and those that wait."""
    now = clock_of(connection)
    lapsed = (jobs.c.state == "running") & (jobs.c.expires < now)
    return lapsed, (jobs.c.state == "pending") & (jobs.c.not_before <= now)


def _take(
    connection: Connection, candidates: ColumnElement[bool], owner: str, seconds: float
) -> ReturningUpdate[object]:
    first = (
        select(jobs.c.id)
        .where(candidates)
        .order_by(jobs.c.position, jobs.c.created, jobs.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    now = clock_of(connection)
    return (
        update(jobs)
        .where(jobs.c.id == first)
        .values(
            state="running",
            epoch=jobs.c.epoch + 1,
            owner=owner,
            expires=now + seconds,
            n_attempts=jobs.c.n_attempts + 1,
            started=now,
            first_started=func.coalesce(jobs.c.first_started, now),
            stage="starting",
        )
        .returning(jobs)
    )


def _expire_dead(database: Database) -> None:
    """Expire the leases of processes of this machine that are known to have ended, so that nobody waits for them."""
    with database.reading() as connection:
        running = connection.execute(select(jobs.c.id, jobs.c.epoch, jobs.c.owner).where(jobs.c.state == "running"))
        held = [(row.id, row.epoch, Owner.from_text(row.owner)) for row in running]
    dead = [(job, epoch) for job, epoch, owner in held if owner is not None and owner.is_known_dead]
    if dead:
        with database.writing() as connection:
            for job, epoch in dead:
                connection.execute(update(jobs).where(_held(job, epoch)).values(expires=0.0))


def _give_up(connection: Connection) -> None:
    """Fail the jobs whose last worker died too, and give their submissions' keys back."""
    now = clock_of(connection)
    lost = (jobs.c.state == "running") & (jobs.c.expires < now) & (jobs.c.n_attempts >= MOST_ATTEMPTS)
    reason = f"its worker ended {MOST_ATTEMPTS} times without a result (out of memory, or the machine stopped)"
    given_up = connection.execute(
        update(jobs)
        .where(lost)
        .values(state="failed", fault="infrastructure", reason=reason, owner="", ended=now, stage="")
        .returning(jobs.c.submission)
    ).scalars()
    for submission in list(given_up):
        _free_key(connection, submission)


def renew(database: Database, job: JobRow, seconds: float, progress: JobProgress) -> None:
    """Keep a job for `seconds` from now, and store how far it is.

    Raises: LeaseLost if it was taken over, cancelled or withdrawn.
    """
    with database.writing() as connection:
        values = {"n_done": progress.n_done, "n_total": progress.n_total, "stage": progress.stage[:32]}
        _change(connection, job, expires=clock_of(connection) + seconds, **values)


def finish(database: Database, job: JobRow, run_id: str, verdict: tuple[bool, str] | None = None) -> None:
    """End a job with its run; a `reproduce` job with its verdict.

    Raises: LeaseLost if it was taken over or cancelled; nothing is changed then.
    """
    with database.writing() as connection:
        _change(connection, job, state="finished", run_id=run_id, ended=clock_of(connection), owner="", stage="",
                fault=None, reason=None, log_tail=None, n_done=jobs.c.n_total)  # fmt: skip
        if verdict is not None:
            here = submissions.c.id == job.submission
            connection.execute(update(submissions).where(here).values(is_verified=int(verdict[0]), verdict=verdict[1]))


def fail(database: Database, job: JobRow, fault: str, reason: str, log_tail: str) -> JobRow:
    """End an attempt that failed; return the job as it is then: `pending` where it will be tried again.

    After a fault of the infrastructure (a full disk, no network, a worker killed) the job is tried again, later each
    time, up to MOST_ATTEMPTS.
    A job whose process was `killed` (it used up what it may use, crashed, ended without a result, or says itself that
    the fault is the infrastructure's) is tried once more: the second time it is the submission's fault.

    Raises: LeaseLost if the job was taken over or cancelled; nothing is changed then.
    """
    was_killed = job.fault == "killed"
    if was_killed and fault == "killed":
        fault, reason = "submission", f"{reason}; it happened twice, so it is not tried again"
    is_retried = fault != "submission" and job.n_attempts < MOST_ATTEMPTS
    if fault != "submission":
        fault = "infrastructure" if not is_retried else "killed" if was_killed else fault
    with database.writing() as connection:
        now = clock_of(connection)
        values: dict[str, object] = {"fault": fault, "reason": reason, "log_tail": log_tail, "owner": "", "stage": ""}
        if is_retried:
            pause = RETRY_SECONDS * 2 ** (job.n_attempts - 1)
            values |= {"state": "pending", "not_before": now + pause}
        else:
            values |= {"state": "failed", "ended": now}
        _change(connection, job, **values)
        if not is_retried:
            _free_key(connection, job.submission)
        return JobRow(**connection.execute(select(jobs).where(jobs.c.id == job.id)).one()._asdict())


def release(database: Database, job: JobRow) -> None:
    """Put a job back for the next worker at once, without counting the attempt; a job that was lost is left alone."""
    with database.writing() as connection:
        connection.execute(
            update(jobs)
            .where(_held(job.id, job.epoch))
            .values(state="pending", owner="", stage="", n_attempts=jobs.c.n_attempts - 1)
        )


def _held(job: str, epoch: int) -> ColumnElement[bool]:
    return and_(jobs.c.id == job, jobs.c.epoch == epoch, jobs.c.state == "running")


def _change(connection: Connection, job: JobRow, **values: object) -> None:
    done = connection.execute(update(jobs).where(_held(job.id, job.epoch)).values(**values))
    if done.rowcount != 1:
        raise LeaseLost(
            f"job {job.id} was cancelled, or taken over by another worker while this one was suspended for longer "
            "than its lease; this worker stores nothing of it"
        )


def _free_key(connection: Connection, submission: str) -> None:
    """Allow the same model to be submitted again."""
    connection.execute(update(submissions).where(submissions.c.id == submission).values(duplicate_key=None))
