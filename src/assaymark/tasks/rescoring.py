"""Derive a task with other filters or metrics, and score stored rows with it; no data set is read, no model loaded.

Only how an answer is extracted and compared can change. The prompts stay, since the stored outputs answer them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assaymark.errors import DataError, PlanError, UnknownName, UsageError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import LoglikelihoodQuery, Output, Request, Sample, Score
from assaymark.registry import nearest
from assaymark.scoring.metrics import needs_unconditional
from assaymark.tasks.circular import circular_metrics
from assaymark.tasks.functions import loader_of
from assaymark.tasks.generated_code import refuse_unconfirmed_code, sandbox_of, score_in
from assaymark.tasks.prompt_styles import with_spec
from assaymark.tasks.sample_scores import SampleScorer
from assaymark.tasks.support import why_not_runnable
from assaymark.tasks.task import KIND_OF_OUTPUT_TYPE, FunctionRef, Task
from assaymark.tasks.tool_use import tool_use_of
from assaymark.tasks.yaml_tasks import layout_of

__all__ = ["SCORING_KEYS", "StoredScoring", "read_item", "refuse_inapplicable", "with_scoring"]

SCORING_KEYS = frozenset({"filter_list", "metric_list", "process_results", "doc_to_target"})
"""Keys of a task file that affect only scoring, not prompts (for a task without shots)."""

_TAKES_PAIRS = frozenset({"take_first", "take_first_k"})  # filters that can be applied to log-likelihoods


def read_item(text: str, option: str) -> str | Mapping[str, Any]:
    """Return an item of a task file's list: a name, or the mapping in a YAML text or file.

    Raises: UsageError for text that begins like a mapping but is none.
    """
    is_file = text.endswith((".yaml", ".yml"))
    if not is_file and not text.lstrip().startswith("{"):
        return text
    try:
        content = load_yaml(Path(text).read_bytes() if is_file else text)
    except (OSError, DataError) as error:
        raise UsageError(f"{option} {text!r:.120} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, Mapping):
        raise UsageError(f"{option} {text!r:.120} is no mapping; expected an item as in a task file's list")
    return content


def with_scoring(
    task: Task, filters: Sequence[str | Mapping[str, Any]], metrics: Sequence[str | Mapping[str, Any]]
) -> Task:
    """Return the task with only these filters and metrics; where none are named, with those it has.

    Args:
        task: as its file describes it.
        filters: names of its own filters, or items of a `filter_list` (`name`, and `filter`: a list of steps).
        metrics: names of its own or of known metrics, or items of a `metric_list` (`metric` and its options).

    Raises: UnknownName for a filter that the task does not have; DataError for an invalid item.
    """
    changes: dict[str, Any] = {}
    if filters:
        changes["filter_list"] = [_filter_item(task, item) for item in filters]
    if metrics:
        changes["metric_list"] = [_metric_item(task, item) for item in metrics]
    if not changes:
        return task
    return with_spec(task, {**task.spec, **changes})


def _filter_item(task: Task, item: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        return item
    own = {str(each["name"]): each for each in task.spec.get("filter_list") or ()}
    own.setdefault("none", {"name": "none", "filter": [{"function": "take_first"}]})
    if item not in own:
        remedy = f"its filters: {', '.join(own)}; write a new one as {{name: last, filter: [{{function: regex, ...}}]}}"
        raise UnknownName(f"filter of task {task.name}", item, nearest(item, own), remedy)
    found: Mapping[str, Any] = own[item]
    return found


def _metric_item(task: Task, item: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the task's own item of that name, overridden by the new options, else the item as given."""
    given = {"metric": item} if isinstance(item, str) else dict(item)
    for own in task.spec.get("metric_list") or ():
        metric = own.get("metric")
        name = metric.name if isinstance(metric, FunctionRef) else str(metric)
        if given.get("metric") in {name, *_score_names(task, metric)}:
            return {**own, **given, "metric": metric}
    return given


def _score_names(task: Task, metric: Any) -> set[str]:
    """Return the names of the scores of a metric that is a function: pass@1 for pass_at_k."""
    return {each.name for each in task.metrics if isinstance(metric, FunctionRef) and each.function == metric}


def refuse_inapplicable(task: Task, request: Request) -> None:
    """Raise PlanError where a metric or filter cannot be computed from the kind of answer that is stored.

    `request` is one of the task's stored requests; its queries determine what can be scored.
    """
    where = f"task {task.name}"
    if task.python_class is not None:
        raise PlanError(f"{where} is a Python class that scores by itself; run it again instead")
    kind = request.queries[0].kind  # a generation comes first, before the log-likelihood of `also_loglikelihood`
    if kind != KIND_OF_OUTPUT_TYPE[task.output_type]:
        raise PlanError(
            f"{where}: its file has output_type {task.output_type}, and the stored answers are of the kind {kind}; "
            "run the task again to get another kind of answer"
        )
    if reason := why_not_runnable(task.spec):
        raise PlanError(f"{where}: {reason}; the stored answers are of the kind {kind}")
    if task.output_type != "generate_until":
        _refuse_text_filters(task)
    if task.spec.get("unsafe_code") and any(metric.function is None for metric in task.metrics):
        names = ", ".join(metric.name for metric in task.metrics if metric.function is None)
        raise PlanError(f"{where}: {names} compares texts; its answers are programs, which are scored by their tests")
    unconditional = next((metric.name for metric in task.metrics if needs_unconditional(metric.name)), None)
    if unconditional is not None and not any(
        isinstance(query, LoglikelihoodQuery) and query.role == "unconditional" for query in request.queries
    ):
        raise PlanError(
            f"{where}: {unconditional} needs each choice's log-likelihood after an empty context, which is not "
            f"stored; run the task again with {unconditional} in its metric_list"
        )


def _refuse_text_filters(task: Task) -> None:
    for pipeline in task.filters:
        for step in pipeline.steps:
            if isinstance(step.function, str) and step.function not in _TAKES_PAIRS:
                raise PlanError(
                    f"task {task.name}: filter '{pipeline.name}' has the step {step.function}, which reads generated "
                    "answers; the stored answers are log-likelihoods; omit the filter, or name tasks with --task"
                )


class StoredScoring:
    """Scores one task's stored responses, by the filters of `task` and by `metrics`.

    circular: whether they contain rotations of the options, which have metrics of their own.
    """

    def __init__(
        self, task: Task, row: Mapping[str, Any], *, unsafe_code: bool = False, circular: bool = False
    ) -> None:
        refuse_unconfirmed_code(task, confirmed=unsafe_code)
        self.task = task
        self.metrics = (*task.metrics, *circular_metrics(task)) if circular else task.metrics
        layout = layout_of(task, frozenset(row), shot=False)
        multiple_input = layout.choices is not None and isinstance(layout.text(row), int)
        multiple_targets = isinstance(layout.target(row), list)
        self._scorer = SampleScorer(
            task,
            layout,
            multiple_input=multiple_input,
            multiple_targets=multiple_targets,
            tool_use=tool_use_of(task.prompt, task.metrics, loader_of(task), frozenset(row)),
        )
        self._sandbox = sandbox_of(task, unsafe=unsafe_code)

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the sample's scores, one per filter and metric."""
        return score_in(self._sandbox, self._scorer, request, sample, outputs)
