"""What workers are answering: batches cut into ranges, who has which, and what still lacks a result."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evalstone.engine.spans import IntArray
from evalstone.models.workers.ranges import RangeReport, WorkRange, total

__all__ = ["RangeJob", "RangeTask"]


@dataclass(slots=True, eq=False)
class RangeTask:
    """One range on its way: which of its units have results, and its last report."""

    part: WorkRange
    job: "RangeJob"
    done: set[int] = field(default_factory=set)
    sent: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # as the worker counts them
    report: RangeReport = field(default_factory=RangeReport)
    attempts: int = 0

    def left(self) -> IntArray:
        """Return the units that still need a result."""
        return np.asarray([i for i in self.part.indices.tolist() if i not in self.done], dtype=np.int64)

    def heard(self, report: RangeReport, *, is_last: bool) -> None:
        """Keep how far the worker says it is; one that took over from another has counted only what was left."""
        whole = replace(report, n_tokens=self.part.n_tokens, n_distinct=self.part.n_distinct)
        self.report = whole if is_last else report


class RangeJob:
    """One batch on its way.

    `order` says what a worker is told to have these units answered; `tell` hears how far all ranges are together.
    """

    def __init__(
        self,
        parts: Sequence[WorkRange],
        order: Callable[[IntArray], tuple[Any, ...]],
        tell: Callable[[RangeReport], None],
        number: int = 0,
    ) -> None:
        self.number = number
        self.order = order
        self._tell = tell
        self._tasks = [RangeTask(part, self) for part in parts]
        self.todo = deque(self._tasks)

    @property
    def is_done(self) -> bool:
        """Whether every unit has its result."""
        return all(len(task.done) == task.part.indices.size for task in self._tasks)

    def tell(self) -> None:
        """Tell how far it is."""
        self._tell(total([task.report for task in self._tasks]))
