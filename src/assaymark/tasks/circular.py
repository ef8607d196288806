"""CircularEval as an option of a run: the further queries of a task whose prompt lists its options.

The task's own metrics stay those of the row's order, so they are comparable with a run without the option.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from assaymark.prompts.few_shot import Shots
from assaymark.prompts.prompter import Prompter, PromptFields
from assaymark.prompts.rotations import rotated_layout, why_not_rotated
from assaymark.records import LoglikelihoodQuery, Render, Row
from assaymark.scoring.metric import ROTATIONS
from assaymark.scoring.metrics import aggregation_of, is_higher_better, names_for
from assaymark.tasks.task import Group, GroupMetric, MetricSpec, Task


def circular_metrics(task: Task) -> tuple[MetricSpec, ...]:
    """Return the metrics that rotations add to a task's own."""
    filters = tuple(pipeline.name for pipeline in task.filters)
    return tuple(
        MetricSpec(name, aggregation_of(name), is_higher_better(name), filters=filters) for name in names_for(ROTATIONS)
    )


def why_not_circular(task: Task, layout: PromptFields, row: Mapping[str, object]) -> str | None:
    """Return why a task is not evaluated in rotations; None where it is. `row` is any of its rows."""
    if task.output_type != "multiple_choice":
        return f"it is {task.output_type}, not multiple_choice"
    if task.process_results is not None:
        return "it is scored by a function of its own"
    return why_not_rotated(layout, row)


class RotatedPrompts:
    """Makes the queries of all rotations but the first, which is the row's own order."""

    def __init__(self, layout: PromptFields, prompter_of: Callable[[PromptFields], Prompter]) -> None:
        self._layout, self._prompter_of = layout, prompter_of
        self._prompters: dict[int, Prompter] = {}  # by shift

    def queries(
        self, row: Row, shots: Shots, pool: Sequence[Row], render: Render | None
    ) -> Iterator[LoglikelihoodQuery]:
        """Yield one query per rotation 1, 2, ... and position, without index and delimiter.

        Raises: MalformedSample for a row whose options cannot be found in its prompt.
        """
        choices = [str(choice) for choice in self._layout.choices(row)] if self._layout.choices is not None else []
        for shift in range(1, len(choices)):
            if shift not in self._prompters:
                self._prompters[shift] = self._prompter_of(rotated_layout(self._layout, shift))
            (context,) = self._prompters[shift].contexts(row, shots, pool, render)
            yield from (LoglikelihoodQuery(0, choice, context.segments, "rotated") for choice in choices)


def circular_group(group: Group) -> Group:
    """Return the group with averages of the metrics that rotations add, weighted as its own."""
    if not group.metrics:
        return group
    by_size = group.metrics[0].weight_by_size
    more = tuple(GroupMetric(name, weight_by_size=by_size) for name in names_for(ROTATIONS))
    return replace(group, metrics=(*group.metrics, *more))
