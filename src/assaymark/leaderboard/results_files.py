"""Results files of other tools, and models' folders, on a board: their rows are marked imported or reported."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from assaymark.errors import DataError
from assaymark.interop.hub_files import files_in_model, holds_results, model_folders
from assaymark.interop.imported import ImportedRun
from assaymark.interop.read_imported import read_imported
from assaymark.leaderboard.stored import StoredRun
from assaymark.leaderboard.users_files import state_of
from assaymark.records.result_facts import ResultFacts
from assaymark.store import RunRow

MOST_FILES = 10_000
LARGEST_FILE = 1 << 30  # bytes; logs with every sample are read too
ENDINGS = {".json", ".md"}
FIRST_STAGE = 10  # letters of an id that are shown


def read_results_files(paths: Sequence[Path]) -> list[StoredRun]:
    """Return the runs in results files, given directly or in folders, the latest first.

    Raises: DataError, naming the file, if no known tool wrote it.
    """
    files = [file for path in paths for file in _files_of(path)]
    if len(files) > MOST_FILES:
        raise DataError(f"{paths[0]} and others hold {len(files):,} results files; at most {MOST_FILES:,} are read")
    runs = [_run(file, read_imported(_checked(file))) for file in files]
    return sorted(runs, key=lambda run: run.row.updated_at, reverse=True)


def results_state(path: Path) -> str:
    """Return a text that changes with the results files at a path, those inside of models' folders too."""
    return state_of(path, _read_of)


def _read_of(path: Path) -> list[Path]:
    return [each for file in _files_of(path) for each in (files_in_model(file) if file.is_dir() else [file])]


def _checked(file: Path) -> Path:
    """Return a file that may be read: a regular one, not too large; or a model's folder, whose reader is as careful."""
    if file.is_dir():
        return file
    if not file.is_file():
        raise DataError(f"{file} is not a regular file; expected a results file")
    if file.stat().st_size > LARGEST_FILE:
        raise DataError(f"{file} has {file.stat().st_size:,} bytes; a results file has at most {LARGEST_FILE:,}")
    return file


def _files_of(path: Path) -> list[Path]:
    return _files_in(path) if path.is_dir() and not holds_results(path) else [path]


def _files_in(folder: Path) -> list[Path]:
    """Return the models' folders and the results files outside of them."""
    models = model_folders(folder)
    known = (path for path in sorted(folder.rglob("*")) if path.suffix in ENDINGS and not path.name.startswith("."))
    files = [path for path in known if path.is_file() and not set(models) & set(path.parents)]
    return sorted([*models, *files])


def _date(source: object) -> str:
    """Return the time of an imported run, in ISO 8601; empty if its files do not state it."""
    stated = source.get("date") if isinstance(source, Mapping) else None
    if isinstance(stated, int | float):
        return datetime.fromtimestamp(stated, tz=UTC).isoformat()
    return str(stated or "")


def _run(file: Path, run: ImportedRun) -> StoredRun:
    plan = run.plan
    run_id = plan.key.rpartition(":")[2][:32]
    date = _date(run.extra.get("imported"))
    row = RunRow(
        run_id=run_id,
        short_id=run_id[:FIRST_STAGE],
        plan=plan,
        status="finished",
        created_at=date,
        updated_at=date,
        n_attempts=0,
        n_samples=len(run.samples),
        n_requests=len(run.requests),
        n_outputs=len(run.outputs),
        n_failed=sum(output.error is not None for output in run.outputs),
        n_scores=len(run.scores),
        command=None,
        summary={},
        extra=cast("ResultFacts", run.extra),  # a reader of another tool's files made them
    )
    stated = StoredRun(row, tuple(run.estimates), source=file.name)
    return replace(stated, notes=run.notes) if stated.is_hub_report else stated
