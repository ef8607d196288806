"""How answers ended: the written ones counted by the database, no text read; why the first that failed did."""

from sqlalchemy import case, func, select

from evalstone.store.connection import Database
from evalstone.store.packing import unpack_optional
from evalstone.store.rows import GeneratedRow
from evalstone.store.runs import run_number
from evalstone.store.schema import outputs, requests, run_tasks

__all__ = ["first_error", "written"]

_n_texts = func.count(outputs.c.text)
_n_failed = func.count(outputs.c.error)
_is_written = outputs.c.text.isnot(None) | outputs.c.error.isnot(None)  # spares sorting every choice's log-likelihood
_n_tokens = func.coalesce(func.sum(case((outputs.c.text.isnot(None), outputs.c.n_tokens), else_=0)), 0)


def written(database: Database, run_id: str) -> list[GeneratedRow]:
    """Return one row for each task, turn and finish reason, tasks in the plan's order; of tasks that write."""
    with database.reading() as connection:
        number = run_number(connection, run_id)
        found = connection.execute(
            select(run_tasks.c.name, requests.c.turn, outputs.c.finish_reason, _n_texts, _n_failed, _n_tokens)
            .join(requests, requests.c.run_task == run_tasks.c.id)
            .join(outputs, outputs.c.request == requests.c.id)
            .where(run_tasks.c.run == number, _is_written)
            .group_by(run_tasks.c.position, run_tasks.c.name, requests.c.turn, outputs.c.finish_reason)
            .order_by(run_tasks.c.position, requests.c.turn, outputs.c.finish_reason)
        ).all()
    rows = [GeneratedRow(row[0], row[1], row[2], row[3], row[4], int(row[5])) for row in found]
    writing = {row.task for row in rows if row.n_texts}
    return [row for row in rows if row.task in writing]


def first_error(database: Database, run_id: str) -> str | None:
    """Return what happened to the run's first answer that failed, None if all came."""
    with database.reading() as connection:
        packed = connection.execute(
            select(outputs.c.error)
            .join(requests, outputs.c.request == requests.c.id)
            .join(run_tasks, requests.c.run_task == run_tasks.c.id)
            .where(run_tasks.c.run == run_number(connection, run_id), outputs.c.error.isnot(None))
            .order_by(run_tasks.c.position, requests.c.id)
            .limit(1)
        ).scalar()
    return unpack_optional(packed)
