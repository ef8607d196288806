"""Beginning and end of a run: the same plan is the same run, and each start of it is an attempt.

A finished run is *sealed* with the counts of its rows. The seal is removed before anything is written to it again, so a
sealed run that lacks a row is damaged, which `verify` reports. An attempt that writes holds the run's lease (`leases`).
"""

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from assaymark.errors import HashMismatch, StoreError, UsageError
from assaymark.records import JsonValue, RunPlan
from assaymark.store.connection import Database
from assaymark.store.leases import Leases, holder_of, lock, refuse_held
from assaymark.store.packing import pack_hash, pack_json, pack_optional, pack_optional_json, to_json
from assaymark.store.rows import OpenRun
from assaymark.store.run_facts import facts_row, sees_hidden, shown_runs
from assaymark.store.schema import (
    StoredRow,
    attempts,
    fact_sets,
    outputs,
    requests,
    run_facts,
    run_leases,
    run_tasks,
    runs,
    scores,
    search_sets,
    with_checksum,
)

SHORTEST_ID = 12  # hex digits of the run key
END_STATES = ("finished", "incomplete", "interrupted", "failed")


def now() -> str:
    """Return the time in UTC, ISO 8601, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def next_id(connection: Connection, table: Table) -> int:
    """Return the next free id of a table; the transaction must hold the structure lock."""
    return int(connection.execute(select(func.coalesce(func.max(table.c.id), 0))).scalar_one()) + 1


def run_number(connection: Connection, run_id: str) -> int:
    """Return the row id of a run.

    Raises: StoreError if it does not exist, was removed, or is hidden and the store was not opened for a reason.
    """
    this = select(runs.c.id).where(runs.c.run_id == run_id, shown_runs(connection))
    number: int | None = connection.execute(this).scalar()
    if number is None:
        raise StoreError(f"run {run_id} is not in the store; it may have been removed by another process")
    return number


def change_row(connection: Connection, table: Table, row: StoredRow, **changes: object) -> None:
    """Change columns of a row that was read with all columns, and update its checksum."""
    values = with_checksum(table, {**row._asdict(), **changes})
    this = [column == values[column.name] for column in table.primary_key.columns]
    statement = update(table).where(*this)
    connection.execute(statement.values(**{name: values[name] for name in (*changes, "checksum")}))


def break_seal(connection: Connection, number: int, *, texts_change: bool = True) -> None:
    """Mark a run as running again: remove its seal, and mark rows derived from it as outdated.

    The full-text index stays current if only scores are written.
    """
    tasks = select(run_tasks.c.id).where(run_tasks.c.run == number)
    connection.execute(delete(fact_sets).where(fact_sets.c.run_task.in_(tasks)))
    if texts_change:
        connection.execute(delete(search_sets).where(search_sets.c.run == number))
    row = connection.execute(select(runs).where(runs.c.id == number)).one()
    if row.seal is not None:
        change_row(connection, runs, row, seal=None, status="running")


def counts_of(connection: Connection, number: int) -> dict[str, int]:
    """Return the numbers of a run's rows."""
    of_run = select(requests.c.id).join(run_tasks, run_tasks.c.id == requests.c.run_task)
    mine = of_run.where(run_tasks.c.run == number).subquery()
    n_requests = connection.execute(select(func.count()).select_from(mine)).scalar_one()
    n_outputs, n_failed = connection.execute(
        select(func.count(), func.count(outputs.c.error)).select_from(
            mine.join(outputs, outputs.c.request == mine.c.id)
        )
    ).one()
    n_scores = connection.execute(
        select(func.count()).select_from(mine.join(scores, scores.c.request == mine.c.id))
    ).scalar_one()
    return {"n_requests": n_requests, "n_outputs": n_outputs, "n_failed": n_failed, "n_scores": n_scores}


def sealed_counts(seal: str) -> dict[str, int]:
    """Return the counts of a sealed run.

    Raises: HashMismatch if the seal cannot be read.
    """
    try:
        counts = json.loads(seal)
        return {name: int(counts[name]) for name in ("n_requests", "n_outputs", "n_failed", "n_scores")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HashMismatch(
            f"a run's stored counts cannot be read: {seal!r}; `assaymark verify` shows its run"
        ) from error


def complete_run(database: Database, key: str) -> str | None:
    """Return the id of the run with this key if it is stored completely."""
    with database.reading() as connection:
        this = select(runs.c.run_id).where(
            runs.c.key == pack_hash(key), runs.c.seal.is_not(None), shown_runs(connection)
        )
        run_id: str | None = connection.execute(this).scalar()
        return run_id


def set_visibility(database: Database, run_id: str, visibility: str) -> None:
    """Make a run hidden or public.

    Raises: UsageError for another word; StoreError if the run does not exist for this store.
    """
    if visibility not in {"public", "hidden"}:
        raise UsageError(f"'{visibility}' is not a visibility; expected public or hidden")
    with database.writing() as connection:
        number = run_number(connection, run_id)
        row = connection.execute(select(runs).where(runs.c.id == number)).one()
        change_row(connection, runs, row, visibility=None if visibility == "public" else visibility)


@dataclass(frozen=True, slots=True)
class Opening:
    """How a run is opened: its plan and key, the attempt's facts, and whether a complete run is rescored."""

    plan: RunPlan
    key: str
    facts: Mapping[str, JsonValue]
    command: str | None
    rescoring: bool = False
    hidden: bool = False  # whether a run that is created is hidden from its first moment

    def find(self, connection: Connection) -> StoredRow | None:
        """Return the row of the run, None if it does not exist.

        Raises: StoreError if it is hidden and the store was not opened for a reason.
        """
        row = connection.execute(select(runs).where(runs.c.key == pack_hash(self.key))).one_or_none()
        if row is not None and row.visibility is not None and not sees_hidden(connection):
            raise StoreError("this run is stored and hidden; make it public to run or rescore it here")
        return row


def open_run(database: Database, leases: Leases, opening: Opening) -> OpenRun:
    """Find or create the run of a plan, take its lease and begin an attempt. A complete run is opened without a lease.

    Raises: RunBusy if another writer holds the lease.
    """
    while True:
        with database.writing() as connection:
            result = _open(connection, database, leases, opening)
        if result is not None:
            opened, hold = result
            if hold is not None:
                leases.hold(opened.run_id, *hold)
            return opened


def _open(
    connection: Connection, database: Database, leases: Leases, opening: Opening
) -> tuple[OpenRun, tuple[int, int, str] | None] | None:
    """Return the opened run and its lease; None if another process created the run, or its lease, before the lock."""
    seen = opening.find(connection)
    locked = None if seen is None else lock(connection, seen.id)
    database.lock_structure(connection)
    row = opening.find(connection)
    is_complete = row is not None and row.seal is not None
    if row is None:
        number, run_id = _add_run(connection, opening)
    else:
        number, run_id = row.id, row.run_id
        if seen is None or seen.id != number or (locked is None and _has_lease(connection, number)):
            return None
        writes = not is_complete or opening.rescoring
        if writes and locked is not None and locked.is_held:
            refuse_held(connection, number)
        change_row(connection, runs, row, status=row.status if is_complete else "running", updated_at=now())
        if writes:
            _end_dead_attempts(connection, number)
    attempt = _add_attempt(connection, number, opening.facts, opening.command)
    opened = OpenRun(run_id, attempt, row is None, is_complete, attempt)
    if is_complete and not opening.rescoring:
        return opened, None
    return opened, (number, *leases.take(connection, number, attempt))


def _has_lease(connection: Connection, number: int) -> bool:
    return connection.execute(select(run_leases.c.run).where(run_leases.c.run == number)).first() is not None


def close_run(
    database: Database,
    leases: Leases,
    run_id: str,
    attempt_id: int,
    status: str,
    summary: Mapping[str, JsonValue] | None,
) -> None:
    """End an attempt, seal the run if it is finished, and release its lease.

    Raises: UsageError for an unknown status; LeaseLost if another writer took the run over.
    """
    if status not in END_STATES:
        raise UsageError(f"a run cannot end as '{status}'; expected one of {', '.join(END_STATES)}")
    with database.writing() as connection:
        end_attempt(connection, leases, (run_id, attempt_id), status, summary)
    leases.forget(run_id)


def end_attempt(
    connection: Connection,
    leases: Leases,
    which: tuple[str, int],
    status: str,
    summary: Mapping[str, JsonValue] | None,
    extra: Mapping[str, JsonValue] | None = None,
) -> None:
    """End an attempt, as `close_run` does, inside a transaction; `which` is run id and attempt id."""
    run_id, attempt_id = which
    number = run_number(connection, run_id)
    leases.check(connection, run_id, number, only_held=True)
    this = (attempts.c.run == number) & (attempts.c.number == attempt_id)
    attempt = connection.execute(select(attempts).where(this)).one_or_none()
    if attempt is None:
        raise StoreError(f"run {run_id} has no attempt {attempt_id}; expected the one that open_run returned")
    ended = now()
    packed = pack_optional_json(summary)
    change_row(connection, attempts, attempt, status=status, ended_at=ended, summary=packed)
    row = connection.execute(select(runs).where(runs.c.id == number)).one()
    changes: dict[str, object] = {"updated_at": ended}
    if not leases.holds(run_id) and holder_of(connection, number) is not None:
        pass  # a complete run was only read, and another process is rescoring it
    elif status == "finished":
        changes |= {"status": status, "seal": to_json(counts_of(connection, number))}
    elif row.seal is None:  # a complete run stays complete, however a later attempt ends
        changes["status"] = status
    if summary is not None:
        changes["summary"] = packed
    if extra is not None:
        changes["extra"] = pack_json(dict(extra))
    change_row(connection, runs, row, **changes)
    leases.release(connection, run_id)


def _add_run(connection: Connection, opening: Opening) -> tuple[int, str]:
    plan, key = opening.plan, opening.key
    if opening.hidden and not sees_hidden(connection):
        raise StoreError("this store was not opened for a reason to see hidden runs, and cannot create one")
    number = next_id(connection, runs)
    run_id = _free_run_id(connection, key)
    time = now()
    row = {
        "id": number,
        "run_id": run_id,
        "key": pack_hash(key),
        "plan": pack_optional(to_json(plan.content)),
        "status": "running",
        "created_at": time,
        "updated_at": time,
        "summary": None,
        "extra": None,
        "seal": None,
        "visibility": "hidden" if opening.hidden else None,
    }
    connection.execute(insert(runs), with_checksum(runs, row))
    connection.execute(insert(run_facts), facts_row(number, plan))
    add_tasks(connection, number, [task.name for task in plan.tasks])
    return number, run_id


def add_tasks(connection: Connection, number: int, names: list[str]) -> None:
    """Add tasks to a run, after its existing ones."""
    if not names:
        return
    known = connection.execute(select(func.count()).where(run_tasks.c.run == number)).scalar_one()
    first = next_id(connection, run_tasks)
    connection.execute(
        insert(run_tasks),
        [
            with_checksum(run_tasks, {"id": first + i, "run": number, "position": known + i, "name": name})
            for i, name in enumerate(dict.fromkeys(names))
        ],
    )


def _free_run_id(connection: Connection, key: str) -> str:
    digits = key.removeprefix("sha256:")
    for length in range(SHORTEST_ID, len(digits) + 1):
        taken = connection.execute(select(runs.c.id).where(runs.c.run_id == digits[:length])).first()
        if taken is None:
            return digits[:length]
    raise StoreError(f"run key {key} belongs to another plan; run `assaymark verify`")


def _add_attempt(connection: Connection, number: int, facts: Mapping[str, JsonValue], command: str | None) -> int:
    count: int = connection.execute(select(func.count()).where(attempts.c.run == number)).scalar_one()
    row = {
        "run": number,
        "number": count + 1,
        "status": "running",
        "started_at": now(),
        "ended_at": None,
        "host": socket.gethostname()[:255],
        "process_id": os.getpid(),
        "command": pack_optional(command),
        "facts": pack_json(dict(facts)),
        "summary": None,
    }
    connection.execute(insert(attempts), with_checksum(attempts, row))
    return count + 1


def _end_dead_attempts(connection: Connection, number: int) -> None:
    """Mark attempts that were killed or lost their lease as interrupted; they could not record their end."""
    running = (attempts.c.run == number) & (attempts.c.status == "running")
    for row in connection.execute(select(attempts).where(running)).all():
        change_row(connection, attempts, row, status="interrupted")
