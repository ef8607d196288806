"""Bind a task to its rows and the options of a run: as a YAML task or as a Python class."""

from assaymark.errors import DataError, MalformedSample, PlanError
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.generated_code import refuse_unconfirmed_code
from assaymark.tasks.python_tasks import BoundPythonTask
from assaymark.tasks.support import why_not_runnable
from assaymark.tasks.task import Task
from assaymark.tasks.yaml_tasks import BoundYamlTask

__all__ = ["bind"]


def bind(task: Task, options: BindOptions) -> BoundTask:
    """Load the task's rows and return the task bound to them and to the options.

    Raises: DataError, MalformedSample, PlanError; MissingExtra for data that only the Hub has.
    """
    if task.python_class is not None:
        return BoundPythonTask(task, options)
    reason = why_not_runnable(task.spec)
    if reason is not None:
        raise PlanError(f"task {task.name} cannot run: {reason}")
    refuse_unconfirmed_code(task, confirmed=options.confirm_unsafe_code)
    try:
        return BoundYamlTask(task, options)
    except MalformedSample as error:
        raise MalformedSample(f"task {task.name} ({task.source}), sample 0: {error}") from error
    except DataError as error:
        raise DataError(f"task {task.name} ({task.source}): {error}") from error
