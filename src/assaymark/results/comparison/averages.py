"""Groups and the overall line of a comparison: tasks' differences averaged, with an interval and a test.

A group whose tasks are weighted by their samples is one large paired table, and its interval is computed from that
table: recovered from the intervals of tiny tasks (three samples a subject) it would be off its own difference. Other
averages recover their interval from those of their parts. In the overall line every group with a value and every task
outside of one have equal weights, so that a large task cannot hide a small one; metrics other than proportions of
correct answers are excluded.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assaymark.results.comparison.pairing import PairedTask
from assaymark.results.comparison.records import ONE_SIDED, OVERALL, Difference
from assaymark.results.evidence.groups import GroupCell
from assaymark.results.evidence.records import GroupSummaryInput
from assaymark.statistics.arrays import Floats
from assaymark.statistics.groups import linear_stderr
from assaymark.statistics.paired import compare_paired, difference_interval, sign_flip_p, tango_interval

FEW = 20  # samples; with fewer the intervals of single tasks are too far off their differences to be combined


@dataclass(frozen=True, slots=True)
class MeasuredTask:
    """A task's difference by one metric and filter, with both runs' scores per sample."""

    task: PairedTask
    line: Difference
    first: Floats
    second: Floats

    @property
    def is_binary(self) -> bool:
        """Whether every answer is right or wrong."""
        return bool(np.isin(self.first, (0.0, 1.0)).all() and np.isin(self.second, (0.0, 1.0)).all())

    @property
    def sign(self) -> float:
        """The factor that turns a difference into a gain: 1 or -1."""
        return 1.0 if self.line.higher_is_better else -1.0


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of the overall line: a group with a value, or a task outside of one. Weights sum to 1."""

    name: str
    parts: tuple[tuple[MeasuredTask, float], ...]


@dataclass(frozen=True, slots=True)
class GroupedTasks:
    """Inputs to the averages of a comparison.

    groups: with their declared metrics.
    measured: each task by its primary metric.
    of_groups: for each group with a value, the cell with its weights, and its tasks by the group's declared metric.
    """

    groups: Sequence[GroupSummaryInput]
    measured: Mapping[str, MeasuredTask]
    of_groups: Mapping[str, tuple[GroupCell, Sequence[MeasuredTask]]]


def group_line(group: GroupSummaryInput, grouped: GroupedTasks, confidence: float) -> Difference | None:
    """Return a group's difference; None if it has no value of its own, or a task's metric is not a proportion."""
    unit = _group_unit(group, grouped)
    return None if unit is None else replace(_unit_line(unit, confidence), kind="group", label=group.alias or "")


def overall_line(grouped: GroupedTasks, confidence: float) -> Difference | None:
    """Return the mean of the units' differences; None if no task's metric is a proportion of correct answers."""
    units, repeated = overall_units(grouped)
    if not units:
        return None
    lines = [_unit_line(unit, confidence) for unit in units]
    weights = [1.0 / len(units)] * len(units)
    parts = [(measured, weight / len(units)) for unit in units for measured, weight in unit.parts]
    difference = sum(weight * line.difference for line, weight in zip(lines, weights, strict=True))
    ends = _combined_interval([(line, line.low, line.high) for line in lines], weights, difference)
    line = _line(OVERALL, parts, difference, ends, _sign_flips(OVERALL, parts), _MOVER, confidence)
    used = set(line.members)
    return replace(
        line,
        kind=OVERALL,
        one_sided=_combined_interval([(line, *line.one_sided) for line in lines], weights, difference),
        units=tuple((unit.name, len(unit.parts)) for unit in units),
        left_out=tuple(
            name
            for name, measured in grouped.measured.items()
            if name not in used and (measured.line.scale != "proportion" or measured.line.is_neutral)
        ),
        repeated=repeated,
    )


def overall_units(grouped: GroupedTasks) -> tuple[list[Unit], tuple[tuple[str, str], ...]]:
    """Return the units that the overall line averages, and the tasks that it leaves out for others that ask the same.

    Every task is in one unit only. Of several tasks outside of groups that ask the same and score it differently
    (TruthfulQA's mc2 and that of 2023), the one with the shortest name counts; none counts beside a group that contains
    one. Tasks of one group all count, as the group says. The pairs are (task left out, task that counts).
    """
    groups, measured = grouped.groups, grouped.measured
    by_name = {group.name: group for group in groups}
    units: list[Unit] = []
    covered: set[str] = set()
    inner = {member for group in groups for member in group.members}
    for name in [group.name for group in groups if group.name not in inner]:
        for unit in _units_below(name, by_name, grouped):
            fresh = [(part, weight) for part, weight in unit.parts if part.line.name not in covered]
            whole = sum(weight for _, weight in fresh)
            covered |= {part.line.name for part, _ in fresh}
            units += [Unit(unit.name, tuple((part, weight / whole) for part, weight in fresh))] if fresh else []
    alone = [
        (name, measurement)
        for name, measurement in measured.items()
        if name not in covered
        and measurement.task.copy_of is None  # a perturbed copy counts by itself, not as a further task
        and measurement.line.scale == "proportion"
        and not measurement.line.is_neutral
    ]
    units += [Unit(name, ((measurement, 1.0),)) for name, measurement in alone]
    counting: dict[str, tuple[str, str]] = {}  # what is asked -> the unit and the task that count it
    for unit in sorted(units, key=lambda unit: (len(unit.parts) == 1, len(unit.name), unit.name)):
        for part, _ in unit.parts:
            counting.setdefault(_asked(part), (unit.name, part.line.name))
    kept: list[Unit] = []
    repeated: list[tuple[str, str]] = []
    for unit in units:
        unit_name, task = counting[_asked(unit.parts[0][0])]
        if len(unit.parts) > 1 or unit_name == unit.name:
            kept.append(unit)
        else:
            repeated.append((unit.name, task))
    return kept, tuple(repeated)


def _asked(measured: MeasuredTask) -> str:
    """Return the identity of a task's questions: themselves, or the task's name where they are not known."""
    return measured.task.asks or measured.line.name


def _group_unit(group: GroupSummaryInput, grouped: GroupedTasks) -> Unit | None:
    cell, tasks = grouped.of_groups.get(group.name, (None, ()))
    if cell is None or not tasks or any(task.line.scale != "proportion" for task in tasks):
        return None
    weights = cell.weights([task.line.n for task in tasks])
    return Unit(group.name, tuple(zip(tasks, weights, strict=True)))


def _units_below(name: str, by_name: dict[str, GroupSummaryInput], grouped: GroupedTasks) -> list[Unit]:
    measured = grouped.measured
    if name not in by_name:
        is_share = name in measured and measured[name].line.scale == "proportion"
        return [Unit(name, ((measured[name], 1.0),))] if is_share else []
    if unit := _group_unit(by_name[name], grouped):
        return [unit]
    return [unit for member in by_name[name].members for unit in _units_below(member, by_name, grouped)]


_MOVER = "sign flips within tasks, interval of the parts' intervals (MOVER)"


def _unit_line(unit: Unit, confidence: float) -> Difference:
    """Return a unit's gain: from the pooled samples if they have equal weights, else from its tasks' lines."""
    lines, weights = [measured.line for measured, _ in unit.parts], [weight for _, weight in unit.parts]
    total = sum(line.n for line in lines)
    difference = sum(weight * measured.sign * measured.line.difference for measured, weight in unit.parts)
    if len(lines) == 1:
        low, high = lines[0].low, lines[0].high
        if not lines[0].higher_is_better:
            low, high = (None if end is None else -end for end in (high, low))
        alone = _line(unit.name, unit.parts, difference, (low, high), lines[0].p, lines[0].method, confidence)
        return replace(alone, one_sided=lines[0].one_sided_gain)
    ends = _small_ends(unit, difference, confidence) or _combined_interval(
        [(line, line.low, line.high) for line in lines], weights, difference
    )
    one_sided = _small_ends(unit, difference, ONE_SIDED) or _combined_interval(
        [(line, *line.one_sided) for line in lines], weights, difference
    )
    if all(math.isclose(weight, measured.line.n / total, rel_tol=1e-9) for measured, weight in unit.parts):
        first = np.concatenate([measured.sign * measured.first for measured, _ in unit.parts])
        second = np.concatenate([measured.sign * measured.second for measured, _ in unit.parts])
        comparison = compare_paired(first, second, confidence=confidence)
        ends = (comparison.low, comparison.high)
        pooled = _line(
            unit.name, unit.parts, difference, ends, comparison.p, f"pooled: {comparison.method}", confidence
        )
        one_sided = difference_interval(first, second, confidence=ONE_SIDED)
        return replace(pooled, stderr=comparison.stderr, one_sided=one_sided)
    p = _sign_flips(unit.name, unit.parts)
    return replace(_line(unit.name, unit.parts, difference, ends, p, _MOVER, confidence), one_sided=one_sided)


def _small_ends(unit: Unit, difference: float, confidence: float) -> tuple[float, float] | None:
    """Return the interval of small tasks with unequal weights, from one table of the effective sample size.

    The table has size n = 1 / sum(w² / n_t), and as cells the weighted shares of better and worse answers. None if a
    task is large enough for an interval of its own, or its scores are not binary.
    """
    if len(unit.parts) == 1 or any(measured.line.n >= FEW or not measured.is_binary for measured, _ in unit.parts):
        return None
    n = max(1, round(1.0 / sum(weight**2 / measured.line.n for measured, weight in unit.parts)))
    better = sum(weight * measured.line.n_better / measured.line.n for measured, weight in unit.parts)
    worse = sum(weight * measured.line.n_worse / measured.line.n for measured, weight in unit.parts)
    b = min(n, round(n * better))
    c = min(n - b, round(n * worse))
    interval = tango_interval(b, c, n, confidence)
    shift = difference - (b - c) / n
    return max(-1.0, interval.low + shift), min(1.0, interval.high + shift)


def _line(
    name: str,
    parts: Sequence[tuple[MeasuredTask, float]],
    difference: float,
    ends: tuple[float | None, float | None],
    p: float,
    method: str,
    confidence: float,
) -> Difference:
    lines = [measured.line for measured, _ in parts]
    known = [line.stderr for line in lines if line.stderr is not None]
    return Difference(
        name=name,
        kind="group",
        metric=lines[0].metric if len({line.metric for line in lines}) == 1 else "mean of main metrics",
        filter=lines[0].filter if len({line.filter for line in lines}) == 1 else "none",
        scale="proportion",
        first=sum(weight * (measured.line.first or 0.0) for measured, weight in parts),
        second=sum(weight * (measured.line.second or 0.0) for measured, weight in parts),
        difference=difference,
        low=ends[0],
        high=ends[1],
        p=p,
        n=sum(line.n for line in lines),
        n_better=sum(line.n_better for line in lines),
        n_worse=sum(line.n_worse for line in lines),
        n_gained=sum(line.n_gained or 0 for line in lines),
        n_lost=sum(line.n_lost or 0 for line in lines),
        method=method,
        confidence=confidence,
        stderr=linear_stderr(known, [weight for _, weight in parts]) if len(known) == len(lines) else None,
        n_missing=sum(line.n_missing for line in lines),
        n_tasks=len(lines),
        members=tuple(line.name for line in lines),
    )


def _sign_flips(name: str, parts: Sequence[tuple[MeasuredTask, float]]) -> float:
    flips = np.concatenate(
        [measured.sign * weight * (measured.second - measured.first) / measured.line.n for measured, weight in parts]
    )
    return sign_flip_p(flips, name=("compare", name, len(flips)))


def _combined_interval(
    parts: Sequence[tuple[Difference, float | None, float | None]], weights: Sequence[float], difference: float
) -> tuple[float | None, float | None]:
    """Return the interval of a weighted mean, recovered from its parts (line, low, high); never a point.

    low = d - sqrt(sum w² (d_t - low_t)²), high likewise. Source: Zou, Huang and Zhang 2009 (MOVER).
    """
    below = above = 0.0
    for (line, low, high), weight in zip(parts, weights, strict=True):
        if low is None or high is None:
            return None, None
        down, up = line.difference - low, high - line.difference
        if not line.higher_is_better:
            down, up = up, down
        below += (weight * down) ** 2
        above += (weight * up) ** 2
    return difference - math.sqrt(below), difference + math.sqrt(above)
