"""The results of one run: its estimates, scores, samples, and finish reasons.

(`reading` has the look-ups while a run is written, `run_facts` the estimates of many runs, and `sample_list` the lists
of pages.) Each page is fetched completely, and its transaction ended, before its first row is yielded, so a reader that
stops half-way does not block writers.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import TypeAlias

from sqlalchemy import Connection, Row, Select, bindparam, case, delete, exists, func, insert, or_, select, tuple_

from assaymark.errors import HashMismatch, UnknownName
from assaymark.records import Estimate, JsonValue, Output, Sample, Score, ScoreStatus
from assaymark.store.answer_rows import estimate_of, estimate_row, output_of, parts_of, score_of
from assaymark.store.connection import Database
from assaymark.store.leases import Leases
from assaymark.store.packing import pack_json, unpack_hash, unpack_json, unpack_optional
from assaymark.store.request_rows import restore, task_numbers, text_ids
from assaymark.store.request_texts import chunks, load_texts
from assaymark.store.rows import GeneratedRow, SampleRecord, SampleScoreRow
from assaymark.store.runs import change_row, run_number
from assaymark.store.schema import (
    StoredRow,
    as_saved,
    estimates,
    is_as_saved,
    outputs,
    requests,
    run_tasks,
    runs,
    scores,
    scorings,
)

PAGE = 200  # requests read at once
LISTED_AT_ONCE = 5000  # request ids in memory, so that memory does not grow with the run

_STATUS = {status.value: status for status in ScoreStatus}

# of `scores`: request, scoring, value, status, parts, detail, checksum; then sample index and turn
ScoreRow: TypeAlias = "Row[int, int, float | None, str, bytes | None, bytes | None, int, int, int]"

_n_texts = func.count(outputs.c.text)
_n_failed = func.count(outputs.c.error)
_is_generated = outputs.c.text.isnot(None) | outputs.c.error.isnot(None)  # avoids sorting every choice's log-likelihood
_n_tokens = func.coalesce(func.sum(case((outputs.c.text.isnot(None), outputs.c.n_tokens), else_=0)), 0)

_at = requests.c.sample_index
_listed = (
    select(_at, requests.c.turn, requests.c.id)
    .where(requests.c.run_task == bindparam("run_task"))
    .order_by(_at, requests.c.turn)
)
_requests_of = (
    select(requests)
    .where(requests.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(requests.c.sample_index, requests.c.turn)
)
_outputs_of = (
    select(outputs)
    .where(outputs.c.request.in_(bindparam("ids", expanding=True)))
    .order_by(outputs.c.request, outputs.c.ask_index, outputs.c.repeat)
)
_scores_of = (
    select(scores, scorings.c.filter, scorings.c.metric)
    .join(scorings, scorings.c.id == scores.c.scoring)
    .where(scores.c.request.in_(bindparam("ids", expanding=True)))
    .order_by(scores.c.request, scorings.c.filter, scorings.c.metric)
)


def scores_of(
    database: Database,
    run_id: str,
    task: str | None,
    *,
    details: bool,
    indices: Sequence[int] | None = None,
    of_metrics: Callable[[str], bool] | None = None,
) -> Iterator[SampleScoreRow]:
    """Yield the current scores, of these samples or of all, by task, filter, metric, sample index and turn."""
    with database.reading() as connection:
        tasks = task_numbers(connection, run_number(connection, run_id))
        names = [task] if task is not None else list(tasks)
        by_task = {name: _scores_of_task(connection, number_of(tasks, name), indices, of_metrics) for name in names}
    for name, by_scoring in by_task.items():
        for scoring, rows in by_scoring:
            for row in rows:
                yield SampleScoreRow(
                    name, row[7], row[8], scoring.filter, scoring.metric, row[2], _STATUS[row[3]], parts_of(row[4]),
                    unpack_json(row[5]) if details else None
                )  # fmt: skip


def sample_hashes(database: Database, run_id: str, task: str) -> dict[tuple[int, int], str]:
    """Return the hash of each sample of a task by (sample index, turn), without reading any text."""
    columns = (requests.c.sample_index, requests.c.turn, requests.c.sample_sha256)
    with database.reading() as connection:
        number = number_of(task_numbers(connection, run_number(connection, run_id)), task)
        rows = connection.execute(select(*columns).where(requests.c.run_task == number)).all()
    return {(index, turn): unpack_hash(packed) for index, turn, packed in rows}


def content_hashes(database: Database, run_id: str, task: str) -> dict[tuple[int, int], bytes]:
    """Return the hash of the content of each request of a task by (sample index, turn): equal if all texts are."""
    columns = (requests.c.sample_index, requests.c.turn, requests.c.content_hash)
    with database.reading() as connection:
        number = number_of(task_numbers(connection, run_number(connection, run_id)), task)
        rows = connection.execute(select(*columns).where(requests.c.run_task == number)).all()
    return {(index, turn): digest for index, turn, digest in rows}


def has_cut_prompts(database: Database, run_id: str) -> bool:
    """Return whether a prompt of a run was truncated."""
    with database.reading() as connection:
        numbers = task_numbers(connection, run_number(connection, run_id)).values()
        cut = (
            select(outputs.c.request)
            .join(requests, requests.c.id == outputs.c.request)
            .where(requests.c.run_task.in_(list(numbers)), outputs.c.n_cut_tokens > 0)
        )
        return connection.execute(cut.limit(1)).first() is not None


def score_names(database: Database, run_id: str, task: str) -> list[tuple[str, str]]:
    """Return (filter, metric) of a task's current scores, in the order of a sample's record."""
    with database.reading() as connection:
        number = number_of(task_numbers(connection, run_number(connection, run_id)), task)
        return [(row.filter, row.metric) for row in current_scorings(connection, number)]


def samples(
    database: Database, run_id: str, task: str, *, offset: int, limit: int | None, indices: Sequence[int] | None
) -> Iterator[SampleRecord]:
    """Yield a task's requests with their samples, outputs and scores, by sample index and turn."""
    with database.reading() as connection:
        number = number_of(task_numbers(connection, run_number(connection, run_id)), task)
    all_ids = _chosen_ids(database, number, indices) if indices is not None else _listed_ids(database, number, _listed)
    ids = islice(all_ids, offset, None if limit is None else offset + limit)
    yield from _records(database, number, task, ids)


def samples_not_right(database: Database, run_id: str, task: str, by: tuple[str, str]) -> Iterator[SampleRecord]:
    """Yield the records of `samples` whose score under this (filter, metric) is in [0, 1/2), or missing."""
    with database.reading() as connection:
        number = number_of(task_numbers(connection, run_number(connection, run_id)), task)
        current = [row.id for row in current_scorings(connection, number) if (row.filter, row.metric) == by]
    is_right = (
        select(scores.c.request)
        .where(
            scores.c.request == requests.c.id,
            scores.c.scoring.in_(current),
            scores.c.status == ScoreStatus.SCORED.value,
            or_(scores.c.value < 0, scores.c.value >= 0.5),
        )
        .correlate(requests)
    )
    yield from _records(database, number, task, _listed_ids(database, number, _listed.where(~exists(is_right))))


def _records(database: Database, number: int, task: str, ids: Iterator[int]) -> Iterator[SampleRecord]:
    while some := list(islice(ids, PAGE)):
        with database.reading() as connection:
            page = _page(connection, number, task, some)
        yield from page


def _chosen_ids(database: Database, task: int, indices: Sequence[int]) -> Iterator[int]:
    """Yield the row ids of these samples' requests, in order."""
    for some in chunks(sorted(set(indices))):
        with database.reading() as connection:
            chosen = connection.execute(_listed.where(_at.in_(some)), {"run_task": task}).all()
        yield from (row.id for row in chosen)


def _listed_ids(database: Database, task: int, listed: "Select[int, int, int]") -> Iterator[int]:
    """Yield the row ids of a task's requests, in order, reading them in parts."""
    last = (-1, -1)
    while True:
        with database.reading() as connection:
            after = tuple_(_at, requests.c.turn) > last
            rows = connection.execute(listed.where(after).limit(LISTED_AT_ONCE), {"run_task": task}).all()
        if not rows:
            return
        yield from (row.id for row in rows)
        last = (rows[-1].sample_index, rows[-1].turn)


def number_of(tasks: Mapping[str, int], name: str) -> int:
    """Return the row id of a task of a run.

    Raises: UnknownName with the run's tasks.
    """
    if name not in tasks:
        near = get_close_matches(name, tasks, n=3, cutoff=0.5)
        raise UnknownName("task of this run", name, near or list(tasks)[:5])
    return tasks[name]


def current_scorings(connection: Connection, task: int) -> list[StoredRow]:
    """Return the latest scoring of each filter and metric of a task."""
    of_task = (
        select(scorings)
        .where(scorings.c.run_task == task)
        .order_by(scorings.c.filter, scorings.c.metric, scorings.c.sequence)
    )
    rows = as_saved(scorings, connection.execute(of_task))
    return list({(row.filter, row.metric): row for row in rows}.values())


def _scores_of_task(
    connection: Connection, task: int, indices: Sequence[int] | None, of_metrics: Callable[[str], bool] | None
) -> list[tuple[StoredRow, list[ScoreRow]]]:
    current = [row for row in current_scorings(connection, task) if of_metrics is None or of_metrics(row.metric)]
    statement = (
        select(scores, requests.c.sample_index, requests.c.turn)
        .join(requests, requests.c.id == scores.c.request)
        .where(requests.c.run_task == task, scores.c.scoring.in_([row.id for row in current]))
        .order_by(requests.c.sample_index, requests.c.turn)
    )
    by_scoring: dict[int, list[ScoreRow]] = {row.id: [] for row in current}
    parts = [statement] if indices is None else [statement.where(_at.in_(c)) for c in chunks(sorted(set(indices)))]
    for part in parts:
        for row in as_saved(scores, connection.execute(part)):
            by_scoring[row[1]].append(row)
    return [(row, by_scoring[row.id]) for row in current]


def _page(connection: Connection, task: int, name: str, ids: Sequence[int]) -> list[SampleRecord]:
    rows = as_saved(requests, connection.execute(_requests_of, {"ids": ids}))
    texts_by_row = {row.id: text_ids(row.pieces, row.form) for row in rows}
    wanted = [number for numbers in texts_by_row.values() for number in numbers]
    loaded = load_texts(connection, [*wanted, *(row.sample_row for row in rows if row.sample_row is not None)])
    names = {row.id: f"{name}/{row.sample_index}/{row.turn}" for row in rows}
    answers: dict[int, list[Output]] = {row.id: [] for row in rows}
    for output in as_saved(outputs, connection.execute(_outputs_of, {"ids": ids})):
        answers[output[0]].append(output_of(output, names[output[0]]))
    current = {scoring.id for scoring in current_scorings(connection, task)}
    scored: dict[int, list[Score]] = {row.id: [] for row in rows}
    for score in as_saved(scores, connection.execute(_scores_of, {"ids": ids})):
        if score.scoring in current:
            scored[score.request].append(score_of(score, names[score.request]))
    return [
        SampleRecord(
            sample=_sample(row, name, loaded),
            request=restore(name, row, loaded),
            outputs=tuple(answers[row.id]),
            scores=tuple(scored[row.id]),
        )
        for row in rows
    ]


def _sample(row: StoredRow, task: str, loaded: Mapping[int, str]) -> Sample | None:
    if row.sample_row is None:
        return None
    try:
        content = json.loads(loaded[row.sample_row])
    except (ValueError, RecursionError) as error:
        raise HashMismatch(
            f"the row of sample {task}/{row.sample_index} cannot be read: {error}; run `assaymark verify`"
        ) from error
    return Sample(task, row.sample_index, content, unpack_hash(row.sample_sha256))


# -------------------------------------------------------------------------------------- estimates


def save_estimates(
    database: Database,
    leases: Leases,
    run_id: str,
    new_estimates: Sequence[Estimate],
    extra: Mapping[str, JsonValue] | None,
) -> None:
    """Replace the run's estimates, and its `extra` if given.

    Raises: LeaseLost if this store held the run's lease and another writer took it over.
    """
    with database.writing() as connection:
        number = run_number(connection, run_id)
        leases.check(connection, run_id, number, only_held=True)
        connection.execute(delete(estimates).where(estimates.c.run == number))
        rows = [estimate_row(estimate, number, position) for position, estimate in enumerate(new_estimates)]
        if rows:
            connection.execute(insert(estimates), rows)
        if extra is not None:
            row = connection.execute(select(runs).where(runs.c.id == number)).one()
            change_row(connection, runs, row, extra=pack_json(dict(extra)))


def estimates_of(database: Database, run_id: str) -> list[Estimate]:
    """Return the run's estimates in the order in which they were saved.

    Raises: HashMismatch for one that is not as it was saved, nor the run itself, or where one is gone from among them.
    """
    with database.reading() as connection:
        number = run_number(connection, run_id)
        as_saved(runs, connection.execute(select(runs).where(runs.c.id == number)))
        of_run = select(estimates).where(estimates.c.run == number)
        rows = connection.execute(of_run.order_by(estimates.c.position)).all()
    for position, row in enumerate(rows):
        what = f"the estimate of {row.task}, {row.metric} ({row.filter})" if row.position == position else "an estimate"
        if row.position != position or not is_as_saved(estimates, row):
            fault = "is not as it was saved" if row.position == position else "is missing"
            raise HashMismatch(
                f"{what} of run {run_id[:8]} {fault}; see `assaymark verify {run_id[:8]}`, "
                f"then compute it again with `assaymark rescore {run_id[:8]}`"
            )
    return [estimate_of(row) for row in rows]


# -------------------------------------------------------------------------------- generated texts


def generated(database: Database, run_id: str) -> list[GeneratedRow]:
    """Return one row for each task, turn and finish reason, for tasks that generate, in the plan's order.

    The database counts them; no text is read.
    """
    with database.reading() as connection:
        number = run_number(connection, run_id)
        counted_rows = connection.execute(
            select(run_tasks.c.name, requests.c.turn, outputs.c.finish_reason, _n_texts, _n_failed, _n_tokens)
            .join(requests, requests.c.run_task == run_tasks.c.id)
            .join(outputs, outputs.c.request == requests.c.id)
            .where(run_tasks.c.run == number, _is_generated)
            .group_by(run_tasks.c.position, run_tasks.c.name, requests.c.turn, outputs.c.finish_reason)
            .order_by(run_tasks.c.position, requests.c.turn, outputs.c.finish_reason)
        ).all()
    rows = [GeneratedRow(row[0], row[1], row[2], row[3], row[4], int(row[5])) for row in counted_rows]
    generating = {row.task for row in rows if row.n_texts}
    return [row for row in rows if row.task in generating]


def first_error(database: Database, run_id: str) -> str | None:
    """Return the error of the run's first failed output, None if none failed."""
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
