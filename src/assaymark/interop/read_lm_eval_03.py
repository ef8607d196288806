"""Reader of results of lm-eval before 0.4, and of leaderboards made with it, which have no samples.

A metric's name has no filter after it (`acc`, `acc_stderr`). The number of shots is one for all tasks, or at the end of
a task's name (`harness|arc:challenge|25`, the first Open LLM Leaderboard).
Source: lm-evaluation-harness 0.2 and 0.3, evaluator.py
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, Importer
from assaymark.interop.lm_eval_checks import MOST_SHOTS, model_named
from assaymark.interop.log_files import json_object, object_in, one_model
from assaymark.interop.reported import ReportedValue
from assaymark.records import JsonValue
from assaymark.records.json_values import object_at, object_of
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import is_higher_better

OVER_ALL = "all"  # a leaderboard's mean over all tasks, whatever their metrics
STDERR = "_stderr"


def early_files(path: Path) -> list[Path]:
    """Return the early results files at a path: the file itself, or those in a folder; empty if there are none."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path] if path.suffix == ".json" else []
    return [file for file in files if file.is_file() and _is_early(file)]


def _is_early(file: Path) -> bool:
    content = object_in(file)
    results = content.get("results")
    if not isinstance(results, dict) or not results or "configs" in content or "config_general" in content:
        return False
    if not isinstance(content.get("versions"), dict) and not isinstance(content.get("config"), dict):
        return False
    return all(isinstance(entry, dict) and not any("," in str(key) for key in entry) for entry in results.values())


def read_lm_eval_03(path: Path) -> ForeignRun:
    """Return the run in an early results file, or in a folder of files of one model (for example one for each task).

    Raises: DataError if the files are of several models, or two of them have the same task.
    """
    contents = [(file, json_object(file)) for file in early_files(path)]
    model = one_model([model_named(content) for _, content in contents], path)
    first = object_at(contents[0][1], "config")
    return ForeignRun(
        tool="lm-eval",
        version="0.3",
        model=model,
        dtype=str(first.get("model_dtype") or "dtype unknown").removeprefix("torch."),
        tasks=tuple(_tasks(contents)),
        samples=(),
        reported=tuple(value for file, content in contents for value in _reported(file, content)),
        files=tuple(file for file, _ in contents),
        config=first,
        shots_known=any(object_at(content, "config").get("num_fewshot") is not None for _, content in contents)
        or all("|" in name for _, content in contents for name in _entries(content)),
    )


def _entries(content: Mapping[str, JsonValue]) -> dict[str, Mapping[str, JsonValue]]:
    results = object_of(content["results"], "results")
    return {name: object_of(entry, name) for name, entry in results.items() if name != OVER_ALL}


def _tasks(contents: list[tuple[Path, dict[str, JsonValue]]]) -> Iterator[TaskSummaryInput]:
    file_of: dict[str, Path] = {}
    for file, content in contents:
        for name, entry in _entries(content).items():
            if name in file_of:
                raise DataError(f"{name} is in {file_of[name]} and in {file}; import them one by one")
            file_of[name] = file
            yield TaskSummaryInput(
                name=name,
                metrics=tuple(
                    MetricInput(metric, higher_is_better=is_higher_better(metric))
                    for metric in entry
                    if not metric.endswith(STDERR)
                ),
                output_type="unknown",
                version=str(object_at(content, "versions").get(name, "N/A")),
                num_fewshot=_shots(name, object_at(content, "config")),
            )


def _shots(name: str, config: Mapping[str, object]) -> int:
    tail = name.rpartition("|")[2] if "|" in name else ""
    n_shots = int(tail) if tail.isdecimal() and len(tail) < 8 else config.get("num_fewshot") or 0
    if not isinstance(n_shots, int) or isinstance(n_shots, bool) or not 0 <= n_shots <= MOST_SHOTS:
        raise DataError(f"num_fewshot of {name} is {n_shots!r:.80}; expected an integer from 0 to {MOST_SHOTS:,}")
    return n_shots


def _reported(file: Path, content: Mapping[str, object]) -> Iterator[ReportedValue]:
    for name, entry in _entries(content).items():
        for metric, value in entry.items():
            if metric.endswith(STDERR):
                continue
            if value is not None and _number(value) is None:
                raise DataError(f"{file}: results.{name}.{metric} is {value!r:.80}; expected a number or null")
            yield ReportedValue(name, metric, _number(value), _number(entry.get(metric + STDERR)))


def _number(value: object) -> float | None:
    """Return a number as a float; None for anything else, and for an integer that no float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isinstance(value, float) or abs(value) < 10**308 else None


IMPORTER = Importer(early_files, read_lm_eval_03, "lm-eval 0.3's JSON")
