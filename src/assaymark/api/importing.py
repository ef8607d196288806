"""Import of other tools' results, and of runs exported from another store."""

from dataclasses import dataclass
from pathlib import Path

from assaymark.api.run import Run
from assaymark.store import Store


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    run: Run
    is_new: bool  # False if these files were imported before
    notes: tuple[str, ...] = ()  # results in the files that cannot be computed from their samples


def import_run(store: str | None, path: str | Path, *, command: str | None = None) -> Imported:
    """Store the run in another tool's files (`interop.read_imported.FORMATS`), or an exported run.

    Raises: DataError for files of an unknown format, or that violate their format; nothing is stored then.
    """
    from assaymark.interop.one_file import is_run_file, read_run_file

    if is_run_file(Path(path)):
        opened = Store.open(store)
        run_id, is_new = read_run_file(opened, Path(path))
        return Imported(Run(opened, run_id), is_new)
    from assaymark.interop.read_imported import read_imported
    from assaymark.interop.store_imported import store_imported

    found = read_imported(path)  # reads everything before anything is written
    opened = Store.open(store)
    run_id, is_new = store_imported(opened, found, command=command)
    return Imported(Run(opened, run_id), is_new, found.notes)
