"""Stored runs as a document to hand on."""

from collections.abc import Sequence
from pathlib import Path

from evalstone.api.run import Run
from evalstone.api.stored import existing_store, run_in

__all__ = ["report_stored", "write_report"]


def report_stored(store: str | None, names: Sequence[str], path: str | Path | None = None) -> Path:
    """Write a report of stored runs by their names; see `write_report`. Without a path it is `<first run>.html`."""
    opened = existing_store(store)
    runs = [run_in(opened, name) for name in names]
    return write_report(runs, path if path is not None else f"{runs[0].short_id}.html")


def write_report(runs: Sequence[Run], path: str | Path) -> Path:
    """Write a report of runs of one store, .html, .md or .pdf as the name ends; later runs are compared with the first.

    Raises: UsageError for another ending, for a run named twice or without results, and for a PDF where no browser is
        found; StoreError if it cannot be written.
    """
    from evalstone.report.documents.contents import report_contents
    from evalstone.report.documents.document import write_document

    for run in runs:
        run.refuse_without_results()
    return write_document(path, report_contents(runs[0].store, [run.id for run in runs]))
