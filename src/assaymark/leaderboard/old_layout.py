"""A board's own rows in the layout of the Open LLM Leaderboard's data sets, for hosts and scripts that read them.

`requests/` has one file per row (`request_files`), `results/` lm-eval's results files by model and `details/` lm-eval's
samples by model and task. Samples of gated data sets are written only if that is allowed, those of sealed tasks never.

Source: https://huggingface.co/open-llm-leaderboard (2024)
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from assaymark.errors import write_errors
from assaymark.interop.lm_eval_files import sanitised_model, write_lm_eval_files
from assaymark.leaderboard.request_files import request_of, write_request
from assaymark.leaderboard.rows import BoardRow
from assaymark.leaderboard.stored import is_gated
from assaymark.leaderboard.table import BoardTable
from assaymark.limits.characters import is_hub_id
from assaymark.platforms import portable_name
from assaymark.store import Store
from assaymark.store.public_store import public_store

REQUESTS, RESULTS, DETAILS = "requests", "results", "details"


def write_old_layout(table: BoardTable, store: Store, folder: Path, *, show_gated: bool = False) -> Iterator[Path]:
    """Write requests, results and details of a board's measured rows; yield the paths.

    Raises: UsageError for a run without results; StoreError if a file cannot be written.
    """
    written: set[str] = set()
    for row in table.rows:
        if row.origin != "measured":
            continue
        with write_errors("requests", "name another folder", to=folder):
            yield write_request(folder / REQUESTS, request_of(row), _place(row))
        for run_id in row.run_ids:
            if run_id not in written:
                written.add(run_id)
                withheld = public_store(store).withheld_tasks(run_id)
                tasks = [
                    name
                    for name in store.run(run_id).tasks
                    if (show_gated or not is_gated(name)) and name not in withheld
                ]
                yield from _write_run(store, run_id, folder, _place(row), tasks)


def _place(row: BoardRow) -> str:
    """Return where a model's files lie: `org/name` for a Hub id, else one folder name."""
    is_safe = is_hub_id(row.model) and all(portable_name(part) == part for part in row.model.split("/"))
    return row.model if is_safe else sanitised_model(row.model).strip(".") or "model"


def _write_run(store: Store, run_id: str, folder: Path, place: str, tasks: Sequence[str]) -> Iterator[Path]:
    results, *samples = write_lm_eval_files(store, run_id, folder / RESULTS, log_samples=True, tasks=tasks, place=place)
    yield results
    details = folder / DETAILS / f"{place.replace('/', '__')}-details"
    for path in samples:
        with write_errors("details", "name another folder", to=details):
            details.mkdir(parents=True, exist_ok=True)
            yield path.rename(details / path.name)
