"""Estimate of a run: samples, tokens with and without sharing, memory, time, prompts that are too long, and power.

The power is the minimum detectable effect (MDE), and the samples that a given difference needs.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from assaymark.errors import UsageError
from assaymark.models.cost.bill import CostForecast, bill_for, cost_forecast
from assaymark.models.lending import gives_back
from assaymark.records import LoglikelihoodQuery, RunPlan, WorkEstimate
from assaymark.runs.chunks import chunks_of
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.plan import PreparedRun, render_of
from assaymark.runs.prepare import prepare_run
from assaymark.statistics.aggregate import traits_of
from assaymark.statistics.power import WORST_SHARE, WeightedTask, detectable_z, mde_of_weighted, samples_paired_binary
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.suites import ChosenSuite, Member, Suite
from assaymark.tasks.task import Group

TaskNames = tuple[str, ...]
DISAGREEMENT = 0.2  # share of samples; usual for two models of similar accuracy; `compare` measures it
_SMALLEST_DIFFERENCE = 1e-4  # 0.01 points; a smaller difference needs more samples than any benchmark has


@dataclass(frozen=True, slots=True)
class PowerLine:
    """The power of one task, group or composite of a planned run; differences are shares in [0, 1]."""

    name: str
    kind: str  # task | group | composite
    n: int  # samples in the run
    paired: float | None  # MDE with both models on these samples
    unpaired: float | None  # MDE against a result on as many other samples, at accuracy 1/2
    n_paired: int | None  # samples that the wanted difference needs, paired
    n_unpaired: int | None  # unpaired, for each model
    note: str = ""
    shows_nothing_paired: bool = False  # `paired` exceeds the disagreement, so no possible difference is detectable


@dataclass(frozen=True, slots=True)
class WantedPower:
    """The difference that a run should be able to detect.

    Raises: UsageError for a difference larger than the disagreement, or a value out of range.
    """

    difference: float  # the smallest of interest, as a share: 0.02 is two points
    disagreement: float = DISAGREEMENT  # share of samples on which the two models are expected to differ

    def __post_init__(self) -> None:
        """Check the values."""
        if not _SMALLEST_DIFFERENCE <= self.difference < 1 or not 0 < self.disagreement <= 1:
            raise UsageError(
                f"the difference is {100 * self.difference:g} points and the disagreement {self.disagreement:g}; "
                f"expected points from {100 * _SMALLEST_DIFFERENCE:g} to below 100, and a share above 0 and at most 1"
            )
        if self.difference > self.disagreement:
            raise UsageError(
                f"models that differ on {self.disagreement:.0%} of the samples cannot differ by "
                f"{100 * self.difference:g} points; give a larger --disagreement"
            )

    def of_task(self, name: str, n: int) -> PowerLine:
        """Return a task's line."""
        tasks = [WeightedTask(1.0, n)]
        paired, unpaired = mde_of_weighted(tasks, self.disagreement), mde_of_weighted(tasks, None)
        z = detectable_z()
        n_unpaired = math.ceil(z**2 * 2.0 * WORST_SHARE * (1.0 - WORST_SHARE) / self.difference**2 - 1e-9)
        n_paired = samples_paired_binary(self.difference, self.disagreement)
        return PowerLine(
            name, "task", n, min(paired, 1.0), min(unpaired, 1.0), n_paired, n_unpaired,
            shows_nothing_paired=paired > self.disagreement,
        )  # fmt: skip

    def of_mean(self, name: str, kind: str, tasks: Sequence[WeightedTask]) -> PowerLine:
        """Return the line of a weighted mean, whose tasks keep their proportions if more samples are needed."""
        n = sum(task.n for task in tasks)
        paired, unpaired = mde_of_weighted(tasks, self.disagreement), mde_of_weighted(tasks, None)
        needed = [math.ceil(n * (mde / self.difference) ** 2 - 1e-9) for mde in (paired, unpaired)]
        return PowerLine(name, kind, n, min(paired, 1.0), min(unpaired, 1.0), needed[0], needed[1])


def power_of_plan(prepared: PreparedRun, wanted: WantedPower) -> list[PowerLine]:
    """Return one line per task, then per group and composite, for a two-sided test at 5% with power 80%."""
    bound = {task.plan.name: task for task in prepared.bound}
    shares = {name: task for name, task in bound.items() if _is_share(task)}
    lines = [
        wanted.of_task(name, task.plan.n_samples)
        if name in shares
        else PowerLine(name, "task", task.plan.n_samples, None, None, None, None, "not a share of samples")
        for name, task in bound.items()
    ]
    lines += [line for group in prepared.selection.groups if (line := _of_group(wanted, group, prepared, shares))]
    lines += [_of_suite(wanted, chosen, shares) for chosen in prepared.selection.suites]
    return lines


def _is_share(bound: BoundTask) -> bool:
    """Return whether a metric of the task is a mean of scores in [0, 1], judging by its aggregation."""
    if bound.task.output_type == "loglikelihood_rolling":
        return False
    return any(traits_of(metric.aggregation).is_mean for metric in bound.metrics)


def _of_group(
    wanted: WantedPower, group: Group, prepared: PreparedRun, shares: Mapping[str, BoundTask]
) -> PowerLine | None:
    """Return a group's line; None if it does not average its tasks."""
    leaves = list(_leaves(group.name, {member.name: member for member in prepared.selection.groups}))
    if not group.metrics or not leaves or not all(leaf in shares for leaf in leaves):
        return None
    sizes = [shares[leaf].plan.n_samples for leaf in leaves]
    by_size = group.metrics[0].weight_by_size
    weights = [n / sum(sizes) if by_size else 1 / len(sizes) for n in sizes]
    tasks = [WeightedTask(weight, n) for weight, n in zip(weights, sizes, strict=True)]
    return wanted.of_mean(group.name, "group", tasks)


def _leaves(name: str, groups: Mapping[str, Group]) -> Iterator[str]:
    """Yield the tasks below a group, each once."""
    seen: set[str] = set()

    def walk(inner: str) -> Iterator[str]:
        if inner in seen:
            return
        seen.add(inner)
        if inner not in groups:
            yield inner
            return
        for child in groups[inner].children:
            yield from walk(child)

    yield from walk(name)


def _of_suite(wanted: WantedPower, chosen: ChosenSuite, shares: Mapping[str, BoundTask]) -> PowerLine:
    """Return a composite's line, without an MDE if it is not a weighted mean."""
    suite = chosen.suite
    leaves = [leaf for members in chosen.leaves for leaf in members]
    n = sum(shares[leaf].plan.n_samples for leaf in leaves if leaf in shares)
    if suite.aggregate not in {"mean", "weighted"} or chosen.missing or not all(leaf in shares for leaf in leaves):
        why = "members are missing" if chosen.missing else "not a weighted mean of shares"
        return PowerLine(suite.name, "composite", n, None, None, None, None, why)
    tasks: list[WeightedTask] = []
    for member, own in zip(suite.members, chosen.leaves, strict=True):
        sizes = [shares[leaf].plan.n_samples for leaf in own]
        weight = _member_weight(suite, member, shares[own[0]])
        for size in sizes:
            part = size / sum(sizes) if member.within == "weighted" else 1 / len(sizes)
            tasks.append(WeightedTask(weight * part, size))
    return wanted.of_mean(suite.name, "composite", tasks)


def _member_weight(suite: Suite, member: Member, bound: BoundTask) -> float:
    """Return the composite's change per unit of a member's score, with its normalisation."""
    columns = sum(suite.weight_of(column) for column in suite.columns)
    within = sum(other.weight for other in suite.members if other.column == member.column)
    weight = suite.weight_of(member.column) / columns * member.weight / within
    if suite.normalise == "minmax":
        return weight / (member.range[1] - member.range[0])
    if suite.normalise == "chance":
        return weight / (1.0 - (member.chance if isinstance(member.chance, float) else _chance(bound)))
    return weight


def _chance(bound: BoundTask) -> float:
    """Return 1 / (number of choices of the task's first sample); 0 for a task without choices."""
    sample = next(iter(bound.samples()), None)
    if sample is None:
        return 0.0
    queries = [
        query
        for query in bound.request(sample).queries
        if isinstance(query, LoglikelihoodQuery) and query.role == "choice"
    ]
    return 1.0 / len(queries) if len(queries) > 1 else 0.0


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
