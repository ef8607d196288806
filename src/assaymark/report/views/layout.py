"""Rows of a table and their order: groups above their members, large groups folded.

An estimate knows its groups (`details["path"]`, outermost first), so a table is built from estimates alone. A group
with a value of its own hides its tasks if they are many: MMLU has one row and four below it, not 62.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from assaymark.records import Estimate
from assaymark.report.evidence.records import RunView

FOLD_ABOVE = 8
"""A group with a value and more tasks than this is shown without its tasks."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: one metric of one task or group, in each of the views."""

    name: str
    label: str
    depth: int
    metric: str
    filter: str
    cells: tuple[Estimate | None, ...]  # one per view
    is_group: bool = False
    n_hidden: int = 0  # tasks folded into this row
    is_first: bool = True  # of this name's rows: the label is shown
    is_top: bool = True  # no group above it has a value of its own

    @property
    def any_cell(self) -> Estimate | None:
        """The first estimate of the row, for properties on which all views agree (direction, chance)."""
        return next((cell for cell in self.cells if cell is not None), None)


@dataclass(slots=True)
class _Node:
    name: str
    label: str
    is_group: bool = True
    children: dict[str, "_Node"] = field(default_factory=dict)
    cells: dict[tuple[str, str], list[Estimate | None]] = field(default_factory=dict)  # by (metric, filter)


def table_rows(views: Sequence[RunView], *, unfold: bool = False, primary_only: bool = False) -> list[Row]:
    """Return the rows of a table over these runs, in the order in which their tasks were evaluated.

    Args:
        views: the runs, one column each.
        unfold: show every task of every group.
        primary_only: show only the primary metric of each task.
    """
    root = _Node("", "")
    for column, view in enumerate(views):
        for estimate in view.estimates:
            if estimate.details.get("kind") == "composite":
                continue  # shown on a line of its own
            if primary_only and not estimate.details.get("primary", True):
                continue
            _insert(root, estimate, column, len(views))
    return [row for child in root.children.values() for row in _rows_of(child, 0, unfold, len(views), True)]


def leaf_estimates(view: RunView, under: str | None = None) -> list[Estimate]:
    """Return the view's estimates of tasks (not groups), the primary metric of each; `under` restricts to one group."""
    return [
        estimate
        for estimate in view.estimates
        if estimate.details.get("kind", "task") == "task"
        and estimate.details.get("primary", True)
        and (under is None or under in estimate.details.get("path", ()))
    ]


def _insert(root: _Node, estimate: Estimate, column: int, n_columns: int) -> None:
    node = root
    for group in estimate.details.get("path", ()):
        node = node.children.setdefault(group, _Node(group, group))
    leaf = node.children.setdefault(estimate.task, _Node(estimate.task, estimate.task))
    leaf.label = estimate.details.get("alias") or estimate.task
    leaf.is_group = estimate.details.get("kind", "task") == "group"
    leaf.cells.setdefault((estimate.metric, estimate.filter), [None] * n_columns)[column] = estimate


def _rows_of(node: _Node, depth: int, unfold: bool, n_columns: int, is_top: bool) -> list[Row]:
    groups = [child for child in node.children.values() if child.is_group]
    tasks = [child for child in node.children.values() if not child.is_group]
    hidden = 0 if unfold or not node.cells or len(tasks) <= FOLD_ABOVE else len(tasks)
    cells = node.cells or {("", "none"): [None] * n_columns}
    rows = [
        Row(node.name, node.label, depth, metric, filters, tuple(each), node.is_group, hidden, index == 0, is_top)
        for index, ((metric, filters), each) in enumerate(cells.items())
    ]
    below = is_top and not node.cells
    shown = groups if hidden else list(node.children.values())
    return rows + [row for child in shown for row in _rows_of(child, depth + 1, unfold, n_columns, below)]
