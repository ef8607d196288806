"""Reader of lighteval's results JSON with its details (`lighteval_details`), and of the first Open LLM Leaderboard's.

A corpus metric cannot be recomputed from samples; its value is that of the results file.
Source: lighteval 0.13, https://huggingface.co/docs/lighteval/saving-and-reading-results
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, ForeignSample, ReportedValue
from assaymark.interop.lighteval_details import samples_in, stamp_of
from assaymark.interop.log_files import json_object, object_in
from assaymark.report.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import is_higher_better

__all__ = ["is_lighteval", "read_lighteval"]

STDERR = "_stderr"
OVER_ALL = "all"  # lighteval's mean over all tasks, whatever their metrics


def is_lighteval(path: Path) -> bool:
    """Return whether a path is lighteval's results file, a details file, or a folder with either."""
    if path.is_dir():
        return _results_in(path) is not None or any(path.rglob("details_*.parquet"))
    if path.suffix == ".parquet":
        return path.name.startswith("details_")
    return path.suffix == ".json" and path.is_file() and "config_general" in object_in(path)


def read_lighteval(path: Path) -> ForeignRun:
    """Return the run in lighteval's files: the latest in a folder, with the details of the same time.

    Raises: DataError if a file is not in lighteval's format.
    """
    results_file = path if path.suffix == ".json" else _results_in(path) if path.is_dir() else None
    details = _details_of(results_file, path)
    results: Mapping[str, Any] = json_object(results_file) if results_file is not None else {}
    samples = [sample for file in details for sample in samples_in(file, results.get("results") or ())]
    reported = tuple(_reported(results, samples))
    if not samples and not reported:
        raise DataError(f"{path} holds no number and no sample; expected lighteval's results, such as "
                        '{"results": {"harness|arc:challenge|25": {"acc": 0.5}}}')  # fmt: skip
    general = results.get("config_general") or {}
    config = general.get("model_config") or {}
    return ForeignRun(
        tool="lighteval",
        version=str(general["lighteval_sha"]) if general.get("lighteval_sha") not in {None, "?"} else None,
        date=results_file.stem.partition("_")[2] if results_file is not None else None,
        model=str(general.get("model_name") or config.get("model_name") or "unknown"),
        dtype=str(config.get("dtype") or general.get("model_dtype") or "dtype unknown").removeprefix("torch."),
        tasks=tuple(_tasks(results, samples)),
        samples=tuple(samples),
        reported=reported,
        files=(*([results_file] if results_file is not None else []), *details),
        config={key: value for key, value in general.items() if key != "model_config"},
    )


def _results_in(folder: Path) -> Path | None:
    """Return the latest results file below a folder, if it is lighteval's."""
    latest = max(folder.rglob("results_*.json"), key=lambda file: file.name, default=None)
    return latest if latest is not None and "config_general" in object_in(latest) else None


def _details_of(results: Path | None, path: Path) -> list[Path]:
    """Return the details of the same time as the results: next to them, or in lighteval's `details` folder."""
    if results is None:
        return sorted(path.rglob("details_*.parquet")) if path.is_dir() else [path]
    stamp = stamp_of(results.stem.partition("_")[2])
    folders = [results.parent]
    parts = list(results.parts)
    if "results" in parts:
        last = len(parts) - 1 - parts[::-1].index("results")
        folders.append(Path(*parts[:last], "details", *parts[last + 1 : -1]))
    found = {file for each in folders if each.is_dir() for file in each.rglob("details_*.parquet")}
    return sorted(file for file in found if stamp_of(file.stem).endswith(f"_{stamp}"))


def _tasks(results: Mapping[str, Any], samples: Sequence[ForeignSample]) -> Iterator[TaskSummaryInput]:
    configs = results.get("config_tasks") or {}
    listed = [name for name in results.get("results") or () if name != OVER_ALL]
    for name in dict.fromkeys([*listed, *(sample.task for sample in samples)]):
        stated = configs.get(name)
        config = stated if isinstance(stated, Mapping) else {}  # the first leaderboard has a text there
        own = [sample for sample in samples if sample.task == name]
        directions = {
            str(one["metric_name"]): bool(one["higher_is_better"])
            for one in config.get("metrics") or ()
            if {"metric_name", "higher_is_better"} <= set(one)
        }
        entry = (results.get("results") or {}).get(name) or {}
        reported = [metric for metric in entry if not metric.endswith(STDERR)]
        metrics = dict.fromkeys(metric for sample in own for metric in sample.scores) or dict.fromkeys(reported)
        shots = config.get("num_fewshots")
        yield TaskSummaryInput(
            name=name,
            metrics=tuple(
                MetricInput(metric, higher_is_better=directions.get(metric, is_higher_better(metric)))
                for metric in metrics
            ),
            output_type="multiple_choice" if any(sample.choices for sample in own) else "generate_until",
            alias=name.rpartition("|")[0] or name,
            version=str((results.get("versions") or {}).get(name, config.get("version", "N/A"))),
            num_fewshot=int(shots if shots is not None else _shots_in(name)),
        )


def _shots_in(name: str) -> int:
    """Return the number of shots at the end of a task's full name (`arc:challenge|25`)."""
    tail = name.rpartition("|")[2]
    return int(tail) if tail.isdigit() else 0


def _reported(results: Mapping[str, Any], samples: Sequence[ForeignSample]) -> Iterator[ReportedValue]:
    for task, entry in (results.get("results") or {}).items():
        n = sum(sample.task == task for sample in samples)
        for metric, value in entry.items():
            if task == OVER_ALL or metric.endswith(STDERR) or not isinstance(value, int | float):
                continue
            stderr = entry.get(f"{metric}{STDERR}")
            yield ReportedValue(task, metric, float(value), stderr if isinstance(stderr, int | float) else None, n)
