"""Reader of EvalScope's reports `reports/<model>/<dataset>.json`: totals by metric and subset, without samples.

Source: evalscope 0.11 and later, evalscope/report/report.py
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from assaymark.interop.imported import ForeignRun, Importer
from assaymark.interop.log_files import json_object, object_in, one_model
from assaymark.interop.reported import ReportedValue
from assaymark.records import JsonValue
from assaymark.records.json_values import float_at, int_at, objects_at
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import is_higher_better

REPORTS = "reports"  # the run's folder for reports, with one folder for each model


def evalscope_reports(path: Path) -> list[Path]:
    """Return the reports at a path: the file itself, or those in a folder or its `reports`; empty if there are none."""
    if path.is_dir():
        of_models = path.glob("*/*.json") if path.name == REPORTS else ()
        files = sorted({*path.glob("*.json"), *path.glob(f"**/{REPORTS}/**/*.json"), *of_models})
    else:
        files = [path] if path.suffix == ".json" else []
    return [file for file in files if file.is_file() and _is_report(file)]


def _is_report(file: Path) -> bool:
    report = object_in(file)
    metrics = report.get("metrics")
    if not {"dataset_name", "model_name"} <= set(report) or not isinstance(metrics, list):
        return False
    return all(isinstance(metric, dict) and {"name", "score"} <= set(metric) for metric in metrics)


def read_evalscope(path: Path) -> ForeignRun:
    """Return the run in a report, or in a folder of reports of one model.

    Raises: DataError if the reports are of several models.
    """
    files = evalscope_reports(path)
    reports = [json_object(file) for file in files]
    model = one_model([str(report["model_name"]) for report in reports], path)
    reported = [value for report in reports for value in _reported(report)]
    return ForeignRun(
        tool="evalscope",
        model=model,
        tasks=tuple(_tasks(reported)),
        samples=(),
        reported=tuple(reported),
        files=tuple(files),
        shots_known=False,
    )


def _tasks(reported: list[ReportedValue]) -> Iterator[TaskSummaryInput]:
    for name in dict.fromkeys(value.task for value in reported):
        metrics = dict.fromkeys(value.metric for value in reported if value.task == name)
        yield TaskSummaryInput(
            name=name,
            metrics=tuple(MetricInput(metric, higher_is_better=is_higher_better(metric)) for metric in metrics),
            output_type="unknown",
        )


def _reported(report: Mapping[str, JsonValue]) -> Iterator[ReportedValue]:
    """Yield the value of each metric, and those of its subsets if there are several."""
    dataset = str(report["dataset_name"])
    for metric in objects_at(report, "metrics"):
        yield _value(dataset, str(metric["name"]), metric)
        subsets = [
            subset
            for category in objects_at(metric, "categories")
            for subset in objects_at(category, "subsets")
            if not subset.get("is_aggregate")
        ]
        for subset in subsets if len(subsets) > 1 else ():
            yield _value(f"{dataset}/{subset['name']}", str(metric["name"]), subset)


def _value(task: str, metric: str, score: Mapping[str, JsonValue]) -> ReportedValue:
    return ReportedValue(task, metric, float_at(score, "score"), None, int_at(score, "num", 0))


IMPORTER = Importer(evalscope_reports, read_evalscope, "EvalScope's reports/<model>/<dataset>.json")
