"""Estimate of a run: samples, tokens with and without sharing, memory, time, and prompts that are too long."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from assaymark.models.cost.bill import CostForecast, cost_forecast
from assaymark.models.lending import gives_back
from assaymark.records import RunPlan, WorkEstimate
from assaymark.runs.chunks import chunks_of
from assaymark.runs.costs import bill_for
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.plan import render_of
from assaymark.runs.power import PowerLine, WantedPower, power_of_plan
from assaymark.runs.prepare import prepare_run
from assaymark.tasks.task import Group

TaskNames = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """Tasks that are evaluated together, and the estimated work."""

    tasks: TaskNames
    label: str  # its groups, each with the number of its tasks in the chunk, and the tasks that are in no group
    n_samples: int
    n_leaked: int  # samples that would be among their own shots
    work: WorkEstimate
    failing: tuple[tuple[str, str, int], ...] = ()  # task, reason, number of its samples that cannot be answered


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A dry run."""

    plan: RunPlan
    notes: tuple[str, ...]
    chunks: tuple[PlannedChunk, ...]
    power: tuple[PowerLine, ...] = ()  # if `wanted` was given
    cost: CostForecast | None = None  # where the model's price is known
    max_cost: float | None = None


@gives_back
def plan_run(
    model: object,
    tasks: str | Sequence[str],
    announce: Callable[[TaskNames], None] | None = None,
    wanted: WantedPower | None = None,
    **options: Unpack[EvaluateOptions],
) -> PlannedRun:
    """Render and tokenise all requests of `evaluate`, and return the estimated work; nothing is sent or stored.

    Args:
        model: as for `evaluate`.
        tasks: names, groups, suites, globs or task files.
        announce: called with the names of tasks before they are rendered.
        wanted: the difference that the run should be able to detect; None: no power is computed.
        options: as for `evaluate`.

    Raises: as `evaluate`.
    """
    opened, prepared = prepare_run(model, tasks, options)
    power = power_of_plan(prepared, wanted) if wanted is not None else []
    chunks: list[PlannedChunk] = []
    bill = bill_for(opened, options.get("price"), options.get("prices"), options.get("max_cost"))
    cost: CostForecast | None = None
    render = render_of(opened)
    for bound in chunks_of(prepared.bound):
        names = tuple(bound_task.plan.name for bound_task in bound)
        if announce is not None:
            announce(names)
        requests = [request for bound_task in bound for request in bound_task.requests(render)]
        leaked = sum(request.n_leaked_shots > 0 for request in requests)
        if bill is not None:
            of_chunk = cost_forecast(opened, requests, bill.price)
            cost = of_chunk if cost is None else cost + of_chunk
        label = _label(names, prepared.selection.groups)
        work = opened.estimate(requests)
        task_of = {request.id: request.task for request in requests}
        failing = Counter((task_of[request_id], reason) for request_id, reason in work.failing)
        counts = tuple((task, reason, n) for (task, reason), n in failing.items())
        chunks.append(PlannedChunk(names, label, len(requests), leaked, work, counts))
    talks = [bound_task.plan.name for bound_task in prepared.bound if bound_task.is_conversation]
    notes = (f"{', '.join(talks)}: first turns only; later turns depend on the responses",) if talks else ()
    return PlannedRun(
        prepared.plan, (*prepared.selection.notes, *notes), tuple(chunks), tuple(power), cost, options.get("max_cost")
    )


def _label(names: TaskNames, groups: Sequence[Group]) -> str:
    """Return a chunk's label: `mmlu (12 of 57)` for tasks of a group, the task's name for a task in no group."""
    by_name = {group.name: group for group in groups}
    inner = {child for group in groups for child in group.children}
    outer = {group.name: tuple(_tasks_under(group.name, by_name)) for group in groups if group.name not in inner}
    labels: dict[str, int] = {}
    for name in names:
        label = next((group for group, tasks in outer.items() if name in tasks), name)
        labels[label] = labels.get(label, 0) + 1
    parts = [
        f"{label} ({count} of {len(outer[label])})" if label in outer and count < len(outer[label]) else label
        for label, count in labels.items()
    ]
    return ", ".join(parts)


def _tasks_under(name: str, groups: Mapping[str, Group]) -> list[str]:
    if name not in groups:
        return [name]
    return [task for child in groups[name].children for task in _tasks_under(child, groups)]
