"""Verification of a store: every hash, checksum, reference and count is computed again and compared.

`verify` reports mismatches and repairs nothing. A row that cannot be read is a problem too, and does not end the
verification. Columns are read as the driver returns them, because a damaged value may not have its column's type.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from typing import TypeVarTuple, cast

from sqlalchemy import Connection, Select, Table, and_, func, select
from sqlalchemy.exc import SQLAlchemyError

from assaymark.errors import HashMismatch, StoreError
from assaymark.store.answer_rows import repeated_details
from assaymark.store.connection import OpenStore
from assaymark.store.feature_tables import FeatureTables, feature_tables
from assaymark.store.packing import text_digest, unpack_hash, unpack_json, unpack_text
from assaymark.store.plan_json import plan_from_json
from assaymark.store.request_rows import task_numbers, text_ids
from assaymark.store.request_texts import chunks, content_hash, join_request
from assaymark.store.rows import Problem
from assaymark.store.run_facts import facts_row
from assaymark.store.runs import counts_of, run_number, sealed_counts
from assaymark.store.sample_facts import FACT_COLUMNS, FactTask, derive, fact_tasks
from assaymark.store.schema import (
    StoredRow,
    attempts,
    estimates,
    fact_sets,
    metadata,
    outputs,
    requests,
    row_checksum,
    run_facts,
    run_leases,
    run_tasks,
    runs,
    sample_facts,
    scores,
    scorings,
    search_sets,
    texts,
)
from assaymark.store.sealed_rows import sealed_copies, sealed_rows
from assaymark.store.sealed_tasks import sealed_tasks
from assaymark.store.search import count_rows, n_indexed

READ_AT_ONCE = 500
UNREADABLE = (
    SQLAlchemyError, sqlite3.Error, StoreError, ValueError, TypeError, LookupError, OverflowError, MemoryError,
    RecursionError,
)  # fmt: skip
OWN_ROWS = (
    *(attempts, run_leases, run_tasks, outputs, scorings, scores),
    *(estimates, run_facts, fact_sets, sample_facts, search_sets, sealed_copies),
)


Columns = TypeVarTuple("Columns")  # of a query


def verify(store: OpenStore, run_id: str | None = None) -> list[Problem]:
    """Return the problems of the store, or of one run in it."""
    database, features = store.database, feature_tables()
    logs: list[Problem] = []
    for feature in features if run_id is None else ():
        if feature.log_problems is not None:
            logs += _log_problems(feature.log, partial(feature.log_problems, store))
    with database.reading() as connection, _lenient_text(connection):
        number = None if run_id is None else run_number(connection, run_id)
        search = _Verification(connection, number, features)
        if number is None and database.is_sqlite:
            search.guarded("file", search.check_file)
        search.check_everything()
    return search.problems + logs


def _log_problems(table: str, check: Callable[[], list[str]]) -> list[Problem]:
    """Return the problems of an append-only log."""
    try:
        lines = check()
    except UNREADABLE as error:
        lines = [f"cannot be read: {str(error).splitlines()[0]}"]
    return [Problem(table, "log", line) for line in lines]


@contextmanager
def _lenient_text(connection: Connection) -> Iterator[None]:
    """Read damaged text that is not UTF-8 too, so that its row is reported and later rows are read."""
    if connection.dialect.name != "sqlite":
        yield
        return
    driver = cast("sqlite3.Connection", connection.connection.driver_connection)
    usual = driver.text_factory
    driver.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = usual


class _Verification:
    """One verification of a store or run."""

    def __init__(self, connection: Connection, number: int | None, features: Sequence[FeatureTables]) -> None:
        self.connection = connection
        self.number = number
        self.features = features
        self.problems: list[Problem] = []
        self.digests: dict[int, bytes] = {}  # of the texts, computed from their content
        self.bad_texts: dict[int, str] = {}
        self.users: dict[int, list[str]] = {}  # the requests that use a bad text

    def found(self, table: str, row: str, what: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(table, row, what))

    def guarded(self, what: str, check: Callable[[], None]) -> None:
        """Run a check, and report an error while reading as a problem."""
        try:
            check()
        except UNREADABLE as error:
            self.found(what, "(some)", f"cannot be read: {str(error).splitlines()[0]}")

    def check_everything(self) -> None:
        """Check all tables; texts before the requests that refer to them."""
        self.guarded("texts", self._check_texts)
        self.guarded("runs", partial(self._check_rows, runs, self._check_run))
        self.guarded("requests", self._check_requests)
        for table in OWN_ROWS:
            self.guarded(table.name, lambda table=table: self._check_rows(table))  # type: ignore[misc]
        of_no_run = (sealed_tasks, sealed_rows, *(table for feature in self.features for table in feature.tables))
        for table in of_no_run if self.number is None else ():
            if "checksum" in table.c:
                self.guarded(table.name, lambda table=table: self._check_rows(table))  # type: ignore[misc]
        for table in metadata.sorted_tables:
            if self.number is None or table not in of_no_run:
                self.guarded(table.name, lambda table=table: self._check_parents(table))  # type: ignore[misc]
        self.guarded("scores", self._check_scorings)
        self.guarded("outputs", self._check_attempts)
        self.guarded("runs", self._check_derived)
        for number, what in self.bad_texts.items():
            users = self.users.get(number, [])
            self.found("texts", f"{number} (used by {len(users)} requests, {', '.join(users[:3])})", what)

    def check_file(self) -> None:
        """Check pages and indexes by SQLite's own integrity check."""
        for (line,) in self.connection.exec_driver_sql("PRAGMA integrity_check").all():
            if line != "ok":
                self.found("file", "pages", str(line))

    # ----------------------------------------------------------------------------------------- rows

    def _mine(self, table: Table, statement: "Select[*Columns]") -> "Select[*Columns]":
        """Limit a statement to the run that is verified."""
        if self.number is None:
            return statement
        tasks = select(run_tasks.c.id).where(run_tasks.c.run == self.number)
        if "run_task" in table.c:
            return statement.where(table.c.run_task.in_(tasks))
        if "request" in table.c:
            return statement.where(table.c.request.in_(select(requests.c.id).where(requests.c.run_task.in_(tasks))))
        return statement.where((table.c.id if table is runs else table.c.run) == self.number)

    def _read(self, table: Table) -> Iterator[Sequence[StoredRow]]:
        """Yield a table's rows in batches, each value as the driver returns it."""
        statement = self._mine(table, select(table))
        rows = self.connection.execute(statement.execution_options(yield_per=READ_AT_ONCE))
        yield from rows.partitions(READ_AT_ONCE)

    def _check_rows(self, table: Table, check: Callable[[StoredRow], None] | None = None) -> None:
        keys = [column.name for column in table.primary_key.columns]
        for batch in self._read(table):
            for row in batch:
                if row_checksum(table, row) != row.checksum:
                    which = ", ".join(f"{key} {getattr(row, key)}" for key in keys)
                    self.found(table.name, which, "its checksum does not match its values")
                elif check is not None:
                    self.guarded(table.name, lambda row=row: check(row))  # type: ignore[misc]

    def _check_texts(self) -> None:
        if self.number is None:
            for batch in self._read(texts):
                self._derive(batch)
            return
        for batch in self._read(requests):
            wanted = {row.sample_row for row in batch if row.sample_row is not None}
            for row in batch:
                try:
                    wanted.update(text_ids(row.pieces, row.form))
                except UNREADABLE:
                    continue  # the checksum of the row is checked elsewhere
            for some in chunks([number for number in wanted if number not in self.digests]):
                rows = self.connection.execute(select(texts).where(texts.c.id.in_(some)))
                self._derive(rows.all())

    def _derive(self, rows: Sequence[StoredRow]) -> None:
        for row in rows:
            try:
                derived = text_digest(unpack_text(row.content))
            except UNREADABLE as error:
                self.bad_texts[row.id] = f"cannot be read: {error}"
                derived = b""
            self.digests[row.id] = derived
            if derived and derived != row.sha256:
                stored = row.sha256.hex() if isinstance(row.sha256, bytes) else repr(row.sha256)
                self.bad_texts[row.id] = f"its SHA-256 is {derived.hex()}, but it is stored under {stored}"

    # -------------------------------------------------------------------------------- runs, requests

    def _check_run(self, row: StoredRow) -> None:
        plan = plan_from_json(unpack_text(row.plan))
        key = unpack_hash(row.key)
        if plan.key != key:
            self.found("runs", row.run_id, f"its plan has the key {plan.key}, but it is stored under {key}")
        if not key.removeprefix("sha256:").startswith(row.run_id):
            self.found("runs", row.run_id, f"its id is not the beginning of its key {key}")
        missing = {task.name for task in plan.tasks} - set(task_numbers(self.connection, row.id))
        if missing:
            self.found("runs", row.run_id, f"tasks of its plan are missing: {', '.join(sorted(missing))}")
        if row.seal is not None:
            sealed, counted = sealed_counts(row.seal), counts_of(self.connection, row.id)
            for name, count in sealed.items():
                if counted[name] != count:
                    self.found("runs", row.run_id, f"{name} is {counted[name]}, but was {count} when the run finished")

    def _check_requests(self) -> None:
        names = dict(self.connection.execute(select(run_tasks.c.id, run_tasks.c.name)).all())
        for batch in self._read(requests):
            forms = self._forms(batch)
            for row in batch:
                task = names.get(row.run_task, f"(task {row.run_task})")
                name = f"{task}/{row.sample_index}/{row.turn}"
                if row_checksum(requests, row) != row.checksum:
                    self.found("requests", name, "its checksum does not match its values")
                    continue
                try:
                    self._check_request(row, (task, row.sample_index, row.turn), forms)
                except UNREADABLE as error:
                    self.found("requests", name, str(error))

    def _forms(self, batch: Sequence[StoredRow]) -> dict[int, str]:
        """Return the readable texts of the requests' forms, by id."""
        forms: dict[int, str] = {}
        for some in chunks(list({row.form for row in batch if row.form not in self.bad_texts})):
            statement = select(texts.c.id, texts.c.content).where(texts.c.id.in_(some))
            forms.update({number: unpack_text(content) for number, content in self.connection.execute(statement)})
        return forms

    def _check_request(self, row: StoredRow, key: tuple[str, int, int], forms: dict[int, str]) -> None:
        name = "/".join(map(str, key))
        *pieces, form = text_ids(row.pieces, row.form)
        needed = [*pieces, form, *([] if row.sample_row is None else [row.sample_row])]
        damaged = [number for number in needed if number in self.bad_texts]
        for number in damaged:
            self.users.setdefault(number, []).append(name)
        missing = [number for number in needed if number not in self.digests]
        if missing:
            raise HashMismatch(f"texts {missing} are missing")
        if damaged:
            return
        derived = content_hash(
            key, unpack_hash(row.sample_sha256), forms[form], [self.digests[number] for number in pieces]
        )
        if derived != row.content_hash:
            raise HashMismatch(f"the hash of its content is {derived.hex()}, but {row.content_hash.hex()} is stored")
        request = join_request(key, "", forms[form], [""] * len(pieces))
        expected = request.n_outputs
        if expected != row.n_outputs:
            raise HashMismatch(f"its queries have {expected} outputs, but {row.n_outputs} is stored")

    # ----------------------------------------------------------------------------------- references

    def _check_parents(self, table: Table) -> None:
        """Check that every row's parent exists (other programs can switch SQLite's foreign keys off)."""
        for column in table.columns:
            for key in column.foreign_keys:
                parent = key.column
                lost = select(func.count()).select_from(table.outerjoin(parent.table, parent == column))
                count = self.connection.execute(self._mine(table, lost.where(parent.is_(None)))).scalar_one()
                if count:
                    self.found(table.name, f"{count} rows", f"their {column.name} is missing in {parent.table.name}")

    def _check_scorings(self) -> None:
        joined = scores.join(requests, requests.c.id == scores.c.request).outerjoin(
            scorings, and_(scorings.c.id == scores.c.scoring, scorings.c.run_task == requests.c.run_task)
        )
        lost = select(func.count()).select_from(joined).where(scorings.c.id.is_(None))
        if count := self.connection.execute(self._mine(scores, lost)).scalar_one():
            self.found("scores", f"{count} rows", "their scoring does not belong to their task")

    def _check_attempts(self) -> None:
        joined = (
            outputs.join(requests, requests.c.id == outputs.c.request)
            .join(run_tasks, run_tasks.c.id == requests.c.run_task)
            .outerjoin(attempts, and_(attempts.c.run == run_tasks.c.run, attempts.c.number == outputs.c.attempt))
        )
        lost = select(func.count()).select_from(joined).where(attempts.c.number.is_(None))
        if count := self.connection.execute(self._mine(outputs, lost)).scalar_one():
            self.found("outputs", f"{count} rows", "their attempt does not belong to their run")

    def _check_derived(self) -> None:
        rows = self.connection.execute(self._mine(runs, select(runs.c.id, runs.c.run_id, runs.c.plan))).all()
        for row in rows:
            self.guarded("facts", lambda row=row: self.problems.extend(derived_problems(self.connection, row)))  # type: ignore[misc]


DERIVED_AT_ONCE = 1000


def derived_problems(connection: Connection, run: StoredRow) -> Iterator[Problem]:
    """Yield the mismatches between a run's derived rows and their sources; `run` is its row of `runs`."""
    for check in (_facts_of_run, _estimates, _facts_of_samples, _index):
        try:
            yield from check(connection, run)
        except HashMismatch:
            continue


def _facts_of_run(connection: Connection, run: StoredRow) -> Iterator[Problem]:
    derived = facts_row(run.id, plan_from_json(unpack_text(run.plan)))
    stored = connection.execute(select(run_facts).where(run_facts.c.run == run.id)).mappings().one_or_none()
    if stored is None:
        yield Problem("run_facts", run.run_id, "they are missing")
        return
    for name, value in derived.items():
        if stored[name] != value:
            yield Problem("run_facts", run.run_id, f"{name} is {stored[name]!r}, but {value!r} in its plan")
            return


def _estimates(connection: Connection, run: StoredRow) -> Iterator[Problem]:
    of_run = select(estimates).where(estimates.c.run == run.id).order_by(estimates.c.position)
    for expected, row in enumerate(rows := connection.execute(of_run).all()):
        which = f"run {run.id}, position {row.position}"
        if row.position != expected and (not expected or row.position != rows[expected - 1].position + 1):
            yield Problem("estimates", which, "the estimate before it is missing")
        try:
            details = unpack_json(row.details)
        except HashMismatch as error:
            if row_checksum(estimates, row) == row.checksum:  # else the wrong checksum is reported
                yield Problem("estimates", which, str(error))
            continue
        for name, value in repeated_details(details).items():
            if getattr(row, name) != value:
                yield Problem("estimates", which, f"{name} is {getattr(row, name)!r}, but {value!r} in its details")


def _facts_of_samples(connection: Connection, run: StoredRow) -> Iterator[Problem]:
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


def _stored(connection: Connection, run_task: int) -> Iterator[StoredRow]:
    key = (sample_facts.c.sample_index, sample_facts.c.turn)
    of_task = select(*FACT_COLUMNS).where(sample_facts.c.run_task == run_task).order_by(*key)
    rows = connection.execute(of_task.execution_options(yield_per=DERIVED_AT_ONCE))
    for batch in rows.partitions(DERIVED_AT_ONCE):
        yield from batch


def _index(connection: Connection, run: StoredRow) -> Iterator[Problem]:
    n = n_indexed(connection, run.id)
    if n is None or n < 0:
        return
    of_run = requests.join(run_tasks, run_tasks.c.id == requests.c.run_task)
    counted = select(func.count()).select_from(of_run).where(run_tasks.c.run == run.id)
    n_requests, n_rows = connection.execute(counted).scalar_one(), count_rows(connection, run.id)
    if not n == n_requests == n_rows:
        what = f"its search index has {n_rows} rows and was built from {n} requests, but the run has {n_requests}"
        yield Problem("search_sets", run.run_id, what)
