"""The lines of a run's table: groups above their members, large groups folded; and their cells.

An estimate knows its groups (`details["path"]`, outermost first), so a table is built from estimates alone. A group
with a value of its own hides its tasks if they are many: MMLU has one row and four below it, not 62.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from assaymark.documents.blocks import Block, Cell, Heading, Paragraph
from assaymark.documents.numbers import shown_value
from assaymark.records import Estimate, with_filter
from assaymark.results.estimate_texts import interval_text, is_proportion, shown_count
from assaymark.results.evidence.records import FOLD_ABOVE, RunView


@dataclass(frozen=True, slots=True)
class TableLine:
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


def table_rows(views: Sequence[RunView], *, primary_only: bool = False) -> list[TableLine]:
    """Return the rows of a table over these runs, in the order in which their tasks were evaluated.

    views: the runs, one column each. primary_only: show only the primary metric of each task.
    """
    root = _Node("", "")
    for column, view in enumerate(views):
        for estimate in view.estimates:
            if estimate.details.get("kind") == "composite" or "copy_of" in estimate.details:
                continue  # shown on a line, or in a table, of its own
            if primary_only and not estimate.details.get("primary", True):
                continue
            _insert(root, estimate, column, len(views))
    return [row for child in root.children.values() for row in _rows_of(child, 0, len(views), True)]


def leaf_estimates(view: RunView, under: str | None = None) -> list[Estimate]:
    """Return the view's estimates of tasks (not groups), the primary metric of each; `under` restricts to one group."""
    return _primary_of_kind("task", view, under)


def subject_estimates(view: RunView, under: str | None = None) -> list[Estimate]:
    """Return `leaf_estimates` with the subjects of an own task in its place where its rows name any."""
    subjects = _primary_of_kind("subject", view, under)
    divided = {estimate.details["path"][-1] for estimate in subjects}
    tasks = [estimate for estimate in leaf_estimates(view, under) if estimate.task not in divided]
    return [*tasks, *subjects]


def _primary_of_kind(kind: str, view: RunView, under: str | None) -> list[Estimate]:
    return [
        estimate
        for estimate in view.estimates
        if estimate.details.get("kind", "task") == kind
        and "copy_of" not in estimate.details
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


def _rows_of(node: _Node, depth: int, n_columns: int, is_top: bool) -> list[TableLine]:
    groups = [child for child in node.children.values() if child.is_group]
    tasks = [child for child in node.children.values() if not child.is_group]
    hidden = 0 if not node.cells or len(tasks) <= FOLD_ABOVE else len(tasks)
    cells = node.cells or {("", "none"): [None] * n_columns}
    rows = [
        TableLine(node.name, node.label, depth, metric, filters, tuple(each), node.is_group, hidden, index == 0, is_top)
        for index, ((metric, filters), each) in enumerate(cells.items())
    ]
    below = is_top and not node.cells
    nodes = groups if hidden else list(node.children.values())
    return rows + [row for child in nodes for row in _rows_of(child, depth + 1, n_columns, below)]


def metric_cell(row: TableLine) -> str:
    """Return the metric, with its filter unless that is `none`."""
    return with_filter(row.metric, row.filter)


def shots_cell(row: TableLine) -> str:
    """Return the number of shots, once per task; empty if it is not known."""
    shots = row.any_cell.details.get("n_shots") if row.any_cell is not None and row.is_first else None
    return "" if shots is None else str(shots)


def number_cells(cell: Estimate | None) -> tuple[str, str, str]:
    """Return value, interval and n."""
    if cell is None:
        return "", "", ""
    return shown_value(cell.value, proportion=is_proportion(cell)), interval_text(cell), shown_count([cell])


def heading_blocks(view: RunView) -> list[Block]:
    """Return the heading of a run's table: model, run, and how it was run."""
    facts = [*([f"run {view.run_id}"] if view.run_id else []), *(value for _, value in view.facts)]
    return [Heading(view.label, 3), Paragraph(" · ".join(facts), "facts")]


def name_cell(row: TableLine) -> Cell:
    """Return the task's or group's name, indented under its groups, with the number of tasks folded into it."""
    if not row.is_first:
        return Cell("")
    label = f"{row.label} ({row.n_hidden})" if row.n_hidden else row.label
    label += " · no mean" if row.is_group and not row.metric else ""
    return Cell(label, depth=row.depth, role="group" if row.is_group else "")
