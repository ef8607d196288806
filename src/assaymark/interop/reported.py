"""Reported results of other tools' files as estimates, for tasks without samples in the files.

In tables they are treated like values computed from samples: under their groups, as percentages if they are shares,
with an interval from their standard error or number of samples.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assaymark.errors import DataError
from assaymark.records import Estimate
from assaymark.results.evidence.groups import group_estimates, leaves_of
from assaymark.results.evidence.records import GroupSummaryInput, MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import (
    aggregation_of,
    find_metric,
    is_higher_better,
    is_right_or_wrong,
    may_be_share,
)
from assaymark.statistics.aggregate import traits_of
from assaymark.statistics.reported import estimate_reported

__all__ = ["ImpossibleValue", "ReportedValue", "in_table_order", "reported_estimates"]

ROUNDING = 1e-6  # by which a value may lie outside of its metric's range
LARGEST = 1e100  # of any value: sums of squares of more would overflow
MOST_SAMPLES = 10**12


class ImpossibleValue(DataError):
    """A file states a number that its metric cannot have."""


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """One value as reported in a file."""

    task: str  # or a group
    metric: str
    value: float | None  # None: undefined according to the file
    stderr: float | None = None
    n: int = 0  # samples; 0: not reported
    filter: str = "none"


def reported_estimates(
    values: Iterable[ReportedValue],
    tasks: Sequence[TaskSummaryInput],
    groups: Sequence[GroupSummaryInput] = (),
    *,
    shots_known: bool = True,
) -> tuple[Estimate, ...]:
    """Return the estimates of reported values, in the order of the files.

    Args:
        values: the values, of tasks and of groups.
        tasks: the files' facts about the tasks.
        groups: the groups; a group's number of samples is the sum over its tasks if all of these are known.
        shots_known: whether the files state the number of shots.

    Raises: ImpossibleValue for a value, an error or a number of samples that its metric cannot have.
    """
    found = list(values)
    for value in found:
        _check(value)
    shares = _shares(found, tasks)
    of_tasks = {task.name: task for task in tasks}
    of_groups = {group.name: group for group in groups}
    sizes = {value.task: value.n for value in found}
    made = []
    for value in found:
        if value.task in of_groups:
            details = _group_details(value, of_groups, of_tasks)
            own = _n_of_group(value, of_groups, sizes)
        else:
            details = _task_details(value, of_tasks.get(value.task), shots_known=shots_known)
            own = value.n
        made.append(_estimate(replace(value, n=own), details, value.metric in shares, _direction(value, tasks)))
    return tuple(made)


def _check(one: ReportedValue) -> None:
    """Refuse what no evaluation can have computed: files are made by whoever reports them.

    Raises: ImpossibleValue.
    """
    metric = find_metric(one.metric)
    low, high = (-math.inf, math.inf) if metric is None else metric.value_range
    low, high = max(low, -LARGEST), min(high, LARGEST)
    if one.value is not None and not low - ROUNDING <= one.value <= high + ROUNDING and not math.isnan(one.value):
        raise ImpossibleValue(
            f"'{one.task}' has {one.metric} {one.value:g}; expected a number from {low:g} to {high:g}"
        )
    if one.stderr is not None and not 0.0 <= one.stderr <= high - low and not math.isnan(one.stderr):
        raise ImpossibleValue(
            f"'{one.task}' has {one.stderr:g} as the standard error of {one.metric}; expected 0 to {high - low:g}"
        )
    if not 0 <= one.n <= MOST_SAMPLES:
        raise ImpossibleValue(f"'{one.task}' states {one.n:,} samples; expected 0 to {MOST_SAMPLES:,}")


def in_table_order(estimates: Sequence[Estimate], groups: Sequence[GroupSummaryInput]) -> tuple[Estimate, ...]:
    """Return estimates with their paths and in table order: each group's own estimates before its members'."""
    names = {group.name for group in groups}
    of_groups: dict[str, list[Estimate]] = {}
    of_tasks: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        (of_groups if estimate.task in names else of_tasks).setdefault(estimate.task, []).append(estimate)
    headings = [replace(group, aggregates=()) for group in groups]
    ordered: list[Estimate] = []

    def add_group(name: str, path: tuple[str, ...]) -> None:
        ordered.extend(replace(one, details={**one.details, "path": path}) for one in of_groups.pop(name, ()))

    for estimate in group_estimates(of_tasks, headings, 0.95):
        path = estimate.details["path"]
        for depth, name in enumerate(path):
            add_group(name, path[:depth])
        ordered.append(estimate)
    for name in list(of_groups):
        add_group(name, ())
    return tuple(ordered)


def _estimate(one: ReportedValue, details: Mapping[str, Any], is_share: bool, higher_is_better: bool) -> Estimate:
    is_binary = details["kind"] == "group" or is_right_or_wrong(one.metric)
    found = (
        None
        if one.value is None
        else estimate_reported(one.value, one.stderr, one.n, is_proportion=is_share, is_binary=is_binary)
    )
    return Estimate(
        task=one.task,
        metric=one.metric,
        filter=one.filter,
        value=one.value,
        low=found.low if found else None,
        high=found.high if found else None,
        method=found.method if found else "none in the file",
        n=one.n,
        stderr=one.stderr if found else None,
        higher_is_better=higher_is_better,
        details={
            **details,
            "path": (),
            "unit": "proportion" if is_share else "plain",
            "lm_eval_value": one.value,
            "lm_eval_stderr": one.stderr if found else None,
            "lm_eval_n": one.n,
        },
    )


def _task_details(one: ReportedValue, task: TaskSummaryInput | None, *, shots_known: bool) -> dict[str, Any]:
    if task is None:
        return {"kind": "task", "alias": one.task, "primary": True}
    return {
        "kind": "task",
        "alias": task.alias or task.name,
        "version": task.version,
        "output_type": task.output_type,
        "n_shots": task.num_fewshot if shots_known else None,
        "n_total": task.n_total,
        "primary": task.primary in {None, (one.metric, one.filter)},
    }


def _group_details(
    one: ReportedValue, groups: Mapping[str, GroupSummaryInput], tasks: Mapping[str, TaskSummaryInput]
) -> dict[str, Any]:
    leaves = [tasks[leaf] for leaf in leaves_of(one.task, groups) if leaf in tasks]
    return {
        "kind": "group",
        "alias": groups[one.task].alias or one.task,
        "members": list(groups[one.task].members),
        "n_tasks": len(leaves),
        "primary": (one.metric, one.filter) in {leaf.primary for leaf in leaves},
    }


def _n_of_group(one: ReportedValue, groups: Mapping[str, GroupSummaryInput], sizes: Mapping[str, int]) -> int:
    known = [sizes.get(leaf, 0) for leaf in leaves_of(one.task, groups)]
    return sum(known) if known and all(known) else one.n


def _direction(one: ReportedValue, tasks: Sequence[TaskSummaryInput]) -> bool:
    """Return whether higher is better: according to the task, for a group to the first task with the metric."""
    known = [(task.name, metric) for task in tasks for metric in task.metrics if metric.name == one.metric]
    own = next((metric for name, metric in known if name == one.task), known[0][1] if known else None)
    return is_higher_better(one.metric) if own is None else own.higher_is_better


def _shares(values: Sequence[ReportedValue], tasks: Sequence[TaskSummaryInput]) -> set[str]:
    """Return the metrics that are shares of samples: means whose reported values are all in [0, 1]."""
    listed = {metric.name: metric for task in tasks for metric in task.metrics}
    return {
        name
        for name in {value.metric for value in values}
        if _is_mean(listed.get(name, MetricInput(name)))
        and all(value.value is None or 0.0 <= value.value <= 1.0 for value in values if value.metric == name)
    }


def _is_mean(metric: MetricInput) -> bool:
    known = metric.aggregation if metric.aggregation != "mean" else aggregation_of(metric.name)
    return may_be_share(metric.name) and (traits_of(known).is_mean or known == "f1")
