"""Groups of tasks: one number for MMLU's 57 subjects, with an error that fits how it was averaged.

A micro average weighs tasks by their samples, a macro average takes every task alike; each has its own standard
error (`statistics.groups`). lm-eval's own group values and errors are kept beside.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalstone.records import Estimate
from evalstone.report.evidence import GroupAggregate, GroupSummaryInput
from evalstone.statistics import lm_eval_errors
from evalstone.statistics.estimate import IntervalEstimate
from evalstone.statistics.groups import estimate_composite

SUMMED = ("n_tied", "n_leaked", "n_cut", "n_mostly_cut", "n_gold_absent")
FIRST = "first_gold_absent"


def group_estimates(
    of_task: Mapping[str, Sequence[Estimate]], groups: Sequence[GroupSummaryInput], confidence: float
) -> tuple[Estimate, ...]:
    """Return all estimates in table order, with their place among the groups and the groups' own estimates.

    A task that lies in several groups counts in each of them and is shown in the first.
    """
    by_name = {group.name: group for group in groups}
    inner = {member for group in groups for member in group.members}
    ordered: list[Estimate] = []
    placed: set[str] = set()

    def place(name: str, path: tuple[str, ...]) -> None:
        if name in placed or name in path:
            return
        placed.add(name)
        if name in by_name:
            ordered.extend(_of_group(by_name[name], by_name, of_task, path, confidence))
            for member in by_name[name].members:
                place(member, (*path, name))
            return
        ordered.extend(replace(cell, details={**cell.details, "path": path}) for cell in of_task.get(name, ()))

    roots = [group.name for group in groups if group.name not in inner]
    holders = {leaf: root for root in reversed(roots) for leaf in leaves_of(root, by_name)}
    for task in of_task:
        place(holders.get(task, task), ())
    for root in roots:
        place(root, ())
    return tuple(ordered)


def leaves_of(name: str, by_name: Mapping[str, GroupSummaryInput]) -> list[str]:
    """Return the tasks below a group, each once, in its order; of a task: itself."""
    found: dict[str, None] = {}

    def walk(inner: str, above: frozenset[str]) -> Iterator[str]:
        if inner in above:
            return
        if inner not in by_name:
            yield inner
            return
        for member in by_name[inner].members:
            yield from walk(member, above | {inner})

    found.update(dict.fromkeys(walk(name, frozenset())))
    return list(found)


def _of_group(
    group: GroupSummaryInput,
    by_name: Mapping[str, GroupSummaryInput],
    of_task: Mapping[str, Sequence[Estimate]],
    path: tuple[str, ...],
    confidence: float,
) -> list[Estimate]:
    leaves = leaves_of(group.name, by_name)
    estimates = [estimate for leaf in leaves for estimate in of_task.get(leaf, ())]
    made = []
    for asked in group.aggregates:
        filters = asked.filters or tuple(sorted({e.filter for e in estimates if e.metric == asked.metric}))
        for name_of_filter in filters:
            of_cell = [e for e in estimates if e.metric == asked.metric and e.filter == name_of_filter]
            if of_cell:
                made.append(_cell(group, asked, of_cell, path, confidence))
    primaries = [estimate for estimate in made if any(_is_primary(e, estimate) for e in estimates)] or made[:1]
    return [replace(e, details={**e.details, "primary": e in primaries[:1]}) for e in made]


def _is_primary(leaf: Estimate, cell: Estimate) -> bool:
    return bool(leaf.details.get("primary")) and (leaf.metric, leaf.filter) == (cell.metric, cell.filter)


def _cell(
    group: GroupSummaryInput,
    asked: GroupAggregate,
    cells: Sequence[Estimate],
    path: tuple[str, ...],
    confidence: float,
) -> Estimate:
    known = [cell for cell in cells if cell.value is not None]
    weights = _weights([cell.n for cell in known], by_size=asked.weight_by_size)
    weighting = "micro" if asked.weight_by_size else "macro"
    ours = _combined(known, weights, weighting, confidence)
    return Estimate(
        task=group.name,
        metric=asked.metric,
        filter=cells[0].filter,
        value=ours.value if ours else None,
        low=ours.low if ours else None,
        high=ours.high if ours else None,
        method=ours.method if ours else "none",
        n=sum(cell.n for cell in cells),
        n_failed=sum(cell.n_failed for cell in cells),
        n_unparsed=sum(cell.n_unparsed for cell in cells),
        stderr=ours.stderr if ours else None,
        chance=_weighted([cell.chance for cell in known], weights),
        higher_is_better=cells[0].higher_is_better,
        confidence=confidence,
        details={
            **_heading(group, path, len(cells)),
            "weighting": weighting,
            "unit": cells[0].details.get("unit", "plain"),
            **_summed(cells),
            **_averaged(known, weights),
            **_lm_eval(cells, asked),
        },
    )


def _heading(group: GroupSummaryInput, path: tuple[str, ...], n_tasks: int) -> dict[str, Any]:
    return {
        "kind": "group",
        "path": path,
        "alias": group.alias or group.name,
        "version": group.version,
        "members": list(group.members),
        "n_tasks": n_tasks,
    }


def _summed(cells: Sequence[Estimate]) -> dict[str, Any]:
    """Return what of the members' details adds up, the shots they share, and the first row or failure that is named."""
    summed: dict[str, Any] = {key: sum(int(cell.details.get(key) or 0) for cell in cells) for key in SUMMED}
    shots = {cell.details.get("n_shots") for cell in cells}
    if len(shots) == 1:
        summed["n_shots"] = shots.pop()
    for name in (FIRST, "first_error"):
        if (first := next((cell.details[name] for cell in cells if name in cell.details), None)) is not None:
            summed[name] = first
    return summed


def _weights(sizes: Sequence[int], *, by_size: bool) -> list[float]:
    total = sum(sizes)
    if not by_size:
        return [1.0 / len(sizes) for _ in sizes]
    return [size / total if total else 1.0 / len(sizes) for size in sizes]


def _combined(
    cells: Sequence[Estimate], weights: Sequence[float], name: str, confidence: float
) -> IntervalEstimate | None:
    """Return the weighted mean with its error and interval; None where no task has a value."""
    parts = [
        IntervalEstimate(cell.value, cell.low, cell.high, cell.stderr, cell.method, cell.n, confidence)
        for cell in cells
        if cell.value is not None
    ]
    if not parts:
        return None
    is_share = all(cell.details.get("unit") == "proportion" for cell in cells)
    bounds = (0.0, 1.0) if is_share else None
    return estimate_composite(parts, weights, confidence=confidence, bounds=bounds, name=name)


def _weighted(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    if not values or any(value is None for value in values):
        return None
    return sum(weight * value for value, weight in zip(values, weights, strict=True) if value is not None)


def _averaged(cells: Sequence[Estimate], weights: Sequence[float]) -> dict[str, Any]:
    """Return the group's Brier score; a calibration error is no mean of its parts and is left to the tasks."""
    brier = _weighted([cell.details.get("brier") for cell in cells], weights)
    return {} if brier is None else {"brier": brier}


def _lm_eval(cells: Sequence[Estimate], asked: GroupAggregate) -> dict[str, Any]:
    known = [cell for cell in cells if cell.details.get("lm_eval_value") is not None]
    if not known:
        return {"lm_eval_value": None, "lm_eval_stderr": None, "lm_eval_n": 0}
    sizes = [int(cell.details["lm_eval_n"]) for cell in known]
    values = [float(cell.details["lm_eval_value"]) for cell in known]
    errors = [cell.details["lm_eval_stderr"] for cell in known]
    by_size = asked.weight_by_size
    return {
        "lm_eval_value": lm_eval_errors.group_mean(values, sizes, weight_by_size=by_size),
        "lm_eval_stderr": lm_eval_errors.group_stderr(errors, sizes, weight_by_size=by_size)
        if sum(sizes) > len(sizes)
        else None,
        "lm_eval_n": sum(sizes),
    }
