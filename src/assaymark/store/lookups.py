"""Look-ups while a run is written: outputs to score, requests without scores, and the cache across runs.

`results` reads the results of a run for tables and pages.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, exists, func, select

from assaymark.records import Output
from assaymark.store.answer_rows import OUTPUT_COLUMNS, output_of
from assaymark.store.connection import Database
from assaymark.store.packing import pack_hash
from assaymark.store.request_rows import task_numbers
from assaymark.store.runs import run_number
from assaymark.store.schema import outputs, requests, row_checksum, run_tasks, runs, scores, scorings
from assaymark.store.text_table import chunks
from assaymark.store.visibility import sees_hidden
from assaymark.store.write import split_request_id

_OUTPUT_FIELDS = [outputs.columns.keys().index(column.name) for column in OUTPUT_COLUMNS]

_outputs_at = (
    select(requests.c.sample_index, requests.c.turn, *OUTPUT_COLUMNS)
    .join(outputs, outputs.c.request == requests.c.id)
    .where(
        requests.c.run_task == bindparam("run_task"),
        requests.c.sample_index.in_(bindparam("indices", expanding=True)),
    )
    .order_by(outputs.c.request, outputs.c.ask_index, outputs.c.repeat)
)
_outputs_by_key = (
    select(outputs, run_tasks.c.name, requests.c.sample_index, requests.c.turn, requests.c.run_task)
    .join(requests, requests.c.id == outputs.c.request)
    .join(run_tasks, run_tasks.c.id == requests.c.run_task)
    .where(
        outputs.c.cache_key.in_(bindparam("keys", expanding=True)),
        outputs.c.cache_key.isnot(None),
        outputs.c.error.is_(None),
    )
)


def outputs_of(database: Database, run_id: str, request_ids: Sequence[str]) -> dict[str, list[Output]]:
    """Return the outputs of these requests, by query and repeat."""
    found: dict[str, list[Output]] = {request_id: [] for request_id in request_ids}
    by_task: dict[str, set[int]] = {}
    for request_id in found:
        task, index, _ = split_request_id(request_id)
        by_task.setdefault(task, set()).add(index)
    with database.reading() as connection:
        known = task_numbers(connection, run_number(connection, run_id))
        for task, indices in by_task.items():
            if task not in known:
                continue
            for some in chunks(sorted(indices)):
                for row in connection.execute(_outputs_at, {"run_task": known[task], "indices": some}).all():
                    request_id = f"{task}/{row[0]}/{row[1]}"
                    if request_id in found:
                        found[request_id].append(output_of(row[2:], request_id))
    return found


def unscored(database: Database, run_id: str, scoring_hash: str, task: str | None) -> list[str]:
    """Return the ids of requests that are complete and have no score under this hash."""
    n_stored = select(func.count()).where(outputs.c.request == requests.c.id).correlate(requests).scalar_subquery()
    under_hash = (
        select(scores.c.request)
        .join(scorings, scorings.c.id == scores.c.scoring)
        .where(scores.c.request == requests.c.id, scorings.c.scoring_hash == pack_hash(scoring_hash))
        .correlate(requests)
    )
    with database.reading() as connection:
        number = run_number(connection, run_id)
        statement = (
            select(run_tasks.c.name, requests.c.sample_index, requests.c.turn)
            .join(requests, requests.c.run_task == run_tasks.c.id)
            .where(run_tasks.c.run == number, n_stored == requests.c.n_outputs, ~exists(under_hash))
            .order_by(run_tasks.c.position, requests.c.sample_index, requests.c.turn)
        )
        if task is not None:
            statement = statement.where(run_tasks.c.name == task)
        return [f"{name}/{index}/{turn}" for name, index, turn in connection.execute(statement)]


def _hidden_tasks(connection: Connection) -> frozenset[int]:
    """Return the tasks of hidden runs, whose outputs are not given to other runs; empty if they may be read."""
    if sees_hidden(connection):
        return frozenset()
    hidden = select(run_tasks.c.id).join(runs, runs.c.id == run_tasks.c.run).where(runs.c.visibility.isnot(None))
    return frozenset(connection.execute(hidden).scalars())


def find(database: Database, keys: Sequence[str]) -> dict[str, Output]:
    """Return outputs of any run by cache key; if there are several, the one stored first."""
    packed = {pack_hash(key): key for key in keys}
    found: dict[str, tuple[int, Output]] = {}
    with database.reading() as connection:
        hidden = _hidden_tasks(connection)
        for some in chunks(list(packed)):
            for row in connection.execute(_outputs_by_key, {"keys": some}).all():
                key = packed[row.cache_key]
                is_better = row.run_task not in hidden and (key not in found or row.request < found[key][0])
                if is_better and row_checksum(outputs, row) == row.checksum:
                    request_id = f"{row.name}/{row.sample_index}/{row.turn}"
                    values = [row[i] for i in _OUTPUT_FIELDS]
                    found[key] = (row.request, output_of(values, request_id, from_cache=True))
    return {key: output for key, (_, output) in found.items()}
