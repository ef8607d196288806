"""Check the optional packages that a task's scoring needs, before a model is loaded."""

from importlib.util import find_spec

from assaymark.errors import MissingExtra
from assaymark.scoring.metrics import find_metric
from assaymark.tasks.task import Task

__all__ = ["refuse_missing_packages"]


def refuse_missing_packages(task: Task) -> None:
    """Raise MissingExtra, with the install command, where a package that the task's scoring needs is absent."""
    missing = [package for package in _packages_of(task) if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"scoring task {task.name} (with {', '.join(missing)})", "metrics")


def _packages_of(task: Task) -> tuple[str, ...]:
    """Return the packages that the task's metrics need; functions of users' own files are not checked.

    An aggregation over texts has the name of its metric, whatever the metric's name in the file.
    """
    names = [metric.aggregation for metric in task.metrics if isinstance(metric.aggregation, str)]
    if task.origin == "assaymark":
        names += [metric.name for metric in task.metrics]
    rows = [row for name in names if (row := find_metric(name)) is not None]
    return tuple(dict.fromkeys(package for row in rows for package in row.packages))
