"""Derive a task with other filters or metrics, or in another prompt style, from one that exists.

To score stored rows again, without data set and model, only how an answer is extracted and compared can change: the
stored outputs answer the prompts as they were. The gold choices of a sample come from the task's own scoring, which
always knows them.

In another prompt style (`prompts.prompt_styles`) a multiple-choice task keeps its name, so
that its runs are paired sample by sample; its hash includes the prompt style.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from assaymark.errors import DataError, PlanError, UnknownName, UsageError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.prompts.prompt_styles import COT_STOPS, PROMPT_STYLES, PromptStyle
from assaymark.prompts.questions import LETTERS
from assaymark.records import LoglikelihoodQuery, Output, Request, Sample, Score, content_hash
from assaymark.registry import nearest
from assaymark.scoring.metric import TIES
from assaymark.scoring.metrics import accuracies_over_choices, context_without_question, metric_item
from assaymark.scoring.run_code import choose_sandbox
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.functions import loader_of
from assaymark.tasks.generated_code import refuse_unconfirmed_code, sandbox_of, score_in
from assaymark.tasks.sample_scores import SampleScorer, circular_metrics
from assaymark.tasks.simulated_conversations import SimulatedScoring
from assaymark.tasks.support import why_not_runnable
from assaymark.tasks.task import KIND_OF_OUTPUT_TYPE, FunctionRef, Group, GroupMetric, Selection, Task
from assaymark.tasks.tool_use import tool_use_of
from assaymark.tasks.yaml_tasks import layout_of

PROMPT_STYLE_VERSION = 1  # raise it when the same task would get other prompts
COT_TOKENS = 512
HELM_SHOTS = 5

_METRICS: Mapping[PromptStyle, tuple[str, ...]] = {
    "letter": ("acc",),
    "text": ("acc", "acc_norm"),
    "cot": ("exact_match",),
    "helm-joint": ("exact_match",),
    "helm-separate": ("acc_tokens_ties",),
    "helm-separate-calibrated": ("acc_calibrated",),
}
_SEPARATE: Mapping[str, object] = {"target_delimiter": " ", "gen_prefix": None, "num_fewshot": 0}
_CHANGES: Mapping[PromptStyle, Mapping[str, object]] = {
    "letter": {"target_delimiter": " "},
    "text": {},
    "cot": {
        "output_type": "generate_until",
        "filter_list": [
            {
                "name": "letter",
                "filter": [{"function": "choice_letter", "letters": LETTERS}, {"function": "take_first"}],
            }
        ],
        "generation_kwargs": {"until": list(COT_STOPS), "max_gen_toks": COT_TOKENS, "do_sample": False},
        "target_delimiter": " ",
        "gen_prefix": None,
    },
    "helm-joint": {
        "output_type": "generate_until",
        "generation_kwargs": {"until": [], "max_gen_toks": 1, "do_sample": False},
        "target_delimiter": " ",
        "fewshot_delimiter": "\n\n",
        "gen_prefix": None,
        "num_fewshot": HELM_SHOTS,
    },
    "helm-separate": _SEPARATE,
    "helm-separate-calibrated": _SEPARATE,
}


def find_prompt_style(name: str) -> PromptStyle:
    """Return the prompt style of that name.

    Raises: UnknownName with the nearest ones.
    """
    for known in PROMPT_STYLES:
        if name == known:
            return known
    raise UnknownName("prompt style", name, nearest(name, PROMPT_STYLES), f"known: {', '.join(PROMPT_STYLES)}")


def styled_selection(selection: Selection, prompt_style: PromptStyle) -> Selection:
    """Return the selection with every task in this prompt style.

    Raises: PlanError for a suite, and for tasks that have no other prompt style.
    """
    if selection.suites:
        raise PlanError(
            f"suite {selection.suites[0].suite.name} fixes its prompt style; with style {prompt_style} it would be "
            "another benchmark; name its tasks with --tasks"
        )
    tasks = tuple(styled_task(task, prompt_style) for task in selection.tasks)
    return replace(
        selection, tasks=tasks, groups=tuple(_styled_group(group, prompt_style) for group in selection.groups)
    )


def styled_task(task: Task, prompt_style: PromptStyle) -> Task:
    """Return the task in this prompt style.

    Raises: PlanError for a task that is not multiple choice, or that scores by a function of its own.
    """
    if task.output_type != "multiple_choice" or task.python_class is not None:
        raise PlanError(f"task {task.name} is {task.output_type}; only multiple_choice can have style {prompt_style}")
    if task.process_results is not None:
        raise PlanError(f"task {task.name} is scored by a function of its own, which fits its own prompt style only")
    metrics = [metric_item(name) for name in _METRICS[prompt_style]]
    spec = {**task.spec, "filter_list": None, "num_fewshot": None, **_CHANGES[prompt_style], "metric_list": metrics}
    return with_spec(replace(task, prompt_style=prompt_style), spec)


def with_spec(task: Task, spec: Mapping[str, object]) -> Task:
    """Return the task that `spec` describes, in the prompt style of `task`."""
    described = task_from_spec(spec, task.source, task.origin, task.trusted)
    if task.prompt_style is None:
        return replace(described, groups=task.groups)
    # the key "put as" is hashed: changing it would change the keys of stored runs
    styled = content_hash({"task": described.spec_hash, "put as": task.prompt_style, "version": PROMPT_STYLE_VERSION})
    return replace(described, groups=task.groups, prompt_style=task.prompt_style, spec_hash=styled)


def _styled_group(group: Group, prompt_style: PromptStyle) -> Group:
    """Return the group with the metrics that its tasks now have, weighted as before."""
    if not group.metrics:
        return group
    by_size = group.metrics[0].weight_by_size
    own = tuple(GroupMetric(name, weight_by_size=by_size) for name in _METRICS[prompt_style])
    return replace(group, metrics=own)


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
        task: as its file describes it.
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
