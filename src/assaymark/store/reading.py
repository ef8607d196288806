"""Reading from the store: results of runs, for tables, leaderboards and pages.

Also the look-ups while a run is written: outputs to score, requests without scores, and the cache across runs.
"""

from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import Connection, bindparam, exists, func, select

from assaymark.records import Estimate, Output
from assaymark.store import results, run_facts, run_list, sample_list, search, verify
from assaymark.store.answer_rows import output_of
from assaymark.store.connection import Database
from assaymark.store.leases import Leases
from assaymark.store.packing import pack_hash
from assaymark.store.request_rows import task_numbers
from assaymark.store.request_texts import chunks
from assaymark.store.rows import (
    AttemptRow,
    CategoryCount,
    GeneratedRow,
    Problem,
    RunEstimates,
    RunRow,
    SamplePage,
    SampleRecord,
    SampleScoreRow,
)
from assaymark.store.run_facts import sees_hidden
from assaymark.store.runs import run_number
from assaymark.store.sample_list import Page, SampleFilter
from assaymark.store.schema import as_saved, is_as_saved, outputs, requests, run_tasks, runs, scores, scorings
from assaymark.store.write import Writer, split_request_id

_outputs_at = (
    select(outputs, requests.c.sample_index, requests.c.turn)
    .join(requests, requests.c.id == outputs.c.request)
    .where(
        requests.c.run_task == bindparam("run_task"), requests.c.sample_index.in_(bindparam("indices", expanding=True))
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
    by_request: dict[str, list[Output]] = {request_id: [] for request_id in request_ids}
    by_task: dict[str, set[int]] = {}
    for request_id in by_request:
        task, index, _ = split_request_id(request_id)
        by_task.setdefault(task, set()).add(index)
    with database.reading() as connection:
        known = task_numbers(connection, run_number(connection, run_id))
        for task, indices in by_task.items():
            if task not in known:
                continue
            for some in chunks(sorted(indices)):
                found = connection.execute(_outputs_at, {"run_task": known[task], "indices": some})
                for row in as_saved(outputs, found):
                    request_id = f"{task}/{row.sample_index}/{row.turn}"
                    if request_id in by_request:
                        by_request[request_id].append(output_of(row, request_id))
    return by_request


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
    """Return the outputs of any run by cache key; the first stored one if a key has several."""
    packed = {pack_hash(key): key for key in keys}
    by_key: dict[str, tuple[int, Output]] = {}
    with database.reading() as connection:
        hidden = _hidden_tasks(connection)
        for some in chunks(list(packed)):
            for row in connection.execute(_outputs_by_key, {"keys": some}).all():
                key = packed[row.cache_key]
                is_better = row.run_task not in hidden and (key not in by_key or row.request < by_key[key][0])
                if is_better and is_as_saved(outputs, row):
                    request_id = f"{row.name}/{row.sample_index}/{row.turn}"
                    by_key[key] = (row.request, output_of(row, request_id, from_cache=True))
    return {key: output for key, (_, output) in by_key.items()}


class StoredResults:
    """Reads runs; writes the outputs that this process has collected first, so that they are read too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._leases = Leases(database)
        self._writer = Writer(database, self._leases)

    @property
    def database(self) -> Database:
        """The open database, for the tables of features (`feature_tables`)."""
        return self._database

    def _current(self) -> Database:
        """Write what is collected, and return the database."""
        self._writer.flush()
        return self._database

    # ----------------------------------------------------------------------------------------- runs

    def runs(self, words: Sequence[str] = ()) -> list[RunRow]:
        """Return the runs, without audits, that match every word (id, model, task, profile or status), latest first."""
        return run_list.runs(self._current(), words)

    def audits(self, words: Sequence[str] = ()) -> list[RunRow]:
        """Return the audits that match every word, the latest first; they are stored as runs are."""
        return run_list.runs(self._current(), words, audits=True)

    def audit_states(self, kind: str) -> list[tuple[str, str]]:
        """Return id and time of the last change of each audit of a kind, the earliest change first, without plans."""
        return run_facts.audit_states(self._current(), kind)

    def run(self, name: str) -> RunRow:
        """Return the run with this name: its id, a unique beginning of it, `last`, or `last~1` (the one before).

        The name of a model, with or without its folder, stands for its run if it has only one. An audit is found by
        its id only; `last` is never an audit.

        Raises: UnknownName with the nearest ids.
        """
        return run_list.run(self._current(), name)

    def attempts(self, run_id: str) -> list[AttemptRow]:
        """Return the run's attempts, the earliest first."""
        return run_list.attempts(self._database, run_id)

    # ------------------------------------------------------------------------------------ estimates

    def estimates(self, run_id: str) -> list[Estimate]:
        """Return the run's estimates, in the order in which they were saved."""
        return results.estimates_of(self._database, run_id)

    def estimates_of_runs(
        self, run_ids: Sequence[str] | None = None, *, tasks: Sequence[str] | None = None, primary_only: bool = False
    ) -> list[RunEstimates]:
        """Return runs with their estimates, the latest run first, in two queries and without unpacking.

        Args:
            run_ids: the runs; None: all runs, without audits.
            tasks: return only the estimates of these tasks, groups or suites.
            primary_only: return only the primary metric of each task.

        Raises: StoreError for a run that does not exist.
        """
        return run_facts.estimates_of_runs(self._current(), run_ids, tasks, primary_only=primary_only)

    # ------------------------------------------------------------------------------ scores, samples

    def scores(
        self,
        run_id: str,
        task: str | None = None,
        *,
        details: bool = True,
        indices: Sequence[int] | None = None,
        of_metrics: Callable[[str], bool] | None = None,
    ) -> Iterator[SampleScoreRow]:
        """Yield the current scores: the latest scoring of each task, filter and metric.

        They are ordered by task (as in the plan), filter, metric, sample index and turn. Without `details`, the field
        `detail` is None, which is faster. With `indices`, only the scores of these samples; with `of_metrics`, of the
        metrics whose names it takes.
        """
        return results.scores_of(self._current(), run_id, task, details=details, indices=indices, of_metrics=of_metrics)

    def sample_hashes(self, run_id: str, task: str) -> dict[tuple[int, int], str]:
        """Return the hash of each sample of a task by (sample index, turn); no text is read."""
        return results.sample_hashes(self._current(), run_id, task)

    def content_hashes(self, run_id: str, task: str) -> dict[tuple[int, int], bytes]:
        """Return the hash of each request's content by (sample index, turn): two runs' are equal if all texts are."""
        return results.content_hashes(self._current(), run_id, task)

    def has_cut_prompts(self, run_id: str) -> bool:
        """Return whether a prompt of a run was truncated."""
        return results.has_cut_prompts(self._current(), run_id)

    def samples(
        self, run_id: str, task: str, *, offset: int = 0, limit: int | None = None, indices: Sequence[int] | None = None
    ) -> Iterator[SampleRecord]:
        """Yield a task's requests with their samples, outputs and scores, by sample index and turn.

        `indices` selects samples; `offset` and `limit` apply after it.
        """
        return results.samples(self._current(), run_id, task, offset=offset, limit=limit, indices=indices)

    def score_names(self, run_id: str, task: str) -> list[tuple[str, str]]:
        """Return (filter, metric) of a task's current scores, in the order of `SampleRecord.scores`."""
        return results.score_names(self._current(), run_id, task)

    def samples_not_right(self, run_id: str, task: str, by: tuple[str, str]) -> Iterator[SampleRecord]:
        """Yield the records of `samples`, without those that are right by this (filter, metric).

        Right is a score of at least 1/2, or a negative one, which is not a share. Requests that failed or have no such
        score are included.
        """
        return results.samples_not_right(self._current(), run_id, task, by)

    def generated(self, run_id: str) -> list[GeneratedRow]:
        """Return the numbers of generated texts of a run, by task, turn and finish reason."""
        return results.generated(self._current(), run_id)

    def first_error(self, run_id: str) -> str | None:
        """Return the error of the run's first failed output, None if none failed."""
        return results.first_error(self._current(), run_id)

    # ---------------------------------------------------------------------------- lists of samples

    def sample_list(
        self,
        run_id: str,
        task: str | None = None,
        *,
        query: str = "",
        wrong_only: bool = False,
        category: str | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> SamplePage:
        """Return a page of the list of a run's samples, by task (as in the plan), sample index and turn.

        If the run is indexed (`index_samples`), a query is looked for in the texts of each sample's row and in the
        generated texts; otherwise the snippets are searched for it as one text, ignoring the case of ASCII letters.

        Args:
            query: list only those in which all of its words and "quoted phrases" occur.
            offset: number of samples before the page.
            limit: largest number of samples on the page, up to 10,000.

        Raises: UnknownName for a task that the run does not have; UsageError for an invalid page, or a query of more
            than 1,000 characters.
        """
        wanted = SampleFilter(task, wrong_only, category)
        return search.sample_list(self._current(), run_id, query, wanted, Page(offset, limit))

    def categories(self, run_id: str, task: str | None = None) -> list[CategoryCount]:
        """Return the categories of a run's samples, by name, with their numbers of samples.

        Raises: UnknownName for a task that the run does not have.
        """
        return sample_list.categories(self._current(), run_id, task)

    def is_indexed(self, run_id: str) -> bool:
        """Return whether `sample_list` uses a full-text index for this run."""
        self._writer.flush()
        with self._database.reading() as connection:
            return search.is_indexed(connection, run_number(connection, run_id))

    # --------------------------------------------------------------------------------- verification

    def verify(self, run_id: str | None = None) -> list[Problem]:
        """Compute every hash and checksum again and return the mismatches; an intact store has none.

        With `run_id` only that run and its texts are read; without it the database's own structures are checked too.
        """
        self._writer.flush()
        return verify.verify(self, run_id)
