"""What a run would take: samples, tokens before and after sharing, memory, time, and which prompts are too long."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from evalstone.api.power import PowerLine, WantedPower, power_of_plan
from evalstone.models.lending import gives_back
from evalstone.records import RunPlan, WorkEstimate
from evalstone.runner.chunks import chunks_of
from evalstone.runner.evaluate_options import EvaluateOptions
from evalstone.runner.plan import render_of
from evalstone.runner.prepare import prepare_run
from evalstone.tasks.task import Group

TaskNames = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """Tasks that are asked together, and what asking them takes."""

    tasks: TaskNames
    label: str  # its groups with how many of their tasks are in it, and the tasks that are in no group
    n_samples: int
    n_leaked: int  # samples that would be among their own shots
    work: WorkEstimate


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A dry run."""

    plan: RunPlan
    notes: tuple[str, ...]
    chunks: tuple[PlannedChunk, ...]
    power: tuple[PowerLine, ...] = ()  # where a difference was asked for


@gives_back
def plan_run(
    model: Any,
    tasks: str | Sequence[str],
    told: Callable[[TaskNames], None] | None = None,
    wanted: WantedPower | None = None,
    **options: Unpack[EvaluateOptions],
) -> PlannedRun:
    """Render and tokenise everything `evaluate` would ask, and return what that takes; nothing is asked or stored.

    Args:
        model: as `evaluate` takes it.
        tasks: names, groups, suites, globs or task files.
        told: called with the names of tasks before they are looked at.
        wanted: which difference the run should be able to show; None: that is not looked at.
        options: as `evaluate`.

    Raises: as `evaluate`.
    """
    answering, prepared = prepare_run(model, tasks, options)
    power = power_of_plan(prepared, wanted) if wanted is not None else []
    chunks: list[PlannedChunk] = []
    render = render_of(answering)
    for bound in chunks_of(prepared.bound):
        names = tuple(one.plan.name for one in bound)
        if told is not None:
            told(names)
        requests = [request for one in bound for request in one.requests(render)]
        leaked = sum(request.n_leaked_shots > 0 for request in requests)
        label = _label(names, prepared.selection.groups)
        chunks.append(PlannedChunk(names, label, len(requests), leaked, answering.estimate(requests)))
    talks = [one.plan.name for one in prepared.bound if one.is_conversation]
    first = (f"{', '.join(talks)}: first turns only; later ones rest on the answers",) if talks else ()
    return PlannedRun(prepared.plan, (*prepared.selection.notes, *first), tuple(chunks), tuple(power))


def _label(names: TaskNames, groups: Sequence[Group]) -> str:
    """Return what a chunk is called: `mmlu (12 of 57)` for tasks of a group, a task's own name outside of groups."""
    by_name = {group.name: group for group in groups}
    inner = {child for group in groups for child in group.children}
    outer = {group.name: tuple(_tasks_under(group.name, by_name)) for group in groups if group.name not in inner}
    labels: dict[str, int] = {}
    for name in names:
        label = next((group for group, tasks in outer.items() if name in tasks), name)
        labels[label] = labels.get(label, 0) + 1
    shown = [
        f"{label} ({count} of {len(outer[label])})" if label in outer and count < len(outer[label]) else label
        for label, count in labels.items()
    ]
    return ", ".join(shown)


def _tasks_under(name: str, groups: Mapping[str, Group]) -> list[str]:
    if name not in groups:
        return [name]
    return [task for child in groups[name].children for task in _tasks_under(child, groups)]
