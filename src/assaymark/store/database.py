"""The store: every request, output and score of every run, written as it arrives.

A `Store` object is an open database. A run has one writer, the process that holds its lease: it calls `open_run`, `add`
and `close_run`; any number of others may read at the same time or write other runs. Outputs and scores are collected
for at most half a second (or some thousand rows) and then written in one transaction, so a kill loses no more than
that. The methods document the interface; other modules implement them.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from assaymark import settings
from assaymark.errors import StoreError
from assaymark.records import Estimate, JsonValue, Output, Request, RunPlan, Sample, Score
from assaymark.store import reading, remove, request_rows, results, run_list, runs, sample_facts, search
from assaymark.store.connection import Database
from assaymark.store.reading import StoredResults
from assaymark.store.rows import OpenRun, RemovedCounts, RunWriter, StoredProgress
from assaymark.store.sealed_tasks import SealLog

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Store(StoredResults):
    """Runs, attempts, requests, outputs, scores and the cache across runs."""

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        read_only: bool = False,
        hidden_for: str | None = None,
        follows: bool = False,
    ) -> Self:
        """Open the store at `settings.store_location(url)`; create its folder and tables if there are none.

        A store of an earlier version is migrated. With `read_only` nothing is created or migrated.

        Hidden runs (`set_visibility`) do not exist for a store opened without `hidden_for`, the reason to read them.
        With `follows`, as servers need it, a file that replaces this one (a backup, say) is opened in turn; whoever
        writes runs must not go on in another file.

        Raises: SchemaTooNew; StoreError if it is missing (read-only), unreadable, locked, corrupt or another
        program's; MissingExtra if the driver for the server is not installed.
        """
        where = settings.store_location(url)
        return cls(Database.open(where, read_only=read_only, hidden_for=hidden_for, follows=follows))

    @staticmethod
    def exists(url: str | None = None) -> bool:
        """Return whether the store exists; for a server: whether it responds and has a store."""
        return Database.exists(settings.store_location(url))

    @classmethod
    def open_to_read(cls, url: str | None = None) -> Self:
        """Open an existing store; one that is not writable (another user's, say) is opened read-only.

        Raises: as `open`.
        """
        return cls.open(url, read_only=not Database.is_writable(settings.store_location(url)))

    def is_in_place(self) -> bool:
        """Return whether the path still leads to the file that was opened; True for a server. One `stat`."""
        return self._database.is_in_place()

    def open_again(self) -> Self:
        """Return the store that is at this one's path now, opened as by `open_to_read`; this one stays open.

        Raises: as `open`; StoreError where there is none.
        """
        of_file = self._database.url.database if self._database.is_sqlite else None
        url = of_file or self._database.url.render_as_string(hide_password=False)
        if not Database.exists(url):
            raise StoreError(f"the store {self.url} was removed or cannot be read; put it back at its path")
        return type(self).open_to_read(url)

    @property
    def url(self) -> str:
        """The URL of the store, without a password."""
        return self._database.shown_url

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices to the user about this store, such as that it is on a network file system."""
        return self._database.notices

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Write what is collected, release the runs and close the database. Closing twice is allowed.

        Raises: StoreError if the last batch cannot be written.
        """
        try:
            self._writer.close()
        finally:
            try:
                self._leases.close()
            finally:
                self._database.close()

    @property
    def seals(self) -> SealLog:
        """Which tasks are sealed, in this store."""
        return SealLog(self._database)

    # ------------------------------------------------------------------------------- writing a run

    def is_complete(self, plan: RunPlan) -> bool:
        """Return whether the run of this plan is stored completely, so that no request is left."""
        return self.complete_run(plan) is not None

    def complete_run(self, plan: RunPlan) -> str | None:
        """Return the id of the run of this plan if it is stored completely."""
        return runs.complete_run(self._database, plan.key)

    def writer(self, plan: RunPlan) -> RunWriter | None:
        """Return the process that is writing the run of this plan, None if there is none."""
        return run_list.writer(self._database, plan.key)

    def stored_progress(self, plan: RunPlan) -> StoredProgress:
        """Return how much of the run of this plan is stored, by any process."""
        return run_list.progress(self._database, plan.key)

    def open_run(
        self,
        plan: RunPlan,
        *,
        facts: Mapping[str, JsonValue],
        command: str | None = None,
        rescoring: bool = False,
        hidden: bool = False,
    ) -> OpenRun:
        """Find or create the run of this plan, take its lease and begin an attempt.

        The lease is renewed until `close_run`, and every write checks it: a process that was suspended until another
        one took the run over gets LeaseLost and changes nothing. A complete run is opened without a lease, since it
        is only read, unless it is opened for `rescoring`.

        `facts` are those of the attempt, not of the run: versions, device, attention path.

        A run that is created as `hidden` is so from its first moment; the store must have been opened with
        `hidden_for`.

        Raises: RunBusy while another writer holds the lease.
        """
        self._writer.flush()
        opening = runs.Opening(plan, plan.key, facts, command, rescoring, hidden)
        opened = runs.open_run(self._database, self._leases, opening)
        self._writer.forget(opened.run_id)
        return opened

    def add_requests(self, run_id: str, requests: Sequence[Request], samples: Sequence[Sample] = ()) -> None:
        """Store requests before they are sent. For requests that are stored already, nothing is written.

        A request whose content differs from the stored one with the same id replaces it, and the outputs and scores of
        the old one are removed. (A request without some of its queries, as `unanswered` returns it, counts as equal.)
        """
        written = request_rows.add_requests(self._current(), self._leases, run_id, requests, samples)
        self._writer.learn(run_id, written)

    def unanswered(self, run_id: str, requests: Sequence[Request]) -> list[Request]:
        """Return the requests with only those queries that have no stored output; `Query.index` is unchanged.

        An output with an error counts as missing, so that running again retries it, unless the error is Permanent
        (PromptTooLong, NonFiniteLogits). A request whose content differs from the stored one is returned unchanged, and
        so is a query of which some repeats are missing.
        """
        return request_rows.unanswered(self._current(), run_id, requests)

    def add(self, run_id: str, attempt_id: int, outputs: Iterable[Output]) -> None:
        """Store outputs of requests that were added; the scores of a replaced output are removed.

        Raises: StoreError if a request is not in the store, or the database cannot be written (also if an earlier
        batch fails: it is kept in memory and written at the next flush).
        """
        self._writer.add_outputs(run_id, attempt_id, outputs)

    def add_scores(self, run_id: str, scores: Iterable[Score], scoring_hash: str) -> None:
        """Store scores under the hash of their scoring; another hash adds rows and changes none."""
        self._writer.add_scores(run_id, scores, scoring_hash)

    def flush(self) -> None:
        """Write what is collected, now.

        Raises: StoreError if it cannot be written; it stays in memory.
        """
        self._writer.flush()

    def save_estimates(
        self, run_id: str, estimates: Sequence[Estimate], extra: Mapping[str, JsonValue] | None = None
    ) -> None:
        """Replace the run's estimates, and `RunRow.extra` if `extra` is given.

        If nobody is writing the run, the facts of its samples are updated too.
        """
        results.save_estimates(self._current(), self._leases, run_id, estimates, extra)
        self._fill_facts_of(run_id)

    def close_run(
        self, run_id: str, attempt_id: int, status: str, summary: Mapping[str, JsonValue] | None = None
    ) -> None:
        """End the attempt: finished, incomplete (some requests can be retried), interrupted or failed.

        A finished run's rows are counted and sealed, and `open_run` reports it as complete from then on. The facts of
        its samples are stored too, if it has estimates.

        Raises: LeaseLost if another writer took the run over.
        """
        runs.close_run(self._current(), self._leases, run_id, attempt_id, status, summary)
        self._fill_facts_of(run_id)

    def close_rescoring(
        self,
        opened: OpenRun,
        status: str,
        scored: Sequence[tuple[Sequence[Score], str]],
        extra: Mapping[str, JsonValue],
    ) -> None:
        """Store scores, each batch under the hash of its scoring, the run's new `extra`, and the attempt's end.

        All of it is one transaction, so a killed rescoring is stored completely or not at all.

        Raises: StoreError, and nothing is stored; LeaseLost if another writer took the run over.
        """
        which = (opened.run_id, opened.attempt_id)

        def finish(connection: "Connection") -> None:
            runs.end_attempt(connection, self._leases, which, status, None, extra)

        self._writer.write_scorings(opened.run_id, scored, finish)
        self._leases.forget(opened.run_id)

    def abandon_run(self, run_id: str) -> None:
        """Drop what is collected of a run whose attempt could not be closed, and let others take it over."""
        self._writer.drop(run_id)
        self._leases.forget(run_id)

    def remove(self, run_id: str) -> RemovedCounts:
        """Remove a run and the texts that no other run uses."""
        counts = remove.remove_run(self._current(), run_id)
        self._writer.forget(run_id)
        self._leases.forget(run_id)
        return counts

    def set_visibility(self, run_id: str, visibility: str) -> None:
        """Make a run `hidden`, so that only a store opened with `hidden_for` reads it, or `public` again.

        Its outputs are not given to other runs either while it is hidden.

        Raises: UsageError for another word; StoreError for a run that this store does not see.
        """
        runs.set_visibility(self._current(), run_id, visibility)

    # ------------------------------------------------------------------------ reading while writing

    def outputs_of(self, run_id: str, request_ids: Sequence[str]) -> dict[str, list[Output]]:
        """Return the stored outputs of these requests, by query and repeat; a request without any has an empty list."""
        return reading.outputs_of(self._current(), run_id, request_ids)

    def unscored(self, run_id: str, scoring_hash: str, task: str | None = None) -> list[str]:
        """Return the ids of requests whose outputs are all stored but which have no score under this hash.

        Outputs with an error count: their request is scored as failed. `task` restricts the search to one task.
        """
        return reading.unscored(self._current(), run_id, scoring_hash, task)

    def find(self, keys: Sequence[str]) -> dict[str, Output]:
        """Return outputs of any run by `Output.cache_key`; unknown keys and outputs with errors are omitted.

        `request_id`, `ask_index` and `repeat` are those of the run that has the output; `from_cache` is set. A row
        with a wrong checksum is not returned.
        """
        return reading.find(self._current(), keys)

    # ------------------------------------------------------------------------------------ derived rows

    def fill_facts(self) -> int:
        """Store the facts of samples (`sample_list`) for all runs that lack them; return the number of samples.

        Facts are stored when a run is summarised. Runs of a store of an earlier version, and interrupted runs, lack
        them, and lists of their samples are slow. The work is done in short transactions and may be killed: another
        call continues it. Runs that are being written are skipped.

        Raises: StoreError if they cannot be written.
        """
        return sample_facts.fill_runs(self._current())

    def _fill_facts_of(self, run_id: str) -> None:
        """Store the facts of a run that was just ended or summarised; a failure only makes its lists slow."""
        try:
            sample_facts.fill(self._database, run_id, only_summarised=True)
        except StoreError:
            return

    def index_samples(self, run_id: str) -> int:
        """Build the full-text index of a run (`sample_list`); return the number of requests in it.

        Raises: RunBusy if the run is being written; StoreError if the database has no full-text search.
        """
        return search.index_samples(self._current(), run_id)
