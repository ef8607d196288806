"""Results and exports of human studies."""

import json
from pathlib import Path

from assaymark.arena.studies.results import StudyResults, study_results, study_rows
from assaymark.drafts import write_whole
from assaymark.errors import StoreError
from assaymark.store import Store

__all__ = ["export_study", "results_of"]


def results_of(name: str, store: str | None = None) -> StudyResults:
    """Return the results of a stored study, of the answers so far.

    Raises: UnknownName for a study that is not stored.
    """
    with Store.open_to_read(store) as opened:
        log = opened.studies
        states = {one.name: one.state for one in log.raters(name)}
        return study_results(log.plan(name), log.assignments(name), states)


def export_study(
    name: str, path: Path, store: str | None = None, *, texts: bool = False, demographics: bool = False
) -> int:
    """Write a study's comparisons, or its raters' demographics, as JSON lines; return the number of rows.

    Raises: UnknownName for a study that is not stored; StoreError if the file cannot be written.
    """
    with Store.open_to_read(store) as opened:
        log = opened.studies
        plan = log.plan(name)
        rows = log.demographics(name) if demographics else study_rows(plan, log.assignments(name), texts=texts)
    try:
        write_whole(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), "backslashreplace")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}; name another file with -o") from error
    return len(rows)
