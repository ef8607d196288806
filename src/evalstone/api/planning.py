"""What a run would take: samples, tokens before and after sharing, memory, time, and which prompts are too long."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from evalstone.api.evaluate import prepare_run
from evalstone.api.lending import gives_back
from evalstone.api.options import EvaluateOptions
from evalstone.api.power import PowerLine, WantedPower, power_of_plan
from evalstone.records import RunPlan, WorkEstimate
from evalstone.runner.plan import chunks_of, render_of

TaskNames = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """Tasks that are asked together, and what asking them takes."""

    tasks: TaskNames
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
        chunks.append(PlannedChunk(names, len(requests), leaked, answering.estimate(requests)))
    talks = [one.plan.name for one in prepared.bound if one.is_conversation]
    first = (f"{', '.join(talks)}: first turns only; later ones rest on the answers",) if talks else ()
    return PlannedRun(prepared.plan, (*prepared.selection.notes, *first), tuple(chunks), tuple(power))
