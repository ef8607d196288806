"""Stored runs: find, read, verify and remove them.

Audits and judgings are stored like runs, but have results of their own. A feature that stores them registers its kind
under `audits`, by the name in the plan (`RunPlan.audit`).

Also a check of output paths before a long evaluation.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.errors import RunBusy, StoreError, UsageError
from assaymark.models.cost.bill import cost_line
from assaymark.records import JsonValue
from assaymark.registry import Registry
from assaymark.runs.run import Run, location_of
from assaymark.settings import read, store_location, without_password
from assaymark.store import Problem, RemovedCounts, RunRow, Store

if TYPE_CHECKING:
    from rich.console import RenderableType


def check_writable(path: Path, option: str) -> None:
    """Raise UsageError if a folder, or a file (a path with a suffix), could not be created; create nothing."""
    folder = (path.parent if path.suffix else path).absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir():
        raise UsageError(f"{option} is '{path}', but {existing} is a file; name another folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"{option} is '{path}', but {existing} is not writable; name another folder")


@dataclass(frozen=True, slots=True)
class AuditKind:
    """How one kind of stored audit is listed and shown."""

    results: Callable[[Store, RunRow], "tuple[JsonValue, RenderableType]"]  # as JSON, and for a terminal
    word: str = "audit"
    is_listed_with_runs: bool = False
    as_run: Callable[[Store, str], Run] | None = None  # for its samples; None: it has none to show
    remark: str = ""  # said before the results


KINDS: Registry[AuditKind] = Registry("audits", "kind of audit")


@dataclass(frozen=True, slots=True)
class ShownAudit:
    """A stored audit, ready to print."""

    row: RunRow
    content: JsonValue
    view: "RenderableType"  # for a terminal
    remarks: tuple[str, ...]


def list_audits(store: str | None, words: Sequence[str] = (), *, with_runs: bool = False) -> list[RunRow]:
    """Return the stored audits whose id, model, status or tasks match every word, newest first.

    with_runs: return only the kinds that are listed with the runs, such as judgings, instead of the other kinds.
    """
    opened = _listed_store(store)
    rows = [] if opened is None else opened.audits(words)
    return [row for row in rows if is_listed_with_runs(str(row.plan.audit)) == with_runs]


def is_listed_with_runs(kind: str) -> bool:
    """Return whether a kind of audit is listed with the runs; False if its package is no longer installed."""
    return kind in KINDS and KINDS.load(kind).is_listed_with_runs


def find_audit(store: str | None, name: str) -> ShownAudit | None:
    """Return a stored audit by its id or a unique beginning of it; None if it is a run.

    Raises: UnknownName with the nearest ids; UsageError for a kind of a package that is not installed.
    """
    opened = existing_store(store)
    row = opened.run(name)
    if row.plan.audit is None:
        return None
    if row.plan.audit not in KINDS:
        raise UsageError(
            f"{row.short_id} is an audit of the kind '{row.plan.audit}', which no installed package has; install the "
            "package that stored it to see its results"
        )
    kind = KINDS.load(row.plan.audit)
    content, view = kind.results(opened, row)
    remarks = [f"{kind.word} {row.short_id} in {location_of(opened)}"]
    if (cost := Run(opened, row.run_id).cost) is not None:
        remarks.insert(0, cost_line(cost))
    if row.status != "finished":
        again = "the same call" if row.command is None else row.command
        remarks.insert(0, f"it is {row.status}, with partial results; continue it with: {again}")
    if kind.remark:
        remarks.insert(0, kind.remark)
    return ShownAudit(row, content, view, tuple(remarks))


def audit_as_run(audit: ShownAudit, store: str | None) -> Run | None:
    """Return an audit as a run, so that its samples can be shown; None where its kind has none."""
    as_run = KINDS.load(str(audit.row.plan.audit)).as_run
    return as_run(existing_store(store), audit.row.run_id) if as_run is not None else None


def stored_line(store: Store, run_id: str, word: str = "audit") -> str:
    """Return the line that states where an audit is stored and how to show it again."""
    row = store.run(run_id)
    return f"{word} {row.short_id} in {location_of(store)}; show it with: assaymark show {row.short_id}"


def existing_store(store: str | None) -> Store:
    """Return an existing store, opened read-only if it is not writable; a mistyped path must not create an empty one.

    Raises: UsageError if it does not exist; StoreError if its server cannot be reached.
    """
    if not Store.exists(store):
        where = without_password(store_location(store).removeprefix("sqlite:///"))
        if Path(where).is_file():
            raise UsageError(f"{where} is an empty file and no store; was it copied? give another with --store")
        raise UsageError(f"there is no store at {where}; create it with `assaymark run`, or give another with --store")
    return Store.open_to_read(store)


def list_runs(store: str | None, words: Sequence[str] = ()) -> list[RunRow]:
    """Return the stored runs whose id, model, status or tasks match every word, newest first."""
    opened = _listed_store(store)
    return [] if opened is None else opened.runs(words)


def _listed_store(store: str | None) -> Store | None:
    """Return the store to list; None where the default one has not been created yet. Raises: as `existing_store`."""
    is_named = bool(store or read("ASSAYMARK_STORE"))
    is_there = is_named or Store.exists() or Path(store_location()).exists()  # an empty file is no store, and is named
    return existing_store(store) if is_there else None


def open_run(store: str | None, name: str) -> Run:
    """Return one stored run; see `run_in`."""
    return run_in(existing_store(store), name)


def run_in(store: Store, name: str, *, rescoring: bool = False) -> Run:
    """Return the run with this name (id, unique beginning of one, `last`, `last~1`).

    If a rescoring was killed before it computed the estimates, they are computed first, unless `rescoring` is set.

    Raises: UnknownName with the nearest ids; UsageError for an audit, which has no scores to show or to compare.
    """
    from assaymark.results.evidence.from_store import finish_summary

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
    opened = existing_store(store)
    run_rows = [opened.run(name) for name in names]
    for row in run_rows:
        if (writer := existing_store(store).writer(row.plan)) is not None:
            raise RunBusy(
                f"run {row.short_id} is being written by {writer}; stop that process first (after a kill on another "
                "machine, wait until its lease has expired)"
            )
    return run_rows


def remove_run(store: str | None, run_id: str) -> RemovedCounts:
    """Remove a run with the outputs, scores and texts that no other run uses."""
    return existing_store(store).remove(run_id)


def verify_store(store: str | None, name: str | None = None) -> list[Problem]:
    """Compute every hash of one run or of all again, and return the mismatches and the estimates that are missing."""
    opened = existing_store(store)
    run_id = None if name is None else opened.run(name).run_id
    problems = opened.verify(run_id)
    with suppress(StoreError):  # unreadable rows are among the problems
        for row in [opened.run(run_id)] if run_id is not None else opened.runs():
            with suppress(StoreError):
                problems += _missing_estimates(opened, row)
    return problems


def _missing_estimates(store: Store, row: RunRow) -> Iterator[Problem]:
    """Yield a problem for each scored metric of a summarised run that has no estimate."""
    from assaymark.results.evidence.from_store import SUMMARY_DUE
    from assaymark.results.evidence.task_facts import tasks_from
    from assaymark.scoring.metrics import is_auxiliary

    if row.plan.audit is not None or not row.extra.get("tasks") or row.extra.get(SUMMARY_DUE):
        return
    found = {(estimate.task, estimate.filter, estimate.metric) for estimate in store.estimates(row.run_id)}
    for task in tasks_from(row.extra):
        if task.name not in row.tasks:
            continue
        for name_of_filter, metric in store.score_names(row.run_id, task.name):
            if not is_auxiliary(metric) and (task.name, name_of_filter, metric) not in found:
                what = f"{metric} ({name_of_filter}) was scored and has no estimate"
                yield Problem("estimates", f"run {row.short_id}, {task.name}", what)
