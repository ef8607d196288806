"""A complete run as one file: a store with this run only.

The file can be opened, shown and verified like any store, and importing it copies the run from one store to another:
requests, outputs, scores and estimates are written by the same functions as those of a new run, and hashes are
recomputed. Each attempt's facts are stored under `copied`; the copy itself is one new attempt.
"""

import shutil
from dataclasses import asdict
from pathlib import Path

from assaymark.drafts import draft_folder, whole_file
from assaymark.errors import DataError, StoreError
from assaymark.interop.log_files import open_log
from assaymark.records import JsonValue, content_hash
from assaymark.store import SampleRecord, Store
from assaymark.store.sealed_tasks import SealedTask

MAGIC = b"SQLite format 3\x00"
AT_ONCE = 500  # samples per write
ENDED = frozenset({"finished", "incomplete", "interrupted", "failed"})


def is_run_file(path: Path) -> bool:
    """Return whether a file is a store, as an exported run is."""
    if not path.is_file():
        return False
    with open_log(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def write_run_file(store: Store, run_id: str, path: Path) -> Path:
    """Write a run as one file; an existing file is replaced when the new one is complete.

    Raises: StoreError if it cannot be written.
    """
    draft = path
    try:
        with whole_file(path) as draft, Store.open(str(draft)) as target:
            copy_run(store, target, run_id)
    except StoreError as error:
        why = str(error).partition(f"{draft}: ")[2].rpartition("; ")[0]
        if not why:  # of the store that is read
            raise
        raise StoreError(
            f"{path} was not written: {why}; what was there before is unchanged and nothing is left of it; free some "
            "space there or name another file with -o, and export again"
        ) from error
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}; name another file with -o") from error
    return path


def read_run_file(store: Store, path: Path) -> tuple[str, bool]:
    """Copy the run of an exported file into `store`. Returns its id there and whether it is new.

    Raises: DataError, with nothing stored, if the file is not an exported run or does not verify.
    """
    with draft_folder() as folder:
        copied = folder / "run.sqlite"
        try:
            shutil.copyfile(path, copied)  # opening may migrate the store; the original file must not change
        except OSError as error:
            raise StoreError(
                f"{path} cannot be copied to {folder.parent} to be read: {error}; free some space there, or set "
                "another folder for temporary files with TMPDIR"
            ) from error
        try:
            source = Store.open(str(copied))
            run_rows = source.runs()
        except StoreError as error:
            why = str(error).replace(f"store {copied}", "as a store").replace(str(copied), str(path))
            raise DataError(f"{path} is not an exported run: {why}") from error
        with source:
            if len(run_rows) != 1:
                raise DataError(f"{path} has {len(run_rows)} runs; expected one, as written by `assaymark export`")
            problems = source.verify()
            if problems:
                raise DataError(f"{path} is damaged: {problems[0]} ({len(problems)} in all); export the run again")
            return copy_run(source, store, run_rows[0].run_id)


def copy_run(source: Store, target: Store, run_id: str) -> tuple[str, bool]:
    """Copy a run with all its records. Returns its id in the target and whether it is new there.

    Raises: StoreError if the target cannot be written; a run that is new there is then removed.
    """
    row = source.run(run_id)
    if (known := target.complete_run(row.plan)) is not None:
        return known, False
    for seal in source.seals.all():
        if seal.is_closed and seal.dataset_hash in {task.dataset_hash for task in row.plan.tasks}:
            # of another store nothing is believed but that rows are not shown: neither a preview nor a commitment
            target.seals.put_missing(SealedTask(seal.task, seal.dataset_hash, sealed_at=seal.sealed_at))
    opened = target.open_run(row.plan, facts={"copied": _history(source, run_id)}, command=row.command)
    status = row.status if row.status in ENDED else "interrupted"
    try:
        for task in row.tasks:
            gathered: list[SampleRecord] = []
            for record in source.samples(run_id, task):
                gathered.append(record)
                if len(gathered) == AT_ONCE:
                    _write(target, opened.run_id, opened.attempt_id, gathered, row.plan.key)
                    gathered = []
            _write(target, opened.run_id, opened.attempt_id, gathered, row.plan.key)
        target.save_estimates(opened.run_id, source.estimates(run_id), row.extra)
        target.seals.learn_missing()
        target.close_run(opened.run_id, opened.attempt_id, status, row.summary)
    except BaseException:
        if opened.is_new:
            target.remove(opened.run_id)
        raise
    return opened.run_id, opened.is_new


def _history(source: Store, run_id: str) -> list[JsonValue]:
    """Return the original attempts of a run, without those that only copied it."""
    history: list[JsonValue] = []
    for attempt in source.attempts(run_id):
        earlier = attempt.facts.get("copied")
        history += earlier if isinstance(earlier, list) else [asdict(attempt)]
    return history


def _write(target: Store, run_id: str, attempt_id: int, records: list[SampleRecord], key: str) -> None:
    """Write some samples; copied scores are stored under a hash of their own."""
    samples = [record.sample for record in records if record.sample is not None]
    target.add_requests(run_id, [record.request for record in records], samples)
    target.add(run_id, attempt_id, [output for record in records for output in record.outputs])
    scores = [score for record in records for score in record.scores]
    target.add_scores(run_id, scores, content_hash({"copied": key}))
