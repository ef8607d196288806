"""A run's estimates: the cells of its tables, kept so that boards and pages need not compute them again."""

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, insert, select

from evalstone.records import Estimate, JsonValue
from evalstone.store.answer_rows import estimate_content, estimate_of
from evalstone.store.connection import Database
from evalstone.store.leases import Leases
from evalstone.store.packing import pack_json
from evalstone.store.runs import change_row, run_number
from evalstone.store.schema import estimates as table
from evalstone.store.schema import runs, with_checksum


def save_estimates(
    database: Database,
    leases: Leases,
    run_id: str,
    estimates: Sequence[Estimate],
    extra: Mapping[str, JsonValue] | None,
) -> None:
    """Replace the run's estimates, and its extra where given.

    Raises: LeaseLost if this store held the run's lease and another writer took it over.
    """
    with database.writing() as connection:
        number = run_number(connection, run_id)
        leases.check(connection, run_id, number, only_held=True)
        connection.execute(delete(table).where(table.c.run == number))
        rows = [
            with_checksum(table, {"run": number, "position": position, "content": estimate_content(estimate)})
            for position, estimate in enumerate(estimates)
        ]
        if rows:
            connection.execute(insert(table), rows)
        if extra is not None:
            row = connection.execute(select(runs).where(runs.c.id == number)).one()
            change_row(connection, runs, row, extra=pack_json(dict(extra)))


def estimates(database: Database, run_id: str) -> list[Estimate]:
    """Return the run's estimates in the order in which they were saved."""
    with database.reading() as connection:
        number = run_number(connection, run_id)
        found = connection.execute(select(table.c.content).where(table.c.run == number).order_by(table.c.position))
        return [estimate_of(content) for (content,) in found]
