"""The facts of tasks that are stored with a run, so that it can be reported without their files.

A task file may change or vanish, but a stored run must still have its metrics, its groups and the file's content.
`facts_of` converts a selection to JSON, stored with the run's estimates; `tasks_from` and `groups_from` read it back.
Functions are stored as their source text, read from the syntax tree, so nothing is imported.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from assaymark.python_source import parse_python
from assaymark.records import Estimate, JsonValue
from assaymark.records.plans import content_hash
from assaymark.records.result_facts import GroupFact, MetricFact, ResultFacts, TaskFact
from assaymark.results.evidence.records import (
    GroupAggregate,
    GroupSummaryInput,
    MetricInput,
    OwnAggregation,
    TaskSummaryInput,
)
from assaymark.statistics.aggregate import AGGREGATIONS
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.describe import library_cards
from assaymark.tasks.dialect import SEALING_KEYS
from assaymark.tasks.functions import load_function
from assaymark.tasks.spec_hash import file_of
from assaymark.tasks.task import FunctionRef, Group, MetricSpec, Selection, Task
from assaymark.tasks.yaml_files import read_card


def facts_of(selection: Selection, bound: Sequence[BoundTask] = ()) -> ResultFacts:
    """Return the facts to store with a run, as JSON; `bound` adds the total number of samples of each task."""
    by_name = {bound_task.plan.name: bound_task for bound_task in bound}
    return {
        "tasks": {task.name: _task_json(task, by_name.get(task.name)) for task in selection.tasks},
        "groups": [_group_json(group) for group in selection.groups],
    }


def own_aggregations(tasks: Sequence[Task]) -> dict[tuple[str, str], OwnAggregation]:
    """Return the aggregations that are functions of task files, loaded, by (task, metric)."""
    return {
        (task.name, metric.name): load_function(metric.aggregation, task.trusted)
        for task in tasks
        for metric in task.metrics
        if isinstance(metric.aggregation, FunctionRef)
    }


def lacking_aggregations(facts: ResultFacts, own: Mapping[tuple[str, str], object]) -> list[tuple[str, str]]:
    """Return (task, metric) of stored facts whose aggregation is a task file's function that is not in `own`."""
    return [
        (name, metric["name"])
        for name, task in facts.get("tasks", {}).items()
        for metric in task["metrics"]
        if metric["aggregation"] not in AGGREGATIONS and (name, metric["name"]) not in own
    ]


def tasks_from(
    facts: ResultFacts, own: Mapping[tuple[str, str], OwnAggregation] | None = None
) -> tuple[TaskSummaryInput, ...]:
    """Return the tasks of stored facts; `own` has the aggregations that are functions, by (task, metric)."""
    functions = own or {}
    return tuple(
        TaskSummaryInput(
            name=name,
            metrics=tuple(
                MetricInput(
                    metric["name"],
                    functions.get((name, metric["name"]), metric["aggregation"]),
                    metric["higher_is_better"],
                    tuple(metric["filters"]),
                    metric.get("scale"),
                    bool(metric.get("is_neutral")),
                )
                for metric in task["metrics"]
            ),
            output_type=task["output_type"],
            alias=task["alias"],
            version=str(task["version"]),
            num_fewshot=task["num_fewshot"],
            n_total=task["n_total"],
            chance=task["chance"],
            primary_metric=task.get("primary_metric"),
            n_skipped=task["skipped"]["n"] if "skipped" in task else 0,
            first_skipped=next(iter(task["skipped"]["first"]), "") if "skipped" in task else "",
            is_own=task.get("origin") == "user",
            asks=_asks(task.get("spec")),
            copy_of=None if (perturbed := task.get("perturbed")) is None else perturbed["of"],
        )
        for name, task in facts.get("tasks", {}).items()
    )


SCORING_KEYS = frozenset({"process_results", "metric_list", "filter_list"})
NAMING_KEYS = frozenset({"task", "task_alias", "tag", "group", "include", "metadata", *SEALING_KEYS})


def _asks(spec: object) -> str:
    """Return a hash of a stored task file without names and scoring: equal for two scorings of the same questions."""
    if not isinstance(spec, Mapping) or not spec:
        return ""
    return content_hash({key: value for key, value in spec.items() if key not in SCORING_KEYS | NAMING_KEYS})


def groups_from(facts: ResultFacts) -> tuple[GroupSummaryInput, ...]:
    """Return the groups of stored facts."""
    return tuple(
        GroupSummaryInput(
            name=group["name"],
            members=tuple(group["members"]),
            aggregates=tuple(
                GroupAggregate(
                    aggregate["metric"],
                    aggregate["weight_by_size"],
                    None if aggregate["filters"] is None else tuple(aggregate["filters"]),
                )
                for aggregate in group["aggregates"]
            ),
            alias=group["alias"],
            version=group["version"],
        )
        for group in facts.get("groups", ())
    )


def _task_json(task: Task, bound: BoundTask | None) -> TaskFact:
    # the task's card is beside its file; not every task has one
    path = task.source.parent / f"{task.name}.card.yaml"
    card = _read_card(path) if path.is_file() else {}
    chance, primary = card.get("chance"), card.get("primary_metric")
    fact: TaskFact = {
        "alias": task.alias or task.name,
        "version": task.metadata.get("version", task.version),
        "output_type": task.output_type,
        "num_fewshot": bound.plan.num_fewshot if bound is not None else task.num_fewshot or 0,
        "n_total": bound.n_original if bound is not None else None,
        "chance": chance if isinstance(chance, float | int) else None,
        "primary_metric": primary if isinstance(primary, str) and primary else _declared_primary(task),
        "origin": task.origin,
        "source": str(task.source),
        "metrics": [metric_fact(metric) for metric in (task.metrics if bound is None else bound.metrics)],
        "filters": [pipeline.name for pipeline in task.filters],
        "spec": {str(key): plain_spec(part) for key, part in task.spec.items()},
    }
    if bound is not None and bound.dataset_revision is not None:
        fact["dataset_revision"] = bound.dataset_revision
    if bound is not None and bound.skipped.n:  # runs before these were counted have no such key either
        fact["skipped"] = {"n": bound.skipped.n, "first": list(bound.skipped.first)}
    if bound is not None and bound.plan.perturbed is not None:
        fact["perturbed"] = bound.plan.perturbed
    return fact


def _declared_primary(task: Task) -> str | None:
    """Return the first scorer of an application's task."""
    return next((metric.name for metric in task.metrics if metric.scale is not None), None)


def metric_fact(metric: MetricSpec) -> MetricFact:
    """Return the facts of a metric."""
    aggregation = metric.aggregation
    fact: MetricFact = {
        "name": metric.name,
        "aggregation": aggregation.name if isinstance(aggregation, FunctionRef) else aggregation,
        "higher_is_better": metric.higher_is_better,
        "filters": list(metric.filters),
    }
    if metric.scale is not None:
        fact["scale"] = metric.scale
    if metric.is_neutral:
        fact["is_neutral"] = True
    return fact


def _group_json(group: Group) -> GroupFact:
    return {
        "name": group.name,
        "alias": group.alias,
        "version": group.version,
        "members": list(group.children),
        "aggregates": [
            {
                "metric": metric.metric,
                "weight_by_size": metric.weight_by_size,
                "filters": None if metric.filters is None else list(metric.filters),
            }
            for metric in group.metrics
        ],
    }


@lru_cache(maxsize=256)
def _read_card(path: Path) -> Mapping[str, JsonValue]:
    return read_card(path)


def with_declared_chance(estimates: Sequence[Estimate], facts: ResultFacts) -> tuple[Estimate, ...]:
    """Return a stored run's estimates; a task of the library that was stored without its chance has its card's."""
    return tuple(
        replace(estimate, chance=_declared_chance(estimate.task))
        if estimate.chance is None
        and estimate.details.get("primary")
        and (task := facts.get("tasks", {}).get(estimate.task)) is not None
        and task.get("origin") == "assaymark"
        else estimate
        for estimate in estimates
    )


@lru_cache(maxsize=4096)
def _declared_chance(task: str) -> float | None:
    """Return the chance that the library's card of a task, or the card that serves it, states as a number."""
    known = library_cards()
    own = known.get(task)
    cards = [_read_card(path) for path in ([own] if own else known.values())]
    chance = next((card.get("chance") for card in cards if own or _serves(card, task)), None)
    return float(chance) if isinstance(chance, int | float) else None


def _serves(card: Mapping[str, JsonValue], task: str) -> bool:
    served = card.get("serves")
    return isinstance(served, list) and task in served


def plain_spec(value: object) -> JsonValue:
    """Return a task file's mapping as JSON, functions as `{"!function": path, "source": text}`."""
    if isinstance(value, FunctionRef):
        return {"!function": value.path, "source": source_of(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_spec(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_spec(part) for part in value]
    return value


def source_of(function: FunctionRef) -> str | None:
    """Return a function's source text without importing its file; None where it cannot be found."""
    file = file_of(function)
    if file is None or not file.is_file():
        return None
    return _definitions(file, file.stat().st_mtime_ns).get(function.name)


@lru_cache(maxsize=256)
def _definitions(file: Path, _mtime_ns: int) -> Mapping[str, str]:
    """Return the source of every top-level function and class of a file, with decorators, as inspect.getsource does."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    definitions = {}
    for node in parse_python(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            definitions[node.name] = "".join(lines[start - 1 : node.end_lineno])
    return definitions
