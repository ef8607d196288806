"""Removal of a run: its rows, and the texts that nothing else refers to."""

from sqlalchemy import Connection, delete, select

from assaymark.store import leases
from assaymark.store.connection import Database
from assaymark.store.request_rows import text_ids
from assaymark.store.request_texts import chunks
from assaymark.store.rows import RemovedCounts
from assaymark.store.runs import counts_of, run_number
from assaymark.store.schema import (
    attempts,
    estimates,
    fact_sets,
    outputs,
    requests,
    run_facts,
    run_tasks,
    runs,
    sample_facts,
    scores,
    scorings,
    texts,
)
from assaymark.store.sealed_rows import sealed_copies
from assaymark.store.search import forget_index


def remove_run(database: Database, run_id: str) -> RemovedCounts:
    """Remove a run and all texts that become unused, in one transaction."""
    with database.writing() as connection:
        number = run_number(connection, run_id)
        leases.lock(connection, number)
        database.lock_structure(connection)
        counts = counts_of(connection, number)
        tasks = [task for (task,) in connection.execute(select(run_tasks.c.id).where(run_tasks.c.run == number))]
        of_run = select(requests.c.id).where(requests.c.run_task.in_(tasks))
        for table in (scores, outputs):
            connection.execute(delete(table).where(table.c.request.in_(of_run)))
        forget_index(connection, number)
        for table in (sample_facts, fact_sets, sealed_copies, requests, scorings):
            connection.execute(delete(table).where(table.c.run_task.in_(tasks)))
        for table in (estimates, run_facts, attempts, run_tasks):
            connection.execute(delete(table).where(table.c.run == number))
        leases.drop(connection, number)
        connection.execute(delete(runs).where(runs.c.id == number))
        unused = _unused_texts(connection)
        for some in chunks(unused):
            connection.execute(delete(texts).where(texts.c.id.in_(some)))
    database.shrink()
    return RemovedCounts(run_id, counts["n_requests"], counts["n_outputs"], counts["n_scores"], len(unused))


def _unused_texts(connection: Connection) -> list[int]:
    """Return the ids of texts that no request refers to; replaced requests leave such texts too."""
    used: set[int] = set()
    for row in connection.execute(select(requests.c.id, requests.c.pieces, requests.c.form, requests.c.sample_row)):
        used.update(text_ids(row.pieces, row.form))
        used.add(row.sample_row)
    return [number for (number,) in connection.execute(select(texts.c.id)) if number not in used]
