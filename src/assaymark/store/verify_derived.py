"""Verification of derived rows: facts of runs and samples, repeated columns of estimates, and the search index.

Rows that are missing or not current are no damage, since readers derive them again; rows marked as current must match
their source. A source that cannot be read is skipped here: the check of its own table reports it.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from sqlalchemy import Connection, Row, func, select

from assaymark.errors import HashMismatch
from assaymark.store.answer_rows import repeated_details
from assaymark.store.packing import unpack_json, unpack_text
from assaymark.store.rows import Problem
from assaymark.store.run_facts import facts_row
from assaymark.store.runs import plan_from_json
from assaymark.store.sample_facts import FACT_COLUMNS, FactTask, derive, fact_tasks
from assaymark.store.schema import (
    estimates,
    fact_sets,
    requests,
    row_checksum,
    run_facts,
    run_tasks,
    sample_facts,
)
from assaymark.store.search import count_rows, n_indexed

__all__ = ["derived_problems"]

READ_AT_ONCE = 1000


def derived_problems(connection: Connection, run: Row[Any]) -> Iterator[Problem]:
    """Yield the mismatches between a run's derived rows and their sources; `run` is its row of `runs`."""
    for check in (_facts_of_run, _estimates, _facts_of_samples, _index):
        try:
            yield from check(connection, run)
        except HashMismatch:
            continue


def _facts_of_run(connection: Connection, run: Row[Any]) -> Iterator[Problem]:
    derived = facts_row(run.id, plan_from_json(unpack_text(run.plan)))
    stored = connection.execute(select(run_facts).where(run_facts.c.run == run.id)).mappings().one_or_none()
    if stored is None:
        yield Problem("run_facts", run.run_id, "they are missing")
        return
    for name, value in derived.items():
        if stored[name] != value:
            yield Problem("run_facts", run.run_id, f"{name} is {stored[name]!r}, but {value!r} in its plan")
            return


def _estimates(connection: Connection, run: Row[Any]) -> Iterator[Problem]:
    for row in connection.execute(select(estimates).where(estimates.c.run == run.id)).all():
        which = f"run {run.id}, position {row.position}"
        try:
            details = unpack_json(row.details)
        except HashMismatch as error:
            if row_checksum(estimates, row) == row.checksum:  # else the wrong checksum is reported
                yield Problem("estimates", which, str(error))
            continue
        for name, value in repeated_details(details).items():
            if getattr(row, name) != value:
                yield Problem("estimates", which, f"{name} is {getattr(row, name)!r}, but {value!r} in its details")


def _facts_of_samples(connection: Connection, run: Row[Any]) -> Iterator[Problem]:
    of_run = select(fact_sets).join(run_tasks, run_tasks.c.id == fact_sets.c.run_task).where(run_tasks.c.run == run.id)
    sets = {row.run_task: row for row in connection.execute(of_run).all() if row.is_complete}
    for task in fact_tasks(connection, run.id):
        row = sets.get(task.id)
        made_of = None if row is None else (row.metric, row.filter, bool(row.is_share))
        if made_of == (task.metric, task.filter, task.is_share):  # else readers derive them again
            yield from _facts_of_task(connection, task)


def _facts_of_task(connection: Connection, task: FactTask) -> Iterator[Problem]:
    names = [column.name for column in FACT_COLUMNS]
    for stored, derived in zip_longest(_stored(connection, task.id), derive(connection, task)):
        values = None if derived is None else [getattr(derived, name) for name in names]
        if values is None or stored is None:
            what = "has facts but no request" if values is None else "has no facts"
            index, turn = list(stored or ())[:2] if values is None else values[:2]
            yield Problem("sample_facts", f"{task.name}/{index}/{turn}", what)
            return
        for name, value, expected in zip(names, stored, values, strict=True):
            if value != expected:
                what = f"{name} is {value!r}, but {expected!r} by the sample's stored rows"
                yield Problem("sample_facts", f"{task.name}/{values[0]}/{values[1]}", what)
                return


def _stored(connection: Connection, run_task: int) -> Iterator[Row[Any]]:
    key = (sample_facts.c.sample_index, sample_facts.c.turn)
    of_task = select(*FACT_COLUMNS).where(sample_facts.c.run_task == run_task).order_by(*key)
    rows = connection.execute(of_task.execution_options(yield_per=READ_AT_ONCE))
    for batch in rows.partitions(READ_AT_ONCE):
        yield from batch


def _index(connection: Connection, run: Row[Any]) -> Iterator[Problem]:
    n = n_indexed(connection, run.id)
    if n is None or n < 0:
        return
    of_run = requests.join(run_tasks, run_tasks.c.id == requests.c.run_task)
    counted = select(func.count()).select_from(of_run).where(run_tasks.c.run == run.id)
    n_requests, n_rows = connection.execute(counted).scalar_one(), count_rows(connection, run.id)
    if not n == n_requests == n_rows:
        what = f"its search index has {n_rows} rows and was built from {n} requests, but the run has {n_requests}"
        yield Problem("search_sets", run.run_id, what)
