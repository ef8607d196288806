"""Reader of OpenCompass's summary, `summary/summary_<time>.csv`: a line for each data set, a column for each model.

It has no samples, no number of samples and no errors. OpenCompass's percentages of samples become shares in [0, 1];
averages over data sets and scores of other kinds are not converted.
Source: opencompass 0.4, https://opencompass.readthedocs.io (user guides, summarizer)
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, Importer
from assaymark.interop.log_files import open_text
from assaymark.interop.reported import ReportedValue
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import find_metric, is_higher_better

COLUMNS = ("dataset", "version", "metric", "mode")
ABSENT = "-"


def opencompass_summary(path: Path) -> Path | None:
    """Return the summary at a path, the latest in a run's folder; None if there is none."""
    files = path.rglob("summary_*.csv") if path.is_dir() else [path] if path.suffix == ".csv" else []
    return max(
        (file for file in files if file.is_file() and _is_summary(file)), key=lambda summary: summary.name, default=None
    )


def _is_summary(file: Path) -> bool:
    with open_text(file, "utf-8-sig", "replace", newline="") as opened:
        return tuple(next(csv.reader(opened), ())[:4]) == COLUMNS


def read_opencompass(path: Path) -> ForeignRun:
    """Return the run in a summary of one model.

    Raises: DataError if the summary has no model or several, or an invalid number.
    """
    file = opencompass_summary(path)
    if file is None:
        raise DataError(f"no summary of OpenCompass at {path}; expected summary/summary_<time>.csv")
    with open_text(file, "utf-8-sig", newline="") as opened:
        header, *lines = list(csv.reader(opened))
    models = header[4:]
    if len(models) != 1:
        raise DataError(
            f"{file} has {len(models)} models ({', '.join(models[:4]) or 'none'}); expected one: import a copy of the "
            "file for each model, with the other columns removed"
        )
    reported = list(_reported(file, lines))
    return ForeignRun(
        tool="opencompass",
        model=models[0],
        date=file.stem.partition("_")[2] or None,
        tasks=tuple(_tasks(reported, lines)),
        samples=(),
        reported=tuple(reported),
        files=(file,),
        shots_known=False,
    )


def _tasks(reported: Sequence[ReportedValue], lines: Sequence[Sequence[str]]) -> Iterator[TaskSummaryInput]:
    versions = {line[0]: line[1] for line in lines if len(line) > 1}
    for name in dict.fromkeys(value.task for value in reported):
        metrics = tuple(
            MetricInput(value.metric, higher_is_better=is_higher_better(value.metric))
            for value in reported
            if value.task == name
        )
        yield TaskSummaryInput(name=name, metrics=metrics, output_type="unknown", version=versions[name])


def _reported(file: Path, lines: Sequence[Sequence[str]]) -> Iterator[ReportedValue]:
    for number, line in enumerate(lines, start=2):
        if len(line) < len(COLUMNS) + 1 or line[4] in {ABSENT, ""}:
            continue  # a heading between data sets, or a data set that was not evaluated
        try:
            value = float(line[4])
        except ValueError:
            raise DataError(f"{file}, line {number}: {line[0]} is {line[4]!r:.40}; expected a number or -") from None
        metric = find_metric(line[2])
        is_share = metric is not None and "opencompass" in metric.per_cent_in and 0.0 <= value <= 100.0
        yield ReportedValue(line[0], line[2], value / 100 if is_share else value)


IMPORTER = Importer(opencompass_summary, read_opencompass, "OpenCompass's summary_<time>.csv")
