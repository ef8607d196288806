"""A task in another prompt style (`prompts.prompt_styles`).

It keeps its name, so that its runs are paired sample by sample; its hash includes the prompt style.
"""

from collections.abc import Mapping
from dataclasses import replace

from assaymark.errors import PlanError, UnknownName
from assaymark.prompts.prompt_styles import COT_STOPS, PROMPT_STYLES, PromptStyle
from assaymark.prompts.questions import LETTERS
from assaymark.records import content_hash
from assaymark.registry import nearest
from assaymark.scoring.metrics import metric_item
from assaymark.tasks.dialect import task_from_spec
from assaymark.tasks.task import Group, GroupMetric, Selection, Task

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
