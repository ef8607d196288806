"""Which optional packages a task's scoring needs: asked before a model is loaded, not after its answers are written."""

from collections.abc import Mapping
from importlib.util import find_spec

from evalstone.errors import MissingExtra
from evalstone.tasks.task import FunctionRef, Task

__all__ = ["refuse_missing_packages"]

_OF_AGGREGATION: Mapping[str, tuple[str, ...]] = dict.fromkeys(("bleu", "chrf", "chrf++", "ter"), ("sacrebleu",))
_OF_FUNCTION: Mapping[str, tuple[str, ...]] = {
    "evalstone.scoring.instructions.ifeval.process_results": ("langdetect",),
    "evalstone.scoring.mathematics_rows.process_results": ("math_verify",),
    "evalstone.scoring.mathematics_rows.process_results_hard": ("math_verify",),
    "truth.process_results_gen": ("sacrebleu", "rouge_score"),
}


def refuse_missing_packages(task: Task) -> None:
    """Raise MissingExtra, with the line that installs it, where a package that scores this task's answers is absent."""
    missing = [package for package in _packages_of(task) if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"scoring task {task.name} (with {', '.join(missing)})", "metrics")


def _packages_of(task: Task) -> tuple[str, ...]:
    functions = [task.process_results] if task.process_results and task.origin == "evalstone" else []
    found = [package for function in functions for package in _OF_FUNCTION.get(function.path, ())]
    for metric in task.metrics:
        if not isinstance(metric.aggregation, FunctionRef):
            found += _OF_AGGREGATION.get(metric.aggregation, ())
    return tuple(dict.fromkeys(found))
