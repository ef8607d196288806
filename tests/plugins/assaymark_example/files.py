"""A format of files: one line for each value, `task metric value n`. It is read and written."""

from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, Importer
from assaymark.interop.reported import ReportedValue
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.runs.run import Run

HEAD = "points of "


def write_points(run: Run, path: Path) -> None:
    """Write a run's values. A partial file is never seen: `path` is moved to its place afterwards."""
    lines = [f"{HEAD}{run.row.model}"]
    lines += [f"{each.task} {each.metric} {each.value} {each.n}" for each in run.estimates if each.value is not None]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def is_points(path: Path) -> bool:
    """Return whether a file is in this format."""
    return path.is_file() and path.suffix == ".points" and path.read_text("utf-8", "replace").startswith(HEAD)


def read_points(path: Path) -> ForeignRun:
    """Return the run of a file. Raises: DataError, or ValueError for a line that is not in this format."""
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    if not lines:
        raise DataError(f"{path} has no values; expected lines of: task metric value n")
    values = [
        ReportedValue(task, metric, float(value), n=int(n))
        for task, metric, value, n in (line.split(" ") for line in lines)
    ]
    return ForeignRun(
        tool="points",
        model=head.removeprefix(HEAD),
        tasks=tuple(
            TaskSummaryInput(task, tuple(MetricInput(each.metric) for each in values if each.task == task))
            for task in dict.fromkeys(each.task for each in values)
        ),
        samples=(),
        reported=tuple(values),
        files=(path,),
    )


IMPORTER = Importer(is_points, read_points, "points files")
