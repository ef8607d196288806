"""Derive a task with other filters or metrics from one that exists, to score stored rows again without model.

Only how an answer is extracted and compared can change: the stored outputs answer the prompts as they were. The gold
choices of a sample come from the task's own scoring, which always knows them.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from assaymark.errors import DataError, PlanError, UnknownName, UsageError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import LoglikelihoodQuery, Output, Request, Sample, Score
from assaymark.registry import nearest
from assaymark.scoring.metric import TIES
from assaymark.scoring.metrics import accuracies_over_choices, context_without_question
from assaymark.scoring.run_code import choose_sandbox
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.circular import circular_metrics
from assaymark.tasks.functions import loader_of
from assaymark.tasks.generated_code import refuse_unconfirmed_code, sandbox_of, score_in
from assaymark.tasks.sample_scores import SampleScorer
from assaymark.tasks.simulated_conversations import SimulatedScoring
from assaymark.tasks.styled_tasks import with_spec
from assaymark.tasks.task import KIND_OF_OUTPUT_TYPE, FunctionRef, Task
from assaymark.tasks.task_index import why_not_runnable
from assaymark.tasks.tool_use import tool_use_of
from assaymark.tasks.yaml_tasks import layout_of

_DECIDING = (TIES, *accuracies_over_choices())
_UNLIKELY = -1000.0


def choice_queries(request: Request) -> list[LoglikelihoodQuery]:
    """Return the queries of the sample's choices, in order; none where the task offers no choices."""
    queries = [query for query in request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"]
    return queries if len(queries) > 1 else []


def gold_choices(bound: BoundTask, request: Request, sample: Sample) -> frozenset[int]:
    """Return the positions of the gold choices, empty where the task's scoring does not reveal them.

    Each choice is scored as if the model found it certain: those that earn credit are gold.
    """
    return frozenset(
        position
        for position, query in enumerate(choice_queries(request))
        if _credit(bound, request, sample, query.index) > 0
    )


def _credit(bound: BoundTask, request: Request, sample: Sample, certain: int) -> float:
    outputs = [
        Output(
            request.id,
            query.index,
            total_nats=0.0 if query.index == certain else _UNLIKELY,
            is_greedy=False,
            n_tokens=1,
        )
        for query in request.queries
    ]
    scores = {score.metric: score.value for score in bound.score(request, sample, outputs)}
    return next((value or 0.0 for name in _DECIDING if (value := scores.get(name)) is not None), 0.0)


SCORING_KEYS = frozenset({"filter_list", "metric_list", "process_results", "doc_to_target"})
"""Keys of a task file that affect only scoring, not prompts (for a task without shots)."""

_TAKES_PAIRS = frozenset({"take_first", "take_first_k"})  # filters that can be applied to log-likelihoods


def read_item(text: str, option: str) -> str | Mapping[str, object]:
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
        raise UsageError(f"{option} {text!r:.120} is not a mapping; expected an item as in a task file's list")
    return content


def with_scoring(
    task: Task, filters: Sequence[str | Mapping[str, object]], metrics: Sequence[str | Mapping[str, object]]
) -> Task:
    """Return the task with only these filters and metrics; where none are named, with those it has.

    Args:
        filters: names of its own filters, or items of a `filter_list` (`name`, and `filter`: a list of steps).
        metrics: names of its own or of known metrics, or items of a `metric_list` (`metric` and its options).

    Raises: UnknownName for a filter that the task does not have; DataError for an invalid item.
    """
    changes: dict[str, object] = {}
    if filters:
        changes["filter_list"] = [_filter_item(task, item) for item in filters]
    if metrics:
        changes["metric_list"] = [_metric_item(task, item) for item in metrics]
    if not changes:
        return task
    return with_spec(task, {**task.spec, **changes})


def _filter_item(task: Task, item: str | Mapping[str, object]) -> Mapping[str, object]:
    if isinstance(item, Mapping):
        return item
    own: dict[str, Mapping[str, object]] = {str(each["name"]): each for each in _items(task, "filter_list")}
    own.setdefault("none", {"name": "none", "filter": [{"function": "take_first"}]})
    if item not in own:
        remedy = f"its filters: {', '.join(own)}; write a new one as {{name: last, filter: [{{function: regex, ...}}]}}"
        raise UnknownName(f"filter of task {task.name}", item, nearest(item, own), remedy)
    return own[item]


def _metric_item(task: Task, item: str | Mapping[str, object]) -> Mapping[str, object]:
    """Return the task's own item of that name, overridden by the new options, else the item as given."""
    requested = {"metric": item} if isinstance(item, str) else dict(item)
    for own in _items(task, "metric_list"):
        metric = own.get("metric")
        name = (metric.declared_as or metric.name) if isinstance(metric, FunctionRef) else str(metric)
        if requested.get("metric") in {name, *_score_names(task, metric)}:
            return {**own, **requested, "metric": metric}
    return requested


def _items(task: Task, key: str) -> Iterable[Mapping[str, object]]:
    """Return the items of a list in the task's file, which `dialect` has checked."""
    listed = task.spec.get(key)
    return listed if isinstance(listed, list) else ()


def _score_names(task: Task, metric: object) -> set[str]:
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
    stored = {
        "".join(query.segments or ())
        for query in request.queries
        if isinstance(query, LoglikelihoodQuery) and query.role == "unconditional"
    }
    for metric in task.metrics:
        context = context_without_question(metric.name)
        if context is not None and context not in stored:
            after = f"after {context!r}" if context else "after an empty context"
            raise PlanError(
                f"{where}: {metric.name} needs each choice's log-likelihood {after}, which is not "
                f"stored; run the task again with {metric.name} in its metric_list"
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
        self, task: Task, row: Mapping[str, object], *, unsafe_code: bool = False, circular: bool = False
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
        self._conversations: SimulatedScoring | None = None
        if task.prompt.simulator is not None:
            self._conversations = SimulatedScoring(task, choose_sandbox(f"task {task.name}", unsafe=unsafe_code))

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the sample's scores, one per filter and metric; none for an earlier answer of a conversation."""
        if self._conversations is not None:
            return self._conversations.score(request, sample, outputs)
        return score_in(self._sandbox, self._scorer, request, sample, outputs)
