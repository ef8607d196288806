"""The work in progress: batches split into ranges, the worker of each, and the missing results."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from assaymark.engine.spans import IntArray
from assaymark.models.workers.ranges import RangeReport, WorkRange, total

__all__ = ["RangeJob", "RangeTask"]


@dataclass(slots=True, eq=False)
class RangeTask:
    """One range in progress: which of its units have results, and its last report."""

    part: WorkRange
    job: "RangeJob"
    done: set[int] = field(default_factory=set)
    sent: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # in the worker's order
    report: RangeReport = field(default_factory=RangeReport)
    attempts: int = 0

    def left(self) -> IntArray:
        """Return the units that still need a result."""
        return np.asarray([i for i in self.part.indices.tolist() if i not in self.done], dtype=np.int64)

    def record(self, report: RangeReport, *, is_last: bool) -> None:
        """Record the worker's progress; after a takeover it counts only the units that were left."""
        whole = replace(report, n_tokens=self.part.n_tokens, n_distinct=self.part.n_distinct)
        self.report = whole if is_last else report


class RangeJob:
    """One batch in progress.

    `order` returns the message that makes a worker compute these units; `on_progress` receives the total progress.
    """

    def __init__(
        self,
        parts: Sequence[WorkRange],
        order: Callable[[IntArray], tuple[Any, ...]],
        on_progress: Callable[[RangeReport], None],
        number: int = 0,
    ) -> None:
        self.number = number
        self.order = order
        self._on_progress = on_progress
        self._tasks = [RangeTask(part, self) for part in parts]
        self.todo = deque(self._tasks)

    @property
    def is_done(self) -> bool:
        """Whether every unit has its result."""
        return all(len(task.done) == task.part.indices.size for task in self._tasks)

    def report(self) -> None:
        """Report the progress."""
        self._on_progress(total([task.report for task in self._tasks]))
