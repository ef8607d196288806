"""Reports of stored runs as documents."""

from collections.abc import Sequence
from pathlib import Path

from assaymark.runs.run import Run
from assaymark.runs.stored import existing_store, run_in

__all__ = ["report_stored", "write_report"]


def report_stored(
    store: str | None, names: Sequence[str], path: str | Path | None = None, *, with_sealed: bool = False
) -> Path:
    """Write a report of stored runs by their names; see `write_report`. The default path is `<first run>.html`."""
    opened = existing_store(store)
    runs = [run_in(opened, name) for name in names]
    return write_report(runs, path if path is not None else f"{runs[0].short_id}.html", with_sealed=with_sealed)


def write_report(runs: Sequence[Run], path: str | Path, *, with_sealed: bool = False) -> Path:
    """Write a report of runs in one store, as .html, .md or .pdf; later runs are compared with the first.

    Its examples have no rows of sealed tasks, unless `with_sealed`.

    Raises: UsageError for another suffix, for a run named twice or without results, and for a PDF if no browser is
        found; StoreError if it cannot be written.
    """
    from assaymark.results.documents.contents import report_contents
    from assaymark.results.documents.document import write_document

    for run in runs:
        run.refuse_without_results()
    store = runs[0].store if with_sealed else runs[0].as_others_see_it().store
    return write_document(path, report_contents(store, [run.id for run in runs]))
