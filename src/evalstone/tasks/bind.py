"""Binding: a task, its rows and the options of a run become the one of the two kinds of bound task that fits."""

from evalstone.errors import DataError, MalformedSample, PlanError
from evalstone.tasks.bound import BindOptions, BoundTask
from evalstone.tasks.python_tasks import BoundPythonTask
from evalstone.tasks.support import why_not_runnable
from evalstone.tasks.task import Task
from evalstone.tasks.written_code import refuse_unconfirmed_code
from evalstone.tasks.yaml_tasks import BoundYamlTask

__all__ = ["bind"]


def bind(task: Task, options: BindOptions) -> BoundTask:
    """Load the task's rows and fix its options.

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
