"""Cells that tables share (labels, metrics, chance, a value with its interval), and the common table style.

Rows of a table and their order: groups above their members, large groups folded.

An estimate knows its groups (`details["path"]`, outermost first), so a table is built from estimates alone. A group
with a value of its own hides its tasks if they are many: MMLU has one row and four below it, not 62.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Column, Table

from assaymark.records import Estimate
from assaymark.results.console import Text
from assaymark.results.evidence.records import RunView
from assaymark.results.numbers import NOTHING, is_proportion, shown_count, shown_interval, shown_value

FOLD_ABOVE = 8
"""A group with a value and more tasks than this is shown without its tasks."""


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


def table_rows(views: Sequence[RunView], *, unfold: bool = False, primary_only: bool = False) -> list[TableLine]:
    """Return the rows of a table over these runs, in the order in which their tasks were evaluated.

    Args:
        views: the runs, one column each.
        unfold: show every task of every group.
        primary_only: show only the primary metric of each task.
    """
    root = _Node("", "")
    for column, view in enumerate(views):
        for estimate in view.estimates:
            if estimate.details.get("kind") == "composite" or "copy_of" in estimate.details:
                continue  # shown on a line, or in a table, of its own
            if primary_only and not estimate.details.get("primary", True):
                continue
            _insert(root, estimate, column, len(views))
    return [row for child in root.children.values() for row in _rows_of(child, 0, unfold, len(views), True)]


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


def _rows_of(node: _Node, depth: int, unfold: bool, n_columns: int, is_top: bool) -> list[TableLine]:
    groups = [child for child in node.children.values() if child.is_group]
    tasks = [child for child in node.children.values() if not child.is_group]
    hidden = 0 if unfold or not node.cells or len(tasks) <= FOLD_ABOVE else len(tasks)
    cells = node.cells or {("", "none"): [None] * n_columns}
    rows = [
        TableLine(node.name, node.label, depth, metric, filters, tuple(each), node.is_group, hidden, index == 0, is_top)
        for index, ((metric, filters), each) in enumerate(cells.items())
    ]
    below = is_top and not node.cells
    nodes = groups if hidden else list(node.children.values())
    return rows + [row for child in nodes for row in _rows_of(child, depth + 1, unfold, n_columns, below)]


LEAST_FOLDED = 16  # columns
WIDEST = 10_000


class Sized:
    """A renderable that is drawn when the width is known, so that the caller need not know it."""

    def __init__(self, draw: Callable[[int], RenderableType]) -> None:
        self.draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.draw(options.max_width)


class _PlainTable(Table):
    """A table that cuts nothing: columns that do not fit go into further tables below, beside the first columns again.

    The first columns are those before the first right-aligned one: they name the rows. Text that may be folded gets
    at least `LEAST_FOLDED` columns.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def least(column: Column) -> int:
            size = self._measure_column(console, options.update(width=WIDEST), column)
            return size.maximum if column.no_wrap else max(size.minimum if column.overflow != "fold" else 0,
                                                           min(size.maximum, LEAST_FOLDED))  # fmt: skip

        sizes = [least(column) + 1 for column in self.columns]  # with the gap that the box draws
        n_names = next((i for i, column in enumerate(self.columns) if column.justify == "right" and i), len(sizes))
        free = options.max_width + 1 - sum(sizes[:n_names])
        blocks: list[list[int]] = [[]]
        for index in range(n_names, len(sizes)):
            if blocks[-1] and sum(sizes[i] for i in blocks[-1]) + sizes[index] > free:
                blocks.append([])
            blocks[-1].append(index)
        if len(blocks) == 1:
            yield from super().__rich_console__(console, options)
            return
        for number, block in enumerate(blocks):
            part = copy(self)
            kept = [*range(n_names), *block]
            part.columns = [replace(self.columns[i], _index=place) for place, i in enumerate(kept)]
            if number:
                yield Text()
            yield from Table.__rich_console__(part, console, options)


def plain_table() -> Table:
    """Return an empty table in the common style: a rule under the header, two spaces between columns."""
    return _PlainTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")


def label_cell(row: TableLine) -> Text:
    """Return the task's or group's name, indented under its groups, with the number of tasks folded into it."""
    if not row.is_first:
        return Text("")
    text = Text("  " * row.depth + row.label, style="bold" if row.is_group else "")
    if row.is_group and not row.metric:
        text.append(" · no mean", style="not bold dim")
    text.append(f" ({row.n_hidden})" if row.n_hidden else "", style="not bold dim")
    return text


def metric_cell(row: TableLine) -> str:
    """Return the metric, with its filter unless that is `none`."""
    return row.metric if row.filter in {"none", ""} else f"{row.metric} ({row.filter})"


def shots_cell(row: TableLine) -> str:
    """Return the number of shots, once per task; empty if it is not known."""
    shots = row.any_cell.details.get("n_shots") if row.any_cell is not None and row.is_first else None
    return "" if shots is None else str(shots)


def chance_cell(cell: Estimate | None) -> str:
    """Return the score of guessing; empty if it is not known."""
    return "" if cell is None or cell.chance is None else shown_value(cell.chance, proportion=True)


def value_text(cell: Estimate | None) -> str:
    """Return the value alone; `!2` after it means that two requests failed."""
    if cell is None:
        return NOTHING
    failed = f" !{cell.n_failed}" if cell.n_failed else ""
    return shown_value(cell.value, proportion=is_proportion(cell)) + failed


def value_words(cell: Estimate | None) -> str:
    """Return the value with its failed requests in words, for readers without a legend."""
    if cell is None:
        return NOTHING
    words = shown_value(cell.value, proportion=is_proportion(cell))
    return f"{words} ({cell.n_failed:,} failed)" if cell.n_failed else words


def interval_text(cell: Estimate | None) -> str:
    """Return the interval alone."""
    return "" if cell is None else shown_interval(cell.low, cell.high, proportion=is_proportion(cell))


def number_cells(cell: Estimate | None) -> list[str | Text]:
    """Return value, interval and n."""
    if cell is None:
        return ["", "", ""]
    value = shown_value(cell.value, proportion=is_proportion(cell))
    return [Text(value, style="bold"), interval_text(cell), shown_count([cell])]


def heading(view: RunView) -> RenderableType:
    """Return the line above a run's table: model, run, and how it was run."""
    text = Text(view.label, style="bold")
    run_part = [f"run {view.run_id}"] if view.run_id else []
    text.append(
        "".join(f" · {value}" for value in [*run_part, *(value for _, value in view.facts)]), style="not bold dim"
    )
    return Padding(text, (0, 1))
