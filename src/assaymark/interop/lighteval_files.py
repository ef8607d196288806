"""Export of a stored run in the layout of the first Open LLM Leaderboard's data sets, as lighteval wrote them.

`results/ORG/MODEL/results_<time>.json` has values and errors by task (`harness|arc:challenge|25`);
`details/details_ORG__MODEL/<time>/details_<task>_<time>.parquet` has a row for each sample, and the results file lies
there again, as on the Hub. The time is the run's own, so that a second export writes the same files.
Source: https://huggingface.co/open-llm-leaderboard-old, lighteval 0.4 (`GeneralConfigLogger`, `DetailsLogger`)
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from assaymark.drafts import whole_file, write_whole
from assaymark.errors import StoreError, UsageError
from assaymark.interop.lighteval_rows import detail_rows, summary_of, summary_of_all, write_details
from assaymark.interop.lm_eval_results import seconds_of
from assaymark.records import Estimate, JsonValue
from assaymark.store import Store
from assaymark.store.rows import AttemptRow, RunRow
from assaymark.tasks.first_board_names import PresentName, first_board_name

__all__ = ["means_of", "write_lighteval_files"]

ALL = "all"
STDERR = "_stderr"
MEAN = "mean"  # other aggregations (perplexity) cannot be repeated from what a sample's row has, and are left out there


def write_lighteval_files(
    store: Store, run_id: str, folder: Path, *, model: str, place: str, tasks: Collection[str] | None = None
) -> Iterator[Path]:
    """Write a run's results and details; yield the paths.

    Args:
        store: the store that holds the run.
        run_id: the run's id; the run must have been summarised (`report.from_store.save_summary`).
        folder: the folder in which `results` and `details` lie.
        model: its name in the results; that of the run may be a path of this machine.
        place: the model's subfolder in `results`, such as `org/name`.
        tasks: those whose samples are written; None: all.

    Raises: UsageError if the run has no results yet, or the package xxhash is missing; StoreError if the files cannot
    be written.
    """
    run = store.run(run_id)
    if not run.extra.get("tasks"):
        raise UsageError(f"run {run.short_id} has no results yet (it is {run.status}); finish it by running it again")
    estimates = [one for one in store.estimates(run.run_id) if one.details.get("kind", "task") == "task"]
    stamp = datetime.fromisoformat(run.updated_at).strftime("%Y-%m-%dT%H-%M-%S.%f")
    details = folder / "details" / f"details_{place.replace('/', '__')}"
    summaries: dict[str, dict[str, JsonValue]] = {}
    try:
        for task in run.tasks if tasks is None else [name for name in run.tasks if name in tasks]:
            own = [one for one in estimates if one.task == task]
            if not own:
                continue
            name = _name(next((one for one in own if one.details.get("primary")), own[0]))[0]
            means = {one["name"] for one in run.extra["tasks"][task]["metrics"] if one["aggregation"] == MEAN}
            metrics = {(one.metric, one.filter): _name(one)[1] for one in own if one.metric in means}
            shots = int(own[0].details.get("n_shots") or 0)
            rows = list(detail_rows(store.samples(run.run_id, task), metrics, shots))
            summaries[name] = summary_of(rows)
            yield _write_details(details / stamp / f"details_{name.replace('/', '_')}_{stamp}.parquet", rows)
        results = _results(run, estimates, summaries)
        results["config_general"] = _general(run, store.attempts(run.run_id), model)
        text = json.dumps(results, indent=2, ensure_ascii=False)
        for file in (folder / "results" / place / f"results_{stamp}.json", details / f"results_{stamp}.json"):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text, errors="surrogatepass")
            yield file
    except OSError as error:
        raise StoreError(f"results cannot be written to {folder}: {error}; name another folder") from error


def _write_details(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as draft:
        write_details(draft, rows)
    return path


def _results(
    run: RunRow, estimates: Sequence[Estimate], summaries: Mapping[str, Mapping[str, JsonValue]]
) -> dict[str, JsonValue]:
    results: dict[str, dict[str, float]] = {}
    for one in estimates:
        name, metric = _name(one)
        value, error = one.details.get("lm_eval_value", one.value), one.details.get("lm_eval_stderr")
        if value is not None:
            results.setdefault(name, {})[metric] = float(value)
        if value is not None and error is not None:
            results[name][f"{metric}{STDERR}"] = float(error)
    tasks = run.extra["tasks"]
    return {
        "results": {**results, ALL: means_of(results.values())},
        "versions": {
            **{_name(one)[0]: str(tasks.get(one.task, {}).get("version", "N/A")) for one in estimates}, ALL: 0
        },
        "config_tasks": {name.rpartition("|")[0]: "LM Harness task" for name in results},
        "summary_tasks": dict(summaries),
        "summary_general": summary_of_all(summaries),
        "assaymark": {"run_id": run.run_id, "profile": run.plan.profile},
    }  # fmt: skip


def _general(run: RunRow, attempts: Sequence[AttemptRow], model: str) -> dict[str, JsonValue]:
    seconds = seconds_of(attempts)
    start = datetime.fromisoformat(run.created_at).timestamp()
    return {
        "lighteval_sha": None,
        "num_fewshot_seeds": 1,
        "override_batch_size": None,
        "max_samples": run.plan.limit,
        "job_id": "",
        "start_time": start,
        "end_time": start + seconds,
        "total_evaluation_time_secondes": str(seconds),
        "model_name": model,
        "model_sha": run.plan.model.revision or "",
        "model_dtype": f"torch.{run.plan.model.dtype}",
        "model_size": None,
    }


def means_of(entries: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return each metric's mean over the tasks that have it, whatever they measure: the leaderboard's `all`."""
    found: dict[str, list[float]] = {}
    for entry in entries:
        for name, value in entry.items():
            found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def _name(one: Estimate) -> tuple[str, str]:
    """Return what the leaderboard would have called an estimate's task and metric."""
    group = "mmlu" if "mmlu" in one.details.get("path", ()) else None
    return first_board_name(PresentName(one.task, one.metric, one.filter, group), int(one.details.get("n_shots") or 0))
