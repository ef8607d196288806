"""The store: every request, output and score of every run, written as it comes.

One `Store` object is one door to one database. A run has one driver, the process that holds its lease: it calls
`open_run`, `add` and `close_run`; any number of others may read at the same time or write runs of their own. Outputs
and scores are gathered for at most half a second (or some thousand rows) and then written in one transaction, so a kill
loses no more than that. Nothing here computes: each method says what it promises and hands over to the module that does
it.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from evalstone import settings
from evalstone.errors import StoreError
from evalstone.records import Estimate, JsonValue, Output, Request, RunPlan, Sample, Score
from evalstone.store import asked, lookups, remove, results, run_list, runs, sample_facts, search
from evalstone.store.connection import Database
from evalstone.store.reading import StoredResults
from evalstone.store.rows import OpenRun, RemovedCounts, RunWriter, StoredProgress

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Store(StoredResults):
    """Runs, attempts, requests, outputs, scores and the cache across runs."""

    @classmethod
    def open(cls, url: str | None = None, *, read_only: bool = False) -> Self:
        """Open the store that `settings.store_place(url)` names; make its folder and tables where there are none.

        A store of an earlier version is migrated. With `read_only` nothing is made or migrated.

        Raises: SchemaTooNew; StoreError where it is missing (read-only), unreadable, locked, corrupt or another
        program's; MissingExtra if the driver for the server is not installed.
        """
        return cls(Database.open(settings.store_place(url), read_only=read_only))

    @staticmethod
    def exists(url: str | None = None) -> bool:
        """Return whether there is something to read; for a server: whether it answers and holds a store."""
        return Database.exists(settings.store_place(url))

    @classmethod
    def open_to_read(cls, url: str | None = None) -> Self:
        """Open a store that is there; one that may not be written (another user's, say) to be read only.

        Raises: as `open`.
        """
        return cls.open(url, read_only=not Database.may_be_generated(settings.store_place(url)))

    @property
    def url(self) -> str:
        """Where the store is, without a password."""
        return self._database.shown_url

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know about this store (it lies on a network file system, say)."""
        return self._database.notices

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Write what is gathered, release the runs and let go of the database. Closing twice is no error.

        Raises: StoreError if the last batch cannot be written.
        """
        try:
            self._writer.close()
        finally:
            try:
                self._leases.close()
            finally:
                self._database.close()

    # ------------------------------------------------------------------------------- writing a run

    def is_complete(self, plan: RunPlan) -> bool:
        """Return whether the run of this plan is stored whole, so that nothing is left to ask."""
        return runs.is_complete(self._database, plan.key)

    def writer(self, plan: RunPlan) -> RunWriter | None:
        """Return which process is writing the run of this plan now, None if none is."""
        return run_list.writer(self._database, plan.key)

    def stored_progress(self, plan: RunPlan) -> StoredProgress:
        """Return how much of the run of this plan is stored, by whomever."""
        return run_list.progress(self._database, plan.key)

    def open_run(
        self, plan: RunPlan, *, facts: Mapping[str, JsonValue], command: str | None = None, rescoring: bool = False
    ) -> OpenRun:
        """Find or make the run of this plan, take its lease and begin an attempt of it.

        The lease is renewed until `close_run`, and every write checks it: a process that was suspended until another
        one took the run over gets LeaseLost and changes nothing. A complete run is opened without a lease, since it
        is only looked at, unless it is opened for `rescoring`.

        `facts` is what belongs to the attempt and not to the run: versions, device, engine path.

        Raises: RunBusy while another writer holds the lease.
        """
        self._writer.flush()
        opening = runs.Opening(plan, plan.key, facts, command, rescoring)
        opened = runs.open_run(self._database, self._leases, opening)
        self._writer.forget(opened.run_id)
        return opened

    def add_requests(self, run_id: str, requests: Sequence[Request], samples: Sequence[Sample] = ()) -> None:
        """Store what is asked, before it is asked. Requests that are stored already cost one look.

        A request whose content differs from the stored one of the same id replaces it, and the old one's outputs and
        scores go. (A request with some of its asks left out, as `unanswered` returns it, is taken as the stored one.)
        """
        self._writer.flush()
        asked.add_requests(self._database, self._leases, run_id, requests, samples)

    def unanswered(self, run_id: str, requests: Sequence[Request]) -> list[Request]:
        """Return the requests without what is stored: only asks that lack an answer, `Ask.index` kept.

        An output with an error counts as no answer, so that running again retries it, unless the error is Permanent
        (PromptTooLong, NonFiniteLogits). A request whose content differs from the stored one is returned whole. An ask
        of which some repeats are missing is returned whole.
        """
        self._writer.flush()
        return asked.unanswered(self._database, run_id, requests)

    def add(self, run_id: str, attempt_id: int, outputs: Iterable[Output]) -> None:
        """Store outputs of requests that were added; the scores which a replaced output had go with it.

        Raises: StoreError if a request is not in the store, or the database cannot be written (also when a batch
        gathered earlier fails: it is kept and tried again at the next flush).
        """
        self._writer.add_outputs(run_id, attempt_id, outputs)

    def add_scores(self, run_id: str, scores: Iterable[Score], scoring_hash: str) -> None:
        """Store scores under the hash of what made them; another hash adds rows and changes none."""
        self._writer.add_scores(run_id, scores, scoring_hash)

    def flush(self) -> None:
        """Write what is gathered, now.

        Raises: StoreError if it cannot be written; it stays gathered.
        """
        self._writer.flush()

    def save_estimates(
        self, run_id: str, estimates: Sequence[Estimate], extra: Mapping[str, JsonValue] | None = None
    ) -> None:
        """Replace the run's estimates, and `RunRow.extra` where `extra` is given.

        Of a run that nobody is writing the facts of its samples are made current as well.
        """
        self._writer.flush()
        results.save_estimates(self._database, self._leases, run_id, estimates, extra)
        self._fill_facts_of(run_id)

    def close_run(
        self, run_id: str, attempt_id: int, status: str, summary: Mapping[str, JsonValue] | None = None
    ) -> None:
        """End the attempt: finished, incomplete (some answers are worth asking again), interrupted or failed.

        A finished run's rows are counted and sealed, and `open_run` calls it complete from then on. The facts of its
        samples are stored too, if it has estimates.

        Raises: LeaseLost if another writer took the run over.
        """
        self._writer.flush()
        runs.close_run(self._database, self._leases, run_id, attempt_id, status, summary)
        self._fill_facts_of(run_id)

    def close_rescoring(
        self,
        opened: OpenRun,
        status: str,
        scored: Sequence[tuple[Sequence[Score], str]],
        extra: Mapping[str, JsonValue],
    ) -> None:
        """Store scores, each batch under the hash of what made it, the run's new `extra`, and the attempt's end.

        All of it is one transaction, so a rescoring that is killed is stored whole or not at all.

        Raises: StoreError, and nothing is stored; LeaseLost if another writer took the run over.
        """
        which = (opened.run_id, opened.attempt_id)

        def finish(connection: "Connection") -> None:
            runs.end_attempt(connection, self._leases, which, status, None, extra)

        self._writer.write_scorings(opened.run_id, scored, finish)
        self._leases.forget(opened.run_id)

    def abandon_run(self, run_id: str) -> None:
        """Write nothing more of a run whose attempt could not be closed, and let others take it over."""
        self._writer.drop(run_id)
        self._leases.forget(run_id)

    def remove(self, run_id: str) -> RemovedCounts:
        """Remove a run and the texts that no other run uses."""
        self._writer.flush()
        counts = remove.remove_run(self._database, run_id)
        self._writer.forget(run_id)
        self._leases.forget(run_id)
        return counts

    # ------------------------------------------------------------------------ reading while writing

    def outputs_of(self, run_id: str, request_ids: Sequence[str]) -> dict[str, list[Output]]:
        """Return the stored outputs of these requests, by ask and repeat; a request without any has an empty list."""
        self._writer.flush()
        return lookups.outputs_of(self._database, run_id, request_ids)

    def unscored(self, run_id: str, scoring_hash: str, task: str | None = None) -> list[str]:
        """Return the ids of requests whose outputs are all there but which have no score under this hash.

        An output with an error is there: its request is scored as failed. `task` restricts the search to one task.
        """
        self._writer.flush()
        return lookups.unscored(self._database, run_id, scoring_hash, task)

    def find(self, keys: Sequence[str]) -> dict[str, Output]:
        """Return outputs of any run by `Output.cache_key`; unknown keys are left out, errors are never among them.

        `request_id`, `ask_index` and `repeat` are those of the run that has it; `from_cache` is set. A row whose
        checksum is wrong is not returned.
        """
        self._writer.flush()
        return lookups.find(self._database, keys)

    # ---------------------------------------------------------------------------------- what is derived

    def fill_facts(self, run_ids: Sequence[str] | None = None) -> int:
        """Store the facts of samples (`sample_list`) of runs that lack them. Returns for how many samples it did so.

        Runs have theirs from when they are summarised; those of a store that an earlier version made, or of runs that
        were interrupted, lack them, and lists of their samples are slow. It takes short transactions and may be killed:
        another call goes on from there. Runs that are being written are left alone.

        Args:
            run_ids: which runs; None: all.

        Raises: StoreError if they cannot be written.
        """
        self._writer.flush()
        return sample_facts.fill_runs(self._database, run_ids)

    def _fill_facts_of(self, run_id: str) -> None:
        """Store the facts of a run that was just ended or summarised; where that fails, lists are slow and no more."""
        try:
            sample_facts.fill(self._database, run_id, only_summarised=True)
        except StoreError:
            return

    def index_samples(self, run_id: str) -> int:
        """Make the full-text index of a run (`search_samples`) anew. Returns how many requests it has.

        Raises: RunBusy where the run is being written; StoreError where the database has no full-text search.
        """
        self._writer.flush()
        return search.index_samples(self._database, run_id)
