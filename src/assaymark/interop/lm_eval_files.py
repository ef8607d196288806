"""Export of a stored run as lm-eval's files, with the same names and folders, so that existing scripts keep working.

The files are `<output_path>/<model>/results_<time>.json` and, with `log_samples`, `samples_<task>_<time>.jsonl` next to
it. As in lm-eval, a path that ends in `.json` is the results file itself.
"""

import json
import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

from assaymark.drafts import whole_file
from assaymark.errors import StoreError, UsageError
from assaymark.interop.lm_eval_results import results_mapping, tracker_mapping
from assaymark.interop.lm_eval_samples import sample_lines, task_hash
from assaymark.interop.lm_eval_table import lm_eval_table
from assaymark.store import Store

UNSAFE = re.compile(r'["<>:/|\\?*\[\]]+')


def write_lm_eval_files(
    store: Store,
    run_id: str,
    output_path: str | Path,
    *,
    log_samples: bool = False,
    tasks: Collection[str] | None = None,
    place: str | None = None,
) -> list[Path]:
    """Write lm-eval's results JSON, and with `log_samples` one samples JSONL per task; return the written files.

    Args:
        store: the store that holds the run.
        run_id: the run's id; the run must have been summarised (`report.from_store.save_summary`).
        output_path: a folder, in which the model gets a subfolder, or a path ending in `.json`.
        log_samples: write every sample as well.
        tasks: those whose samples are written; None: all.
        place: the model's subfolder; None: named as lm-eval does.

    Raises: UsageError if the run was not summarised yet; StoreError if the files cannot be written.
    """
    run = store.run(run_id)
    attempts = store.attempts(run.run_id)
    estimates = store.estimates(run.run_id)
    if not run.extra.get("tasks"):
        raise UsageError(f"run {run.short_id} has no results yet (it is {run.status}); finish it by running it again")
    results = results_mapping(run, estimates, attempts)
    stamp = datetime.now().isoformat().replace(":", "-")  # noqa: DTZ005 - lm-eval's file names have local time
    file, folder = _targets(Path(output_path), place or sanitised_model(run.model), stamp)
    samples: dict[str, list[dict[str, Any]]] = {}
    if log_samples:
        for plan in (one for one in run.plan.tasks if tasks is None or one.name in tasks):
            task = run.extra.get("tasks", {}).get(plan.name, {})
            samples[plan.name] = list(sample_lines(store.samples(run.run_id, plan.name), task))
    results["task_hashes"] = {name: task_hash(lines) for name, lines in samples.items()}
    results |= tracker_mapping(run, attempts, sanitised_model(run.model))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(file, [json.dumps(results, indent=2, default=str, ensure_ascii=False)])
        written = [file]
        for name, lines in samples.items():
            written.append(folder / f"samples_{name}_{stamp}.jsonl")
            _write(written[-1], [json.dumps(line, default=str, ensure_ascii=False) + "\n" for line in lines])
    except OSError as error:
        raise StoreError(
            f"results cannot be written to {folder}: {error}; name another folder with --output_path"
        ) from error
    return written


def results_table(store: Store, run_id: str) -> str:
    """Return the tables that lm-eval prints at the end of such a run: tasks, and groups if there are any."""
    run = store.run(run_id)
    results = results_mapping(run, store.estimates(run.run_id))
    tables = lm_eval_table(results)
    return tables + "\n" + lm_eval_table(results, "groups") if "groups" in results else tables


def sanitised_model(name: str) -> str:
    """Return lm-eval's folder name for a model."""
    return UNSAFE.sub("__", name)


def _targets(path: Path, model: str, stamp: str) -> tuple[Path, Path]:
    """Return the results file and the folder of the samples files."""
    if path.suffix == ".json":
        return path.with_name(f"{path.stem}_{stamp}.json"), path.parent
    return path / model / f"results_{stamp}.json", path / model


def _write(path: Path, texts: list[str]) -> None:
    with whole_file(path) as draft, draft.open("w", encoding="utf-8", errors="surrogatepass") as file:
        file.writelines(texts)
