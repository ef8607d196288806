"""Which tasks of two runs a group's difference averages, and by which metric.

A group declares its metric, filter and weights (`groups.group_cells`). Its tasks are compared by that metric, even if
the primary metric of a task is another one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assaymark.errors import UsageError
from assaymark.results.comparison.averages import GroupedTasks, MeasuredTask
from assaymark.results.comparison.pairing import (
    PairedTask,
    pair_task,
)
from assaymark.results.evidence.groups import GroupCell, Name, group_cells
from assaymark.results.evidence.records import GroupSummaryInput, RunEvidence, TaskSummaryInput
from assaymark.statistics.aggregate import traits_of


class MeasureDifference(Protocol):
    """Measures the difference of a paired task."""

    def __call__(self, task: PairedTask, *, first: RunEvidence, second: RunEvidence) -> MeasuredTask:
        """Return the difference with both runs' scores per sample."""
        ...


def grouped_tasks(
    first: RunEvidence,
    second: RunEvidence,
    groups: Sequence[GroupSummaryInput],
    measured: Mapping[str, MeasuredTask],
    measure: MeasureDifference,
) -> GroupedTasks:
    """Return the tasks that both runs have, grouped by the groups' declared metrics.

    A group is compared by its primary metric; if a run lacks that (the runs come from different tools), by the first
    declared metric that both have, and else by the primary metric of each of its tasks.
    """
    by_name = {group.name: group for group in groups}
    names = {task.name for task in second.tasks}
    tasks = {task.name: task for task in first.tasks if task.name in names}
    scored: dict[str, set[Name]] = {name: set() for name in tasks}
    for row in first.rows:
        if row.task in scored:
            scored[row.task].add((row.metric, row.filter))
    primaries = {name: task.primary for name, task in tasks.items()}
    search = _MeasuredRuns(first, second, tasks, measured, measure)
    by_group: dict[str, tuple[GroupCell, Sequence[MeasuredTask]]] = {}
    for group in groups:
        cells = sorted(group_cells(group, by_name, scored, primaries), key=lambda cell: not cell.is_main)
        chosen = next(((cell, of_cell) for cell in cells if (of_cell := search.of_cell(cell))), None)
        if chosen is not None:
            by_group[group.name] = chosen
    return GroupedTasks(groups, measured, by_group)


@dataclass(frozen=True, slots=True)
class _MeasuredRuns:
    """Two runs, and the differences measured so far."""

    first: RunEvidence
    second: RunEvidence
    tasks: Mapping[str, TaskSummaryInput]
    measured: Mapping[str, MeasuredTask]
    measure: MeasureDifference

    def of_cell(self, cell: GroupCell) -> list[MeasuredTask]:
        """Return a cell's tasks, all measured by its metric; empty if a run lacks it for one of them."""
        tasks = [self.of_task(name, (cell.metric, cell.filter)) for name in cell.tasks]
        known = [task for task in tasks if task is not None]
        if len(known) < len(tasks) and self.second.pairing:  # another tool's names for it
            known = [self.measured[name] for name in cell.tasks if name in self.measured]
        return known if len(known) == len(tasks) else []

    def of_task(self, name: str, wanted: Name) -> MeasuredTask | None:
        """Return a task measured by this metric and filter; None if the runs cannot be compared by it."""
        main = self.measured.get(name)
        if main is not None and (main.line.metric, main.line.filter) == wanted:
            return main
        try:
            paired = pair_task(self.first, self.second, self.tasks[name], wanted)
        except UsageError:
            return None
        if not traits_of(paired.metric.aggregation).is_per_sample or not paired.pairs:
            return None
        return self.measure(paired, first=self.first, second=self.second)
