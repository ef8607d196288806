"""Rows of requests: they are stored before they are sent to the model, and compared when a run is continued."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, select

from assaymark.errors import HashMismatch, Permanent, names_under
from assaymark.records import Request, Sample, n_outputs_of
from assaymark.store.connection import Database
from assaymark.store.leases import Leases
from assaymark.store.packing import pack_hash, text_digest, to_json, unpack_hash
from assaymark.store.request_texts import (
    SplitRequest,
    TextDigests,
    chunks,
    hash_of,
    join_request,
    load_texts,
    split_request,
    store_texts,
)
from assaymark.store.runs import add_tasks, break_seal, next_id, run_number
from assaymark.store.schema import StoredRow, as_saved, insert_rows, outputs, requests, run_tasks, scores, with_checksum
from assaymark.store.sealed_rows import mark, recogniser

WRITTEN_AT_ONCE = 2000  # requests in one transaction: well under a second, so that other writers need not wait
WITH_IMAGES_AT_ONCE = 50  # the same with images, which are packed and held in memory


PERMANENT_ERRORS = sorted(names_under(Permanent))  # the same request would fail in the same way

_is_answer = outputs.c.error.is_(None) | outputs.c.error_kind.in_(PERMANENT_ERRORS)
_n_answers = (
    select(func.count())
    .where(outputs.c.request == requests.c.id, _is_answer)
    .correlate(requests)
    .scalar_subquery()
    .label("n_answers")
)
_of_samples = (
    (requests.c.run_task == bindparam("run_task"))
    & (requests.c.sample_index >= bindparam("first"))
    & (requests.c.sample_index <= bindparam("last"))
)
_insert_requests = insert(requests)
_stored = select(requests).where(_of_samples)
_stored_with_answers = select(
    requests.c.id, requests.c.sample_index, requests.c.turn, requests.c.content_hash, requests.c.n_outputs, _n_answers
).where(_of_samples)
_answers = select(outputs.c.request, outputs.c.ask_index, outputs.c.repeat).where(
    outputs.c.request.in_(bindparam("ids", expanding=True)), _is_answer
)


@dataclass(frozen=True, slots=True, eq=False)
class _HashedRequest:
    """A request with its content hash; compared by identity, because hashing its texts again is slow."""

    split: SplitRequest
    hash: bytes


def task_numbers(connection: Connection, run: int) -> dict[str, int]:
    """Return the row ids of a run's tasks by name, in the plan's order."""
    of_run = select(run_tasks).where(run_tasks.c.run == run).order_by(run_tasks.c.position)
    return {row.name: row.id for row in as_saved(run_tasks, connection.execute(of_run))}


def add_requests(
    database: Database, leases: Leases, run_id: str, run_requests: Sequence[Request], samples: Sequence[Sample] = ()
) -> dict[str, tuple[int, int]]:
    """Store the requests that are new or changed; return their row ids, each with that of its task, by request id.

    Raises: LeaseLost or RunBusy if another writer has the run.
    """
    written: dict[str, tuple[int, int]] = {}
    rows = {(sample.task, sample.index): sample for sample in samples}
    digests = TextDigests()
    at_once = WITH_IMAGES_AT_ONCE if any(request.images for request in run_requests) else WRITTEN_AT_ONCE
    for some in chunks(list({request.id: request for request in run_requests}.values()), at_once):
        hashed = [_HashedRequest(split, hash_of(split, digests)) for split in map(split_request, some)]
        with database.reading() as connection:  # a resumed run usually has nothing to write, so it needs no lock
            new, changed = _new_and_changed(connection, run_number(connection, run_id), hashed)
        if not new and not changed:
            continue
        with database.writing() as connection:
            number = run_number(connection, run_id)
            leases.check(connection, run_id, number)
            database.lock_structure(connection)
            break_seal(connection, number)
            known = task_numbers(connection, number)
            names = [item.split.request.task for item in new]
            add_tasks(connection, number, [name for name in dict.fromkeys(names) if name not in known])
            new, changed = _new_and_changed(connection, number, [*new, *changed])
            _forget_answers(connection, list(changed.values()))
            written |= _insert(connection, number, new, changed, rows, digests)
    return written


def unanswered(database: Database, run_id: str, run_requests: Sequence[Request]) -> list[Request]:
    """Return the requests without those queries that have an output."""
    digests = TextDigests()
    left: dict[int, Request] = {}
    partly: dict[int, tuple[int, Request]] = {}  # row id -> position, request
    with database.reading() as connection:
        known = task_numbers(connection, run_number(connection, run_id))
        stored = _look_up(connection, _stored_with_answers, known, run_requests)
        for position, request in enumerate(run_requests):
            row = stored.get((request.task, request.sample_index, request.turn))
            if row is None or row.content_hash != hash_of(split_request(request), digests) or not row.n_answers:
                left[position] = request
            elif row.n_answers < row.n_outputs:
                partly[row.id] = (position, request)
        answered = _answered_repeats(connection, list(partly))
    for number, (position, request) in partly.items():
        queries = tuple(
            query for query in request.queries if answered.get((number, query.index), 0) < n_outputs_of(query)
        )
        left[position] = replace(request, queries=queries)
    return [request for _, request in sorted(left.items()) if request.queries]


def _look_up(
    connection: Connection,
    statement: "Select[*tuple[object, ...]]",
    known: Mapping[str, int],
    run_requests: Iterable[Request],
) -> dict[tuple[str, int, int], StoredRow]:
    """Return the stored rows of these requests, and of samples between them, by task, sample index and turn."""
    ranges: dict[str, tuple[int, int]] = {}
    for request in run_requests:
        index = request.sample_index
        first, last = ranges.get(request.task, (index, index))
        ranges[request.task] = (min(first, index), max(last, index))
    rows: dict[tuple[str, int, int], StoredRow] = {}
    for task, (first, last) in ranges.items():
        if task in known:
            values = {"run_task": known[task], "first": first, "last": last}
            for row in connection.execute(statement, values):
                rows[task, row.sample_index, row.turn] = row
    return rows


def _answered_repeats(connection: Connection, ids: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the number of repeats of each query that have an output, by request row id and query index."""
    counts: dict[tuple[int, int], int] = {}
    for some in chunks(ids):
        for request, ask_index, _ in connection.execute(_answers, {"ids": some}):
            counts[request, ask_index] = counts.get((request, ask_index), 0) + 1
    return counts


def _new_and_changed(
    connection: Connection, number: int, hashed: Sequence[_HashedRequest]
) -> tuple[list[_HashedRequest], dict[_HashedRequest, int]]:
    """Return the requests that are not stored, and those stored with another content (with their row ids)."""
    known = task_numbers(connection, number)
    stored = _look_up(connection, _stored, known, [item.split.request for item in hashed])
    new: list[_HashedRequest] = []
    changed: dict[_HashedRequest, int] = {}
    for item in hashed:
        request = item.split.request
        row = stored.get((request.task, request.sample_index, request.turn))
        if row is None:
            new.append(item)
        elif row.content_hash != item.hash and not _is_part_of(connection, request, row):
            changed[item] = row.id
    return new, changed


def _is_part_of(connection: Connection, request: Request, row: StoredRow) -> bool:
    """Return whether a request is the stored one without some of its queries, as `unanswered` returns it."""
    if not request.queries:  # `unanswered` omits such requests
        return False
    try:
        whole = restore(request.task, row, load_texts(connection, text_ids(row.pieces, row.form)))
    except HashMismatch:
        return False  # the stored one cannot be read, so it is replaced
    indices = {query.index for query in request.queries}
    return replace(whole, queries=tuple(query for query in whole.queries if query.index in indices)) == request


def text_ids(pieces: str, form: int) -> list[int]:
    """Return the ids of a stored request's texts: its pieces, then its form.

    Raises: HashMismatch if the list cannot be read.
    """
    try:
        return [*(int(number) for number in json.loads(pieces)), form]
    except (ValueError, TypeError, RecursionError) as error:
        raise HashMismatch(
            f"a request has the text list {pieces!r}; expected numbers: run `assaymark verify`"
        ) from error


def restore(task: str, row: StoredRow, loaded: Mapping[int, str]) -> Request:
    """Return the request of a row whose texts were loaded."""
    *pieces, form = (loaded[number] for number in text_ids(row.pieces, row.form))
    return join_request((task, row.sample_index, row.turn), unpack_hash(row.sample_sha256), form, pieces)


def _forget_answers(connection: Connection, ids: Sequence[int]) -> None:
    for some in chunks(ids):
        connection.execute(delete(scores).where(scores.c.request.in_(some)))
        connection.execute(delete(outputs).where(outputs.c.request.in_(some)))


def _insert(
    connection: Connection,
    number: int,
    new: Sequence[_HashedRequest],
    changed: Mapping[_HashedRequest, int],
    rows: Mapping[tuple[str, int], Sample],
    digests: TextDigests,
) -> dict[str, tuple[int, int]]:
    """Write request rows and the texts they need, a changed one under its row id; return what `add_requests` does."""
    everything = [*new, *changed]
    wanted: dict[bytes, str] = {}
    sample_rows: list[bytes | None] = []
    for item in everything:
        wanted.update({digests.of(piece): piece for piece in item.split.pieces})
        wanted[text_digest(item.split.form)] = item.split.form
        sample = rows.get((item.split.request.task, item.split.request.sample_index))
        if sample is None:
            sample_rows.append(None)
        else:
            text = to_json(dict(sample.row))
            sample_rows.append(text_digest(text))
            wanted[text_digest(text)] = text
    ids = store_texts(connection, wanted)
    for some in chunks(list(changed.values())):
        connection.execute(delete(requests).where(requests.c.id.in_(some)))
    tasks = task_numbers(connection, number)
    first = next_id(connection, requests)
    values = []
    for i, (item, sample_row) in enumerate(zip(everything, sample_rows, strict=True)):
        row = _row(item, ids, digests) | {
            "id": changed.get(item, first + i),
            "run_task": tasks[item.split.request.task],
            "sample_row": None if sample_row is None else ids[sample_row],
        }
        values.append(with_checksum(requests, row))
    insert_rows(connection, _insert_requests, values)
    if (known := recogniser(connection)) is not None:
        sources = {ids[sha256]: own for sha256, text in wanted.items() if (own := known.sources(text))}
        if sources:
            mark(connection, _copies(values, sources))
    return {item.split.request.id: (row["id"], row["run_task"]) for item, row in zip(everything, values, strict=True)}


def _copies(values: Sequence[Mapping[str, Any]], sources: Mapping[int, frozenset[str]]) -> Iterator[tuple[int, str]]:
    """Yield the tasks whose requests have rows of sealed data sets; `sources` are those of texts, by their row ids."""
    for row in values:
        for number in (*text_ids(row["pieces"], row["form"]), row["sample_row"]):
            yield from ((row["run_task"], own) for own in sources.get(number, ()))


def _row(item: _HashedRequest, ids: Mapping[bytes, int], digests: TextDigests) -> dict[str, object]:
    """Return the columns of a request's row that depend on the request alone."""
    request = item.split.request
    return {
        "sample_index": request.sample_index,
        "turn": request.turn,
        "content_hash": item.hash,
        "sample_sha256": pack_hash(request.sample_sha256),
        "n_outputs": item.split.n_outputs,
        "pieces": to_json([ids[digests.of(piece)] for piece in item.split.pieces]),
        "form": ids[text_digest(item.split.form)],
    }
