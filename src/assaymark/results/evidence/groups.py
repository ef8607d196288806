"""Group scores, such as one score of MMLU's 57 subjects, with a standard error that fits the way of averaging.

A micro average weights tasks by their number of samples, a macro average weights them equally; each has its own
standard error (`statistics.groups`). lm-eval's own group values and errors are in the details.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from assaymark.records import Estimate, EstimateDetails, LmEvalDetails
from assaymark.results.evidence.records import GroupSummaryInput, score_number
from assaymark.statistics import lm_eval_errors
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.groups import estimate_composite

Counted = Literal["n_tied", "n_leaked", "n_cut", "n_mostly_cut", "n_gold_absent", "n_first_token", "n_outside"]
SUMMED: tuple[Counted, ...] = ("n_tied", "n_leaked", "n_cut", "n_mostly_cut", "n_gold_absent")
SUMMED_IF_ANY: tuple[Counted, ...] = ("n_first_token", "n_outside")
FIRST: Final = "first_gold_absent"
First = Literal["first_gold_absent", "first_error", "first_skipped"]
FIRSTS: tuple[First, ...] = (FIRST, "first_error", "first_skipped")
Name = tuple[str, str]  # metric and filter


def group_estimates(
    of_task: Mapping[str, Sequence[Estimate]], groups: Sequence[GroupSummaryInput], confidence: float
) -> tuple[Estimate, ...]:
    """Return all estimates in table order, tasks' with their groups as `path`, and the groups' own estimates.

    A task in several groups counts in each of them and is shown in the first.
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
    """Return the tasks below a group, each once, in its order; for a task, itself."""
    leaves: dict[str, None] = {}

    def walk(inner: str, above: frozenset[str]) -> Iterator[str]:
        if inner in above:
            return
        if inner not in by_name:
            yield inner
            return
        for member in by_name[inner].members:
            yield from walk(member, above | {inner})

    leaves.update(dict.fromkeys(walk(name, frozenset())))
    return list(leaves)


@dataclass(frozen=True, slots=True)
class GroupCell:
    """One score of a group: its declared metric under one filter, over the tasks below it that have both."""

    metric: str
    filter: str
    tasks: tuple[str, ...]
    weight_by_size: bool
    is_main: bool = False  # whether it is the group's primary score

    def weights(self, sizes: Sequence[int]) -> list[float]:
        """Return the tasks' weights, which sum to 1, by their numbers of samples."""
        total = sum(sizes)
        if self.weight_by_size and total:
            return [size / total for size in sizes]
        return [1.0 / len(sizes) for _ in sizes]


def group_cells(
    group: GroupSummaryInput,
    by_name: Mapping[str, GroupSummaryInput],
    scored: Mapping[str, Collection[Name]],
    primaries: Mapping[str, Name | None],
) -> list[GroupCell]:
    """Return the cells of a group's scores, in the order of its declared metrics.

    Only this function decides the tasks, metric, filter and weights of a group's score, for `run`, `show`, reports,
    exports and `compare`. Source: lm-evaluation-harness 0.4.13, `consolidate_group`: a task below the group counts
    where it has the metric under the filter.

    Args:
        group: with its declared metrics; without any it is a heading and has no score.
        by_name: all groups.
        scored: (metric, filter) of each task's scores.
        primaries: each task's primary (metric, filter).
    """
    leaves = leaves_of(group.name, by_name)
    cells = []
    for declared in group.aggregates:
        filters = sorted({f for leaf in leaves for metric, f in scored.get(leaf, ()) if metric == declared.metric})
        for name in declared.filters or filters:
            tasks = tuple(leaf for leaf in leaves if (declared.metric, name) in scored.get(leaf, ()))
            cells += [GroupCell(declared.metric, name, tasks, declared.weight_by_size)] if tasks else []
    wanted = {primaries.get(leaf) for leaf in leaves}
    main = next((cell for cell in cells if (cell.metric, cell.filter) in wanted), cells[0] if cells else None)
    return [replace(cell, is_main=cell is main) for cell in cells]


def _of_group(
    group: GroupSummaryInput,
    by_name: Mapping[str, GroupSummaryInput],
    of_task: Mapping[str, Sequence[Estimate]],
    path: tuple[str, ...],
    confidence: float,
) -> list[Estimate]:
    by_cell = {(task, e.metric, e.filter): e for task, estimates in of_task.items() for e in estimates}
    scored = {task: {(e.metric, e.filter) for e in estimates} for task, estimates in of_task.items()}
    primaries = {
        task: next(((e.metric, e.filter) for e in estimates if e.details.get("primary")), None)
        for task, estimates in of_task.items()
    }
    summaries = []
    for cell in group_cells(group, by_name, scored, primaries):
        of_cell = [by_cell[task, cell.metric, cell.filter] for task in cell.tasks]
        estimate = _cell(group, cell, of_cell, path, confidence)
        summaries.append(replace(estimate, details={**estimate.details, "primary": cell.is_main}))
    return summaries


def _cell(
    group: GroupSummaryInput, own: GroupCell, cells: Sequence[Estimate], path: tuple[str, ...], confidence: float
) -> Estimate:
    lacking = [cell.task for cell in cells if cell.value is None]  # the mean of the others is not the group's
    weights = own.weights([cell.n for cell in cells])
    weighting = "micro" if own.weight_by_size else "macro"
    ours = None if lacking else _combined(cells, weights, weighting, confidence)
    return Estimate(
        task=group.name,
        metric=own.metric,
        filter=cells[0].filter,
        value=ours.value if ours else None,
        low=ours.low if ours else None,
        high=ours.high if ours else None,
        method=ours.method if ours else "none",
        n=sum(cell.n for cell in cells),
        n_failed=sum(cell.n_failed for cell in cells),
        n_unparsed=sum(cell.n_unparsed for cell in cells),
        stderr=ours.stderr if ours else None,
        chance=_weighted([cell.chance for cell in cells], weights),
        higher_is_better=cells[0].higher_is_better,
        confidence=confidence,
        details={
            "kind": "group",
            "path": path,
            "alias": group.alias or group.name,
            "version": group.version,
            "members": list(group.members),
            "n_tasks": len(cells),
            "weighting": weighting,
            "unit": cells[0].details.get("unit", "plain"),
            **_summed(cells),
            **({"lacking": lacking} if lacking else {}),
            **_averaged(cells, weights),
            **_lm_eval([] if lacking else cells, own),
        },
    )


def _summed(cells: Sequence[Estimate]) -> EstimateDetails:
    """Return the sums of the members' counts, their common number of shots, and the first named row and failure."""
    summed: EstimateDetails = {}
    for key in (*SUMMED, *SUMMED_IF_ANY):
        n = sum(cell.details.get(key) or 0 for cell in cells)
        if n or key in SUMMED:
            summed[key] = n
    shots = {cell.details.get("n_shots") for cell in cells}
    if len(shots) == 1:
        summed["n_shots"] = shots.pop()
    if n_skipped := sum(cell.details.get("n_skipped") or 0 for cell in cells):
        summed["n_skipped"] = n_skipped
    for name in FIRSTS:
        if (first := next((cell.details[name] for cell in cells if name in cell.details), None)) is not None:
            summed[name] = first
    return summed


def _combined(cells: Sequence[Estimate], weights: Sequence[float], name: str, confidence: float) -> IntervalEstimate:
    """Return the weighted mean of tasks that have values, with its standard error and interval."""
    parts = [
        IntervalEstimate(cell.value, cell.low, cell.high, cell.stderr, cell.method, cell.n, confidence)
        for cell in cells
        if cell.value is not None
    ]
    is_share = all(cell.details.get("unit") == "proportion" for cell in cells)
    bounds = (0.0, 1.0) if is_share else None
    return estimate_composite(parts, weights, confidence=confidence, bounds=bounds, name=name)


def _weighted(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    if not values or any(value is None for value in values):
        return None
    return sum(weight * value for value, weight in zip(values, weights, strict=True) if value is not None)


def _averaged(cells: Sequence[Estimate], weights: Sequence[float]) -> EstimateDetails:
    """Return the group's Brier score; a calibration error is not a mean over tasks, so groups have none."""
    brier = _weighted([cell.details.get("brier") for cell in cells], weights)
    return {} if brier is None else {"brier": brier}


def _lm_eval(cells: Sequence[Estimate], own: GroupCell) -> LmEvalDetails:
    known = [cell for cell in cells if cell.details.get("lm_eval_value") is not None]
    if not known:
        return {"lm_eval_value": None, "lm_eval_stderr": None, "lm_eval_n": 0}
    sizes = [int(cell.details["lm_eval_n"]) for cell in known]
    values = [score_number(cell.details["lm_eval_value"]) for cell in known]
    errors = [cell.details["lm_eval_stderr"] for cell in known]
    by_size = own.weight_by_size
    return {
        "lm_eval_value": lm_eval_errors.group_mean(values, sizes, weight_by_size=by_size),
        "lm_eval_stderr": lm_eval_errors.group_stderr(errors, sizes, weight_by_size=by_size)
        if sum(sizes) > len(sizes)
        else None,
        "lm_eval_n": sum(sizes),
    }
