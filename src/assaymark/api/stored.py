"""Stored runs: find, read, verify and remove them."""

from collections.abc import Sequence

from assaymark.api.run import Run
from assaymark.errors import RunBusy, UsageError
from assaymark.settings import store_location
from assaymark.store import Problem, RemovedCounts, RunRow, Store


def existing_store(store: str | None) -> Store:
    """Return an existing store, opened read-only if it is not writable; a mistyped path must not create an empty one.

    Raises: UsageError if it does not exist.
    """
    if not Store.exists(store):
        where = store_location(store).removeprefix("sqlite:///")
        raise UsageError(f"there is no store at {where}; create it with `assaymark run`, or give another with --store")
    return Store.open_to_read(store)


def list_runs(store: str | None, words: Sequence[str] = ()) -> list[RunRow]:
    """Return the stored runs whose id, model, status or tasks match every word, newest first."""
    return existing_store(store).runs(words) if Store.exists(store) else []


def find_runs(store: str | None, names: Sequence[str]) -> list[RunRow]:
    """Return the runs with these names (id, unique beginning of one, `last`, `last~1`).

    Raises: UnknownName with the nearest ids.
    """
    opened = existing_store(store)
    return [opened.run(name) for name in names]


def open_run(store: str | None, name: str) -> Run:
    """Return one stored run; see `run_in`."""
    return run_in(existing_store(store), name)


def run_in(store: Store, name: str, *, rescoring: bool = False) -> Run:
    """Return the run with this name (id, unique beginning of one, `last`, `last~1`).

    If a rescoring was killed before it computed the estimates, they are computed first, unless `rescoring` is set.

    Raises: UnknownName with the nearest ids; UsageError for an audit, which has no scores to show or to compare.
    """
    from assaymark.report.evidence.from_store import finish_summary

    row = store.run(name)
    if row.plan.audit is not None:
        what = f"{row.short_id} is an audit ({row.plan.audit}), but this command takes a run"
        raise UsageError(f"{what}; show it with: assaymark show {row.short_id}")
    if not rescoring:
        finish_summary(store, row)
    return Run(store, row.run_id)


def removable_runs(store: str | None, names: Sequence[str]) -> list[RunRow]:
    """Return the runs with these names, after checking that they can be removed.

    Raises: UnknownName with the nearest ids; RunBusy for a run that a process is writing.
    """
    found = find_runs(store, names)
    for row in found:
        if (writer := existing_store(store).writer(row.plan)) is not None:
            raise RunBusy(
                f"run {row.short_id} is being written by {writer}; stop that process first (after a kill on another "
                "machine, wait until its lease has expired)"
            )
    return found


def remove_run(store: str | None, run_id: str) -> RemovedCounts:
    """Remove a run with the outputs, scores and texts that no other run uses."""
    return existing_store(store).remove(run_id)


def verify_store(store: str | None, name: str | None = None) -> list[Problem]:
    """Compute every hash of one run or of all again, and return the mismatches."""
    opened = existing_store(store)
    return opened.verify(None if name is None else opened.run(name).run_id)
