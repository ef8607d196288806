"""The reading half of the store: what came out of runs, for tables, boards and pages. Nothing here writes results."""

from collections.abc import Iterator, Sequence

from evalstone.records import Estimate
from evalstone.store import results, run_facts, run_list, sample_list, search, verify
from evalstone.store.connection import Database
from evalstone.store.leases import Leases
from evalstone.store.rows import (
    AttemptRow,
    CategoryCount,
    GeneratedRow,
    Problem,
    RunEstimates,
    RunRow,
    SamplePage,
    SampleRecord,
    StoredScore,
)
from evalstone.store.runs import run_number
from evalstone.store.sample_list import Page, Wanted
from evalstone.store.write import Writer


class StoredResults:
    """Reads runs; what this process has gathered is written first, so that it reads its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._leases = Leases(database)
        self._writer = Writer(database, self._leases)

    # ----------------------------------------------------------------------------------- which runs

    def runs(self, words: Sequence[str] = ()) -> list[RunRow]:
        """Return the runs in which every word occurs (id, model, task, profile or status), the latest first.

        Audits are not among them.
        """
        self._writer.flush()
        return run_list.runs(self._database, words)

    def audits(self, words: Sequence[str] = ()) -> list[RunRow]:
        """Return the audits in which every word occurs, the latest first; they are kept as runs are."""
        self._writer.flush()
        return run_list.runs(self._database, words, audits=True)

    def run(self, name: str) -> RunRow:
        """Return the run named by its id, an unambiguous beginning of it, `last`, or `last~1` (the one before).

        An audit is found by its id; `last` is never one.

        Raises: UnknownName with the nearest ids.
        """
        self._writer.flush()
        return run_list.run(self._database, name)

    def attempts(self, run_id: str) -> list[AttemptRow]:
        """Return the run's attempts, the first one first."""
        return run_list.attempts(self._database, run_id)

    # ------------------------------------------------------------------------------------ estimates

    def estimates(self, run_id: str) -> list[Estimate]:
        """Return the run's estimates, in the order in which they were saved."""
        return results.estimates_of(self._database, run_id)

    def estimates_of_runs(
        self, run_ids: Sequence[str] | None = None, *, tasks: Sequence[str] | None = None, primary_only: bool = False
    ) -> list[RunEstimates]:
        """Return runs with their estimates, the latest run first, in two queries and without unpacking anything.

        Args:
            run_ids: which runs; None: all that are no audits.
            tasks: only the estimates of these tasks, groups or suites.
            primary_only: only the metric that stands for its task.

        Raises: StoreError for a run that is not there.
        """
        self._writer.flush()
        return run_facts.estimates_of_runs(self._database, run_ids, tasks, primary_only=primary_only)

    # ------------------------------------------------------------------------------ scores, samples

    def scores(self, run_id: str, task: str | None = None, *, details: bool = True) -> Iterator[StoredScore]:
        """Yield the current scores: the latest scoring of each task, filter and metric.

        Ordered by task (the plan's order), filter, metric, sample index, turn. Without `details` that field is None
        and is not read, which is faster.
        """
        self._writer.flush()
        return results.scores_of(self._database, run_id, task, details=details)

    def samples(
        self,
        run_id: str,
        task: str,
        *,
        offset: int = 0,
        limit: int | None = None,
        indices: Sequence[int] | None = None,
    ) -> Iterator[SampleRecord]:
        """Yield a task's requests with all that belongs to them, by sample index and turn.

        `indices` keeps only these samples (those that were answered wrong, say); `offset` and `limit` count after it.
        """
        self._writer.flush()
        return results.samples(self._database, run_id, task, offset=offset, limit=limit, indices=indices)

    def score_names(self, run_id: str, task: str) -> list[tuple[str, str]]:
        """Return (filter, metric) of a task's current scores, in the order of `SampleRecord.scores`."""
        self._writer.flush()
        return results.score_names(self._database, run_id, task)

    def samples_not_right(self, run_id: str, task: str, by: tuple[str, str]) -> Iterator[SampleRecord]:
        """Yield what `samples` does, without reading the requests that are right by this (filter, metric).

        Right is a score from 1/2 on, or a negative one, which is no share; what failed or has no such score is given.
        """
        self._writer.flush()
        return results.samples_not_right(self._database, run_id, task, by)

    def written(self, run_id: str) -> list[GeneratedRow]:
        """Return how the written answers of a run ended, counted by task, turn and finish reason."""
        self._writer.flush()
        return results.written(self._database, run_id)

    def first_error(self, run_id: str) -> str | None:
        """Return what happened to the run's first answer that failed, None if all came."""
        self._writer.flush()
        return results.first_error(self._database, run_id)

    # ---------------------------------------------------------------------------- lists of samples

    def sample_list(
        self,
        run_id: str,
        task: str | None = None,
        *,
        wrong_only: bool = False,
        category: str | None = None,
        text: str | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> SamplePage:
        """Return a part of the list of a run's samples, by task (the plan's order), sample index and turn.

        Args:
            run_id: which run.
            task: only the samples of this task.
            wrong_only: only those with `SampleFacts.is_wrong`.
            category: only those of this category.
            text: only those whose snippet contains this; the case of ASCII letters does not matter.
            offset: how many of the list come before the part.
            limit: how many the part has at most, up to 10,000.

        Raises: UnknownName for a task that the run does not have; UsageError for a part that cannot be.
        """
        self._writer.flush()
        return sample_list.sample_list(
            self._database, run_id, Wanted(task, wrong_only, category, text), Page(offset, limit)
        )

    def search_samples(
        self,
        run_id: str,
        query: str,
        *,
        task: str | None = None,
        wrong_only: bool = False,
        category: str | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> SamplePage:
        """Return a part of the list of samples in which all words and "quoted phrases" of a query occur.

        Searched are the texts of each sample's row and what was generated, where the run is indexed (`index_samples`);
        else, as one text, the snippets. The filters are those of `sample_list`.

        Raises: as `sample_list`; UsageError for a query of more than 1,000 characters.
        """
        self._writer.flush()
        return search.search_samples(
            self._database, run_id, query, Wanted(task, wrong_only, category), Page(offset, limit)
        )

    def categories(self, run_id: str, task: str | None = None) -> list[CategoryCount]:
        """Return the categories of a run's samples by name, and how many samples each has.

        Raises: UnknownName for a task that the run does not have.
        """
        self._writer.flush()
        return sample_list.categories(self._database, run_id, task)

    def is_indexed(self, run_id: str) -> bool:
        """Return whether `search_samples` finds words by an index of this run."""
        self._writer.flush()
        with self._database.reading() as connection:
            return search.is_indexed(connection, run_number(connection, run_id))

    # ---------------------------------------------------------------------------------------- trust

    def verify(self, run_id: str | None = None) -> list[Problem]:
        """Derive every hash and checksum again and return what does not agree; an empty list is a sound store.

        With `run_id` only that run and its texts are read; without it also the database's own structures.
        """
        self._writer.flush()
        return verify.verify(self._database, run_id)
