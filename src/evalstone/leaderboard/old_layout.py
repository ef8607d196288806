"""A board's own rows in the layout of the Open LLM Leaderboard's data sets, for hosts and scripts that read them.

`requests/` has one file per row (`request_files`), `results/` lm-eval's results files by model, `details/` lm-eval's
samples by model and task. Samples of gated data sets are not written unless that is allowed.
Source: https://huggingface.co/open-llm-leaderboard (layout of 2024)
"""

from collections.abc import Iterator
from pathlib import Path

from evalstone.errors import StoreError
from evalstone.interop.lm_eval_files import sanitised_model, write_lm_eval_files
from evalstone.leaderboard.published_facts import is_hub_id
from evalstone.leaderboard.request_files import request_of, write_request
from evalstone.leaderboard.rows import Row
from evalstone.leaderboard.table import Table
from evalstone.leaderboard.withheld import is_gated
from evalstone.store import Store

__all__ = ["write_old_layout"]

REQUESTS, RESULTS, DETAILS = "requests", "results", "details"


def write_old_layout(table: Table, store: Store, folder: Path, *, show_gated: bool = False) -> Iterator[Path]:
    """Write requests, results and details of a board's measured rows; yield the paths.

    Raises: UsageError for a run without results; StoreError if a file cannot be written.
    """
    written: set[str] = set()
    for row in table.rows:
        if row.origin != "measured":
            continue
        try:
            yield write_request(folder / REQUESTS, request_of(row), _place(row))
        except OSError as error:
            raise StoreError(f"requests cannot be written to {folder}: {error}; name another folder") from error
        for run_id in row.run_ids:
            if run_id not in written:
                written.add(run_id)
                yield from _write_run(store, run_id, folder, _place(row), show_gated=show_gated)


def _place(row: Row) -> str:
    """Return where a model's files lie: `org/name` for a Hub id, else one folder name."""
    is_safe = is_hub_id(row.model) and ".." not in row.model
    return row.model if is_safe else sanitised_model(row.model).strip(".") or "model"


def _write_run(store: Store, run_id: str, folder: Path, place: str, *, show_gated: bool) -> Iterator[Path]:
    tasks = [name for name in store.run(run_id).tasks if show_gated or not is_gated(name)]
    results, *samples = write_lm_eval_files(store, run_id, folder / RESULTS, log_samples=True, tasks=tasks, place=place)
    yield results
    details = folder / DETAILS / f"{place.replace('/', '__')}-details"
    for path in samples:
        try:
            details.mkdir(parents=True, exist_ok=True)
            yield path.rename(details / path.name)
        except OSError as error:
            raise StoreError(f"details cannot be written to {details}: {error}; name another folder") from error
