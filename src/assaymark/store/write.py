"""The writer: collects outputs and scores and stores them in batches, each in one transaction.

A batch is written after half a second by a timer, not by the next call, because the next output of a slow model may
take a minute. A batch that cannot be written stays in memory and can be written later, when there is space again.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, delete, insert, select

from assaymark.errors import LeaseLost, StoreError
from assaymark.records import Output, Score
from assaymark.store.answer_rows import output_row, score_row
from assaymark.store.connection import Database
from assaymark.store.leases import Leases
from assaymark.store.packing import pack_hash
from assaymark.store.request_rows import task_numbers
from assaymark.store.request_texts import chunks
from assaymark.store.runs import break_seal, change_row, next_id, run_number
from assaymark.store.schema import insert_rows, outputs, requests, scores, scorings, upsert, with_checksum

BATCH_SECONDS = 0.5
BATCH_ROWS = 4000
NEIGHBOURS = 500  # sample indices looked up around an unknown one, because they are likely to be next

_ids_of_task = select(requests.c.sample_index, requests.c.turn, requests.c.id).where(
    requests.c.run_task == bindparam("run_task"),
    requests.c.sample_index >= bindparam("first"),
    requests.c.sample_index <= bindparam("last"),
)
_drop_scores = delete(scores).where(scores.c.request.in_(bindparam("ids", expanding=True)))

ScoringName = tuple[int, str, str, str]  # row id of the run's task, scoring hash, filter, metric


def split_request_id(request_id: str) -> tuple[str, int, int]:
    """Return task, sample index and turn of a request id.

    Raises: StoreError if it is not one.
    """
    task, _, rest = request_id.rpartition("/")
    task, _, index = task.rpartition("/")
    if not task or not index.isdecimal() or not rest.isdecimal():
        raise StoreError(f"'{request_id}' is not a request id; expected <task>/<sample index>/<turn>")
    return task, int(index), int(rest)


@dataclass(slots=True)
class _KnownRows:
    """The known row ids of one run; looked up as they are needed."""

    number: int
    tasks: dict[str, int] = field(default_factory=dict)
    requests: dict[str, tuple[int, int]] = field(default_factory=dict)  # request id -> (row id, row id of its task)
    scorings: dict[tuple[int, str, str], tuple[str, int]] = field(default_factory=dict)
    """(row id of the task, filter, metric) -> (scoring hash, row id) of the current scoring."""


class Writer:
    """Collects outputs and scores of this process's runs."""

    def __init__(self, database: Database, leases: Leases) -> None:
        self._database = database
        self._leases = leases
        self._lock = threading.RLock()
        self._known: dict[str, _KnownRows] = {}
        self._outputs: dict[str, list[dict[str, object]]] = {}  # by run id
        self._scores: list[tuple[str, ScoringName, Score, int]] = []
        self._touched: dict[str, _KnownRows] = {}  # runs with collected rows
        self._scored: set[int] = set()  # row ids of requests with collected scores
        self._timer: threading.Timer | None = None
        self._must_retry = False

    def add_outputs(self, run_id: str, attempt_id: int, received: Iterable[Output]) -> None:
        """Collect outputs.

        Raises: LeaseLost if another writer took the run over.
        """
        with self._lock:
            self._leases.refuse_lost(run_id)
            self._retry()
            new = list(received)
            known = self._known_rows(run_id, [output.request_id for output in new])
            rows = [output_row(output, known.requests[output.request_id][0], attempt_id) for output in new]
            if any(row["request"] in self._scored for row in rows):
                self.flush()  # those scores belong to the replaced outputs
            self._outputs.setdefault(run_id, []).extend(rows)
            self._collected(run_id, known)

    def learn(self, run_id: str, row_ids: Mapping[str, tuple[int, int]]) -> None:
        """Take over the row ids of requests that were just stored, each with that of its task, by request id."""
        with self._lock:
            if (known := self._known.get(run_id)) is not None:
                known.requests.update(row_ids)

    def add_scores(self, run_id: str, received: Iterable[Score], scoring_hash: str) -> None:
        """Collect scores.

        Raises: LeaseLost if another writer took the run over.
        """
        with self._lock:
            self._leases.refuse_lost(run_id)
            self._retry()
            self._collect_scores(run_id, list(received), scoring_hash)
            self._collected(run_id, self._known[run_id])

    def write_scorings(
        self, run_id: str, scored: Sequence[tuple[Sequence[Score], str]], finish: Callable[[Connection], None]
    ) -> None:
        """Store scores under the hashes of their scorings, and call `finish`, in one transaction.

        Raises: StoreError; nothing is stored then.
        """
        with self._lock:
            self.flush()
            try:
                for some, scoring_hash in scored:
                    self._collect_scores(run_id, some, scoring_hash)
                with self._database.writing() as connection:
                    self._write(connection)
                    finish(connection)
            except BaseException:
                self.drop(run_id)
                raise
            self._clear()

    def _collect_scores(self, run_id: str, new: Sequence[Score], scoring_hash: str) -> None:
        known = self._known_rows(run_id, [score.request_id for score in new])
        for score in new:
            request, task = known.requests[score.request_id]
            score_row(score, request, 0)  # raises for an invalid score here, where the caller is in the traceback
            self._scores.append((run_id, (task, scoring_hash, score.filter, score.metric), score, request))
            self._scored.add(request)
        self._touched[run_id] = known

    def flush(self) -> None:
        """Write what is collected.

        Raises: StoreError; what could not be written stays in memory. LeaseLost if another writer took a run over; what
            was collected of that run is dropped.
        """
        with self._lock:
            self._stop_timer()
            self._must_retry = False
            if not self._outputs and not self._scores:
                return
            try:
                with self._database.writing() as connection:
                    self._write(connection)
            except StoreError as error:
                self._must_retry = True
                for known in self._known.values():
                    known.scorings.clear()  # some may have been created in the failed transaction
                if isinstance(error, LeaseLost):
                    self._drop_lost()
                raise
            self._clear()

    def _drop_lost(self) -> None:
        """Drop what was collected of runs that other writers have; the rest can still be written."""
        for run_id in list(self._touched):
            try:
                self._leases.refuse_lost(run_id)
            except LeaseLost:
                self.drop(run_id)

    def _clear(self) -> None:
        self._outputs.clear()
        self._scores = []
        self._touched.clear()
        self._scored.clear()

    def forget(self, run_id: str) -> None:
        """Forget a run's row ids, so that they are looked up again."""
        with self._lock:
            self._known.pop(run_id, None)

    def drop(self, run_id: str) -> None:
        """Drop what is collected of a run."""
        with self._lock:
            self._outputs.pop(run_id, None)
            self._touched.pop(run_id, None)
            self._scores = [each for each in self._scores if each[0] != run_id]
            self._scored = {request for _, _, _, request in self._scores}
            self._known.pop(run_id, None)

    def close(self) -> None:
        """Write what is collected, for the last time."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._stop_timer()
                self._clear()

    # -------------------------------------------------------------------------------------- batches

    def _collected(self, run_id: str, known: _KnownRows) -> None:
        self._touched[run_id] = known
        if sum(map(len, self._outputs.values())) + len(self._scores) >= BATCH_ROWS:
            self.flush()
        elif self._timer is None:
            self._timer = threading.Timer(BATCH_SECONDS, self._flush_in_time)
            self._timer.daemon = True
            self._timer.start()

    def _flush_in_time(self) -> None:
        """Flush from the timer's thread, where no caller can catch an error: the next call tries again and raises."""
        with self._lock:
            self._timer = None
            try:
                self.flush()
            except StoreError:
                self._must_retry = True

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _retry(self) -> None:
        if self._must_retry:
            self.flush()

    def _write(self, connection: Connection) -> None:
        for run_id, known in self._touched.items():
            number = run_number(connection, run_id)
            if number != known.number:
                raise StoreError(f"run {run_id} was removed and created again while it was written; run again")
            self._leases.check(connection, run_id, number)
            break_seal(connection, number, texts_change=run_id in self._outputs)
        rows = [row for of_run in self._outputs.values() for row in of_run]
        for some in chunks(list({row["request"] for row in rows})):
            connection.execute(_drop_scores, {"ids": some})
        if rows:
            insert_rows(connection, upsert(connection.dialect.name, outputs), rows)
        if self._scores:
            numbers = self._scoring_numbers(connection)
            rows = [score_row(score, request, numbers[run_id, name]) for run_id, name, score, request in self._scores]
            insert_rows(connection, upsert(connection.dialect.name, scores), rows)

    # --------------------------------------------------------------------------------------- row ids

    def _known_rows(self, run_id: str, request_ids: Iterable[str]) -> _KnownRows:
        """Return the row ids of a run, with those of these requests.

        Raises: StoreError for a request that was never added.
        """
        known = self._known.get(run_id)
        missing = [name for name in request_ids if known is None or name not in known.requests]
        if known is None or missing:
            with self._database.reading() as connection:
                if known is None:
                    known = self._known[run_id] = _KnownRows(run_number(connection, run_id))
                known.tasks = task_numbers(connection, known.number)
                self._find_requests(connection, known, missing)
        for name in missing:
            if name not in known.requests:
                raise StoreError(f"request {name} of run {run_id} is not in the store; expected add_requests before it")
        return known

    @staticmethod
    def _find_requests(connection: Connection, known: _KnownRows, missing: Iterable[str]) -> None:
        ranges: dict[str, tuple[int, int]] = {}
        for name in missing:
            task, index, _ = split_request_id(name)
            first, last = ranges.get(task, (index, index))
            ranges[task] = (min(first, index), max(last, index))
        for task, (first, last) in ranges.items():
            if (number := known.tasks.get(task)) is not None:
                values = {"run_task": number, "first": first - NEIGHBOURS, "last": last + NEIGHBOURS}
                for index, turn, request in connection.execute(_ids_of_task, values):
                    known.requests[f"{task}/{index}/{turn}"] = (request, number)

    def _scoring_numbers(self, connection: Connection) -> dict[tuple[str, ScoringName], int]:
        """Return the row ids of the collected scores' scorings; those used last become the current ones."""
        numbers: dict[tuple[str, ScoringName], int] = {}
        named = dict.fromkeys((run_id, name) for run_id, name, _, _ in reversed(self._scores))
        for run_id, name in reversed(named):  # in the order of their last use
            current = self._touched[run_id].scorings
            key = (name[0], *name[2:])
            held = current.get(key)
            if held is None or held[0] != name[1]:
                held = current[key] = (name[1], self._make_current(connection, name))
            numbers[run_id, name] = held[1]
        return numbers

    def _make_current(self, connection: Connection, name: ScoringName) -> int:
        task, scoring_hash, filter_name, metric = name
        self._database.lock_structure(connection)
        alike = connection.execute(
            select(scorings).where(
                scorings.c.run_task == task, scorings.c.filter == filter_name, scorings.c.metric == metric
            )
        ).all()
        latest = max((row.sequence for row in alike), default=0)
        packed = pack_hash(scoring_hash)
        for row in alike:
            if row.scoring_hash == packed:
                if row.sequence < latest:
                    change_row(connection, scorings, row, sequence=latest + 1)
                return int(row.id)
        number = next_id(connection, scorings)
        fresh = {
            "id": number,
            "run_task": task,
            "scoring_hash": packed,
            "filter": filter_name,
            "metric": metric,
            "sequence": latest + 1,
        }
        connection.execute(insert(scorings), with_checksum(scorings, fresh))
        return number
