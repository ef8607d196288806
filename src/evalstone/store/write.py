"""The writer: outputs and scores are gathered for a moment and stored in batches, each in one transaction.

A batch ends after half a second, by a timer and not by the next call, because the next output of a slow model may be
a minute away. A batch that cannot be written stays gathered: once there is space again it can still be stored.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from evalstone.errors import LeaseLost, StoreError
from evalstone.records import Output, Score
from evalstone.store.answer_rows import output_row, score_row
from evalstone.store.asked import task_numbers
from evalstone.store.connection import Database
from evalstone.store.leases import Leases
from evalstone.store.packing import pack_hash
from evalstone.store.runs import break_seal, change_row, next_id, run_number
from evalstone.store.schema import insert_rows, outputs, requests, scores, scorings, upsert, with_checksum
from evalstone.store.text_table import chunks

BATCH_SECONDS = 0.5
BATCH_ROWS = 4000
NEIGHBOURS = 500  # sample indices looked up around one whose place is not known: the next ones asked for

_places_of_task = select(requests.c.sample_index, requests.c.turn, requests.c.id).where(
    requests.c.run_task == bindparam("run_task"),
    requests.c.sample_index >= bindparam("first"),
    requests.c.sample_index <= bindparam("last"),
)
_drop_scores = delete(scores).where(scores.c.request.in_(bindparam("ids", expanding=True)))

ScoringName = tuple[int, str, str, str]  # row id of the run's task, scoring hash, filter, metric


def split_request_id(request_id: str) -> tuple[str, int, int]:
    """Return task, sample index and turn of a request id.

    Raises: StoreError if it is none.
    """
    task, _, rest = request_id.rpartition("/")
    task, _, index = task.rpartition("/")
    if not task or not index.isdecimal() or not rest.isdecimal():
        raise StoreError(f"'{request_id}' is no request id; expected <task>/<sample index>/<turn>")
    return task, int(index), int(rest)


@dataclass(slots=True)
class _RunPlaces:
    """Where the rows of one run are; filled as they are needed."""

    number: int
    tasks: dict[str, int] = field(default_factory=dict)
    requests: dict[str, tuple[int, int]] = field(default_factory=dict)  # request id -> (row id, row id of its task)
    scorings: dict[tuple[int, str, str], tuple[str, int]] = field(default_factory=dict)
    """(row id of the task, filter, metric) -> (scoring hash, row id) of the current one."""


class Writer:
    """Gathers outputs and scores of this process's runs."""

    def __init__(self, database: Database, leases: Leases) -> None:
        self._database = database
        self._leases = leases
        self._lock = threading.RLock()
        self._places: dict[str, _RunPlaces] = {}
        self._outputs: dict[str, list[dict[str, Any]]] = {}  # by run id
        self._scores: list[tuple[str, ScoringName, Score, int]] = []
        self._touched: dict[str, _RunPlaces] = {}  # runs with something gathered
        self._scored: set[int] = set()  # request rows with gathered scores
        self._timer: threading.Timer | None = None
        self._must_retry = False

    def add_outputs(self, run_id: str, attempt_id: int, given: Iterable[Output]) -> None:
        """Gather outputs.

        Raises: LeaseLost where another writer took the run over.
        """
        with self._lock:
            self._leases.refuse_lost(run_id)
            self._retry()
            new = list(given)
            places = self._places_of(run_id, [output.request_id for output in new])
            rows = [output_row(output, places.requests[output.request_id][0], attempt_id) for output in new]
            if any(row["request"] in self._scored for row in rows):
                self.flush()  # those scores belong to outputs that these replace
            self._outputs.setdefault(run_id, []).extend(rows)
            self._gathered(run_id, places)

    def add_scores(self, run_id: str, given: Iterable[Score], scoring_hash: str) -> None:
        """Gather scores.

        Raises: LeaseLost where another writer took the run over.
        """
        with self._lock:
            self._leases.refuse_lost(run_id)
            self._retry()
            self._gather_scores(run_id, list(given), scoring_hash)
            self._gathered(run_id, self._places[run_id])

    def write_scorings(
        self, run_id: str, scored: Sequence[tuple[Sequence[Score], str]], finish: Callable[[Connection], None]
    ) -> None:
        """Store scores under the hashes of what made them, and whatever `finish` does, in one transaction.

        Raises: StoreError, and nothing of it is stored.
        """
        with self._lock:
            self.flush()
            try:
                for some, scoring_hash in scored:
                    self._gather_scores(run_id, some, scoring_hash)
                with self._database.writing() as connection:
                    self._write(connection)
                    finish(connection)
            except BaseException:
                self.drop(run_id)
                raise
            self._clear()

    def _gather_scores(self, run_id: str, new: Sequence[Score], scoring_hash: str) -> None:
        places = self._places_of(run_id, [score.request_id for score in new])
        for score in new:
            request, task = places.requests[score.request_id]
            score_row(score, request, 0)  # an impossible score is refused here, where its maker can be seen
            self._scores.append((run_id, (task, scoring_hash, score.filter, score.metric), score, request))
            self._scored.add(request)
        self._touched[run_id] = places

    def flush(self) -> None:
        """Write what is gathered.

        Raises: StoreError; what could not be written stays gathered. LeaseLost where another writer took a run over;
            what was gathered of that run is dropped.
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
                for places in self._places.values():
                    places.scorings.clear()  # some may have been made in the transaction that failed
                if isinstance(error, LeaseLost):
                    self._drop_lost()
                raise
            self._clear()

    def _drop_lost(self) -> None:
        """Drop what was gathered of runs that other writers have; the rest can still be written."""
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
        """Look a run's rows up anew from here on."""
        with self._lock:
            self._places.pop(run_id, None)

    def drop(self, run_id: str) -> None:
        """Drop what is gathered of a run."""
        with self._lock:
            self._outputs.pop(run_id, None)
            self._touched.pop(run_id, None)
            self._scores = [each for each in self._scores if each[0] != run_id]
            self._scored = {request for _, _, _, request in self._scores}
            self._places.pop(run_id, None)

    def close(self) -> None:
        """Write what is gathered, for the last time."""
        with self._lock:
            try:
                self.flush()
            finally:
                self._stop_timer()
                self._clear()

    # -------------------------------------------------------------------------------------- batches

    def _gathered(self, run_id: str, places: _RunPlaces) -> None:
        self._touched[run_id] = places
        if sum(map(len, self._outputs.values())) + len(self._scores) >= BATCH_ROWS:
            self.flush()
        elif self._timer is None:
            self._timer = threading.Timer(BATCH_SECONDS, self._flush_in_time)
            self._timer.daemon = True
            self._timer.start()

    def _flush_in_time(self) -> None:
        """Flush from the timer's thread, where nobody can catch: the next call tries again and raises."""
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
        for run_id, places in self._touched.items():
            number = run_number(connection, run_id)
            if number != places.number:
                raise StoreError(f"run {run_id} was removed and made again while it was written; run again")
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

    # --------------------------------------------------------------------------------------- places

    def _places_of(self, run_id: str, request_ids: Iterable[str]) -> _RunPlaces:
        """Return where these requests are.

        Raises: StoreError if one was never added.
        """
        places = self._places.get(run_id)
        missing = [name for name in request_ids if places is None or name not in places.requests]
        if places is None or missing:
            with self._database.reading() as connection:
                if places is None:
                    places = self._places[run_id] = _RunPlaces(run_number(connection, run_id))
                places.tasks = task_numbers(connection, places.number)
                self._find_requests(connection, places, missing)
        for name in missing:
            if name not in places.requests:
                raise StoreError(f"request {name} of run {run_id} is not in the store; expected add_requests before it")
        return places

    @staticmethod
    def _find_requests(connection: Connection, places: _RunPlaces, missing: Iterable[str]) -> None:
        ranges: dict[str, tuple[int, int]] = {}
        for name in missing:
            task, index, _ = split_request_id(name)
            first, last = ranges.get(task, (index, index))
            ranges[task] = (min(first, index), max(last, index))
        for task, (first, last) in ranges.items():
            if (number := places.tasks.get(task)) is not None:
                values = {"run_task": number, "first": first - NEIGHBOURS, "last": last + NEIGHBOURS}
                for index, turn, request in connection.execute(_places_of_task, values):
                    places.requests[f"{task}/{index}/{turn}"] = (request, number)

    def _scoring_numbers(self, connection: Connection) -> dict[tuple[str, ScoringName], int]:
        """Return the row ids of the gathered scores' scorings; those named last become the current ones."""
        numbers: dict[tuple[str, ScoringName], int] = {}
        named = dict.fromkeys((run_id, name) for run_id, name, _, _ in reversed(self._scores))
        for run_id, name in reversed(named):  # in the order in which each was named last
            current = self._touched[run_id].scorings
            place = (name[0], *name[2:])
            held = current.get(place)
            if held is None or held[0] != name[1]:
                held = current[place] = (name[1], self._make_current(connection, name))
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
