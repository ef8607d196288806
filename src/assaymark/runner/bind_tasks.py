"""Bind every selected task to its data, and report all members of a suite that cannot be evaluated at once.

A task named alone fails at once. For a suite, one message names every such member with its reason, so that they need
not be fixed one run at a time; with `partial` the others are evaluated and the suite has no composite.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.errors import AssaymarkError, DataError, PlanError, UsageError
from assaymark.tasks.bind import bind
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import few, missing_members
from assaymark.tasks.circular import circular_group
from assaymark.tasks.scoring_packages import refuse_missing_packages
from assaymark.tasks.suites import ChosenSuite
from assaymark.tasks.task import Selection, Task


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that tasks are bound with."""

    bind: BindOptions
    samples: Mapping[str, tuple[int, ...]]  # task -> positions to evaluate, nothing else of it
    partial: bool = False


def bind_tasks(
    selection: Selection, unanswerable: Mapping[str, str], wanted: Wanted
) -> tuple[Selection, tuple[BoundTask, ...]]:
    """Return the selection, without the missing members of a partial suite, and its bound tasks.

    Args:
        selection: tasks, groups and suites.
        unanswerable: task -> why the model cannot answer it; tasks of suites only.
        wanted: the options they are bound with.

    Raises: PlanError if shots are given beside a suite's own, or members of a suite cannot be evaluated; what `bind`
        raises, for a task outside a suite.
    """
    _refuse_other_shots(selection, wanted)
    for chosen in selection.suites:
        _check_metrics(chosen, {task.name: task for task in selection.tasks})
    of_suites = {leaf for chosen in selection.suites for leaves in chosen.leaves for leaf in leaves}
    bound: list[BoundTask] = []
    refused = dict(unanswerable)
    for task in selection.tasks:
        if task.name in refused:
            continue
        try:
            bound.append(_bound(task, selection, wanted))
        except (DataError, UsageError) as error:
            if task.name not in of_suites:
                raise
            refused[task.name] = _first_line(error)
    if wanted.bind.circular:
        selection = _circular(selection, bound)
    if not refused:
        return _noted(selection, bound), tuple(bound)
    suites = tuple(_with_missing(chosen, refused) for chosen in selection.suites)
    if not wanted.partial:
        raise PlanError("\n".join(missing_members(s.suite.name, s.missing) for s in suites if s.missing))
    if not bound:
        raise PlanError(f"none of the {len(selection.tasks)} tasks can be evaluated: {next(iter(refused.values()))}")
    return _noted(_without(replace(selection, suites=suites), refused), bound), tuple(bound)


def _bound(task: Task, selection: Selection, wanted: Wanted) -> BoundTask:
    """Bind one task with its own shots and sample positions, where they were given."""
    shots = dict(selection.shots).get(task.name)
    options = wanted.bind if shots is None else replace(wanted.bind, num_fewshot=shots)
    if task.name in wanted.samples:
        options = replace(options, sample_indices=wanted.samples[task.name])
    refuse_missing_packages(task)
    found = bind(task, options)
    if shots is not None and found.plan.num_fewshot != shots:
        raise PlanError(f"task {task.name} was requested at {shots} shots but fixes its own: {found.plan.num_fewshot}")
    return found


def _circular(selection: Selection, bound: Sequence[BoundTask]) -> Selection:
    """Return the selection with averages of the rotations in its groups, and a note on tasks without rotations.

    A group gets them if all of its tasks are evaluated in rotations: over some of them they would be another average.

    Raises: PlanError if no task is.
    """
    left = {one.plan.name: one.not_circular for one in bound if one.not_circular is not None}
    reasons: dict[str, list[str]] = {}
    for name, why in left.items():
        reasons.setdefault(why, []).append(name)
    shown = "; ".join(f"{few(names)}: {why}" for why, names in reasons.items())
    if len(left) == len(bound):
        raise PlanError(f"circular: no task here can be asked in rotations of its options: {shown}; omit --circular")
    children = {group.name: group.children for group in selection.groups}
    rotated = {one.plan.name for one in bound} - set(left)

    def is_rotated(name: str) -> bool:
        return name in rotated or (name in children and all(map(is_rotated, children[name])))

    groups = tuple(circular_group(group) if is_rotated(group.name) else group for group in selection.groups)
    notes = [f"evaluated in the file's order of options only, without circular_acc: {shown}"] if left else []
    return replace(selection, groups=groups, notes=(*selection.notes, *notes))


def _refuse_other_shots(selection: Selection, wanted: Wanted) -> None:
    shots = wanted.bind.num_fewshot
    if shots is None or not selection.shots:
        return
    who = ", ".join(f"suite {chosen.suite.name}" for chosen in selection.suites) or selection.shots[0][0]
    fixed = sorted({n for _, n in selection.shots})
    raise PlanError(
        f"num_fewshot is {shots}, but {who} fixes the shots of each task ({', '.join(map(str, fixed))}), and with "
        "other shots it would be another benchmark; omit num_fewshot, or name the tasks themselves with --tasks"
    )


def _check_metrics(chosen: ChosenSuite, tasks: Mapping[str, Task]) -> None:
    """Raise DataError where a suite names a metric or filter that a task does not have."""
    for member, leaves in zip(chosen.suite.members, chosen.leaves, strict=True):
        for task in (tasks[leaf] for leaf in leaves):
            known = {(metric.name, name) for metric in task.metrics for name in metric.filters}
            lacking = [metric for metric in member.metrics if (metric, member.filter) not in known]
            if known and lacking and task.python_class is None:
                raise DataError(
                    f"suite {chosen.suite.name}: task {task.name} has no {lacking[0]} under the filter "
                    f"'{member.filter}'; it has {', '.join(f'{m} ({f})' for m, f in sorted(known))}"
                )


def _noted(selection: Selection, bound: Sequence[BoundTask]) -> Selection:
    """Add a note for each member that a partial suite omits, with the reason, and for each task with skipped rows."""
    notes = [f"omitted from {one.suite.name}: {name}: {why}" for one in selection.suites for name, why in one.missing]
    notes += [f"{one.plan.name}: {one.skipped}" for one in bound if one.skipped.n]
    return replace(selection, notes=(*selection.notes, *notes))


def _with_missing(chosen: ChosenSuite, refused: Mapping[str, str]) -> ChosenSuite:
    lacking = [(leaf, refused[leaf]) for leaves in chosen.leaves for leaf in leaves if leaf in refused]
    return replace(chosen, missing=(*chosen.missing, *lacking))


def _without(selection: Selection, refused: Mapping[str, str]) -> Selection:
    """Return the selection without the refused tasks and without the groups that contain any of them."""
    children = {group.name: group.children for group in selection.groups}

    def is_whole(name: str) -> bool:
        return name not in refused and all(is_whole(child) for child in children.get(name, ()))

    groups = tuple(group for group in selection.groups if is_whole(group.name))
    tasks = tuple(task for task in selection.tasks if task.name not in refused)
    return replace(selection, tasks=tasks, groups=groups)


def _first_line(error: AssaymarkError) -> str:
    return str(error).partition("\n")[0]
