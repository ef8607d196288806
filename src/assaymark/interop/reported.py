"""Reported results of other tools' files as estimates, for tasks without samples in the files.

In tables they are treated like values computed from samples: under their groups, as percentages if they are shares,
with an interval from their standard error or number of samples.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.errors import DataError
from assaymark.records import Estimate, EstimateDetails, ReportedFacts
from assaymark.results.evidence.groups import group_estimates, leaves_of
from assaymark.results.evidence.records import GroupSummaryInput, MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import aggregation_of, find_metric, is_higher_better, is_right_or_wrong, may_be_share
from assaymark.statistics.aggregate import traits_of
from assaymark.statistics.reported import estimate_reported

ROUNDING = 1e-6  # by which a value may lie outside of its metric's range
LARGEST = 1e100  # of any value: sums of squares of more would overflow
MOST_SAMPLES = 10**12


class ImpossibleValue(DataError):
    """A file states a number that its metric cannot have."""


@dataclass(frozen=True, slots=True)
class StatedInterval:
    """An interval as a file states it."""

    low: float
    high: float
    confidence: float
    method: str


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """One value as reported in a file."""

    task: str  # or a group
    metric: str
    value: float | None  # None: undefined according to the file
    stderr: float | None = None
    n: int = 0  # samples; 0: not reported
    filter: str = "none"
    shots: int | None = None  # None: as its task's
    facts: ReportedFacts | None = None  # who reported it
    interval: StatedInterval | None = None  # None: it is computed from the standard error or the number of samples
    is_mean: bool = True  # False: a function of the task's file made it, so a number of samples gives no interval


def reported_estimates(
    values: Iterable[ReportedValue],
    tasks: Sequence[TaskSummaryInput],
    groups: Sequence[GroupSummaryInput] = (),
    *,
    shots_known: bool = True,
) -> tuple[Estimate, ...]:
    """Return the estimates of reported values, in the order of the files.

    Args:
        groups: the groups; a group's number of samples is the sum over its tasks if all of these are known.
        shots_known: whether the files state the number of shots.

    Raises: ImpossibleValue for a value, an error or a number of samples that its metric cannot have.
    """
    reported = list(values)
    for value in reported:
        _check(value)
    shares = _shares(reported, tasks)
    of_tasks = {task.name: task for task in tasks}
    of_groups = {group.name: group for group in groups}
    sizes = {value.task: value.n for value in reported}
    made = []
    for value in reported:
        if value.task in of_groups:
            details = _group_details(value, of_groups, of_tasks)
            own = _n_of_group(value, of_groups, sizes)
        else:
            details = _task_details(value, of_tasks.get(value.task), shots_known=shots_known)
            if value.facts is not None:
                details = {**details, "reported": value.facts, "n_shots": value.shots}
            own = value.n
        is_share = value.metric in shares if value.facts is None else bool(value.facts["unit"])
        made.append(_estimate(replace(value, n=own), details, is_share, _direction(value, tasks)))
    return tuple(made)


def _check(reported: ReportedValue) -> None:
    """Refuse what no evaluation can have computed: files are made by whoever reports them.

    Raises: ImpossibleValue.
    """
    metric = find_metric(reported.metric)
    low, high = (-math.inf, math.inf) if metric is None else metric.value_range
    low, high = max(low, -LARGEST), min(high, LARGEST)
    if (
        reported.value is not None
        and not low - ROUNDING <= reported.value <= high + ROUNDING
        and not math.isnan(reported.value)
    ):
        raise ImpossibleValue(
            f"'{reported.task}' has {reported.metric} {reported.value:g}; expected a number from {low:g} to {high:g}"
        )
    if reported.stderr is not None and not 0.0 <= reported.stderr <= high - low and not math.isnan(reported.stderr):
        raise ImpossibleValue(
            f"'{reported.task}' has {reported.stderr:g} as the standard error of {reported.metric}; "
            f"expected 0 to {high - low:g}"
        )
    if not 0 <= reported.n <= MOST_SAMPLES:
        raise ImpossibleValue(f"'{reported.task}' states {reported.n:,} samples; expected 0 to {MOST_SAMPLES:,}")


def in_table_order(estimates: Sequence[Estimate], groups: Sequence[GroupSummaryInput]) -> tuple[Estimate, ...]:
    """Return estimates with their paths and in table order: each group's own estimates before its members'."""
    names = {group.name for group in groups}
    of_groups: dict[str, list[Estimate]] = {}
    of_tasks: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        (of_groups if estimate.task in names else of_tasks).setdefault(estimate.task, []).append(estimate)
    headings = [replace(group, aggregates=()) for group in groups]
    ordered: list[Estimate] = []

    def add_group(name: str, path: Sequence[str]) -> None:
        ordered.extend(replace(own, details={**own.details, "path": path}) for own in of_groups.pop(name, ()))

    for estimate in group_estimates(of_tasks, headings, 0.95):
        path = estimate.details["path"]
        for depth, name in enumerate(path):
            add_group(name, path[:depth])
        ordered.append(estimate)
    for name in list(of_groups):
        add_group(name, ())
    return tuple(ordered)


def _estimate(reported: ReportedValue, details: EstimateDetails, is_share: bool, higher_is_better: bool) -> Estimate:
    is_binary = details["kind"] == "group" or is_right_or_wrong(reported.metric)
    n = reported.n if reported.is_mean else 0
    computed = (
        None
        if reported.value is None
        else estimate_reported(reported.value, reported.stderr, n, is_proportion=is_share, is_binary=is_binary)
    )
    interval = computed if reported.interval is None or computed is None else reported.interval
    return Estimate(
        task=reported.task,
        metric=reported.metric,
        filter=reported.filter,
        value=reported.value,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        method=interval.method if interval else "none in the file",
        n=reported.n,
        stderr=reported.stderr if interval else None,
        higher_is_better=higher_is_better,
        confidence=0.95 if reported.interval is None else reported.interval.confidence,
        details={
            **details,
            "path": (),
            "unit": "proportion" if is_share else "plain",
            "lm_eval_value": reported.value,
            "lm_eval_stderr": reported.stderr if interval else None,
            "lm_eval_n": reported.n,
        },
    )


def _task_details(reported: ReportedValue, task: TaskSummaryInput | None, *, shots_known: bool) -> EstimateDetails:
    if task is None:
        return {"kind": "task", "alias": reported.task, "primary": True}
    return {
        "kind": "task",
        "alias": task.alias or task.name,
        "version": task.version,
        "output_type": task.output_type,
        "n_shots": task.num_fewshot if shots_known else None,
        "n_total": task.n_total,
        "primary": task.primary in {None, (reported.metric, reported.filter)},
        **({"is_neutral": True} if any(m.is_neutral for m in task.metrics if m.name == reported.metric) else {}),
    }


def _group_details(
    reported: ReportedValue, groups: Mapping[str, GroupSummaryInput], tasks: Mapping[str, TaskSummaryInput]
) -> EstimateDetails:
    leaves = [tasks[leaf] for leaf in leaves_of(reported.task, groups) if leaf in tasks]
    return {
        "kind": "group",
        "alias": groups[reported.task].alias or reported.task,
        "members": list(groups[reported.task].members),
        "n_tasks": len(leaves),
        "primary": (reported.metric, reported.filter) in {leaf.primary for leaf in leaves},
    }


def _n_of_group(reported: ReportedValue, groups: Mapping[str, GroupSummaryInput], sizes: Mapping[str, int]) -> int:
    known = [sizes.get(leaf, 0) for leaf in leaves_of(reported.task, groups)]
    return sum(known) if known and all(known) else reported.n


def _direction(reported: ReportedValue, tasks: Sequence[TaskSummaryInput]) -> bool:
    """Return whether higher is better: according to the task, for a group to the first task with the metric."""
    known = [(task.name, metric) for task in tasks for metric in task.metrics if metric.name == reported.metric]
    own = next((metric for name, metric in known if name == reported.task), known[0][1] if known else None)
    return is_higher_better(reported.metric) if own is None else own.higher_is_better


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
    if metric.scale is not None:
        return metric.scale != "number"
    known = metric.aggregation if metric.aggregation != "mean" else aggregation_of(metric.name)
    return may_be_share(metric.name) and (traits_of(known).is_mean or known == "f1")
