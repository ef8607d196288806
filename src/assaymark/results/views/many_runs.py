"""Several runs side by side, one column each, for any terminal width.

If it fits, a task takes one line with the interval beside each value. Otherwise the interval goes under the value, and
metric, n and chance go under the task; runs that still do not fit go into a second table below.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.results.console import Text
from assaymark.results.evidence.records import RunView
from assaymark.results.numbers import shown_count
from assaymark.results.views.cells import (
    TableLine,
    chance_cell,
    interval_text,
    label_cell,
    metric_cell,
    plain_table,
    value_text,
)

GAP = 2


def side_by_side(rows: Sequence[TableLine], views: Sequence[RunView], width: int) -> RenderableType:
    """Return the table; `rows` hold one cell per view."""
    columns = [[_cell(row, i) for row in rows] for i in range(len(views))]
    inner = width - 2
    fixed = [
        max([4, *(len(label_cell(row).plain) for row in rows)]),
        max([6, *(len(metric_cell(row)) for row in rows)]),
        max([1, *(len(_count(row)) for row in rows)]),
        6 if any(chance_cell(row.any_cell) for row in rows) else 0,
    ]
    flat = [max(len(v.label), *(len(a) + 1 + _width(c, 1) for a, _ in c)) for v, c in zip(views, columns, strict=True)]
    if sum(size + GAP for size in fixed if size) + sum(size + GAP for size in flat) - GAP <= inner:
        return Padding(_one_line(rows, views, columns, with_chance=bool(fixed[3])), (0, 1))
    left = max([4, *(len(label_cell(row).plain) for row in rows), *(len(_under(row)) for row in rows)])
    tall = [
        max(min(len(view.label), 14), _width(column, 0), _width(column, 1))
        for view, column in zip(views, columns, strict=True)
    ]
    tables: list[RenderableType] = []
    start = 0
    while start < len(views):
        end, used = start + 1, left + GAP + tall[start]
        while end < len(views) and used + GAP + tall[end] <= inner:
            used += GAP + tall[end]
            end += 1
        tables.append(Padding(_two_lines(rows, views[start:end], columns[start:end]), (0, 1, 0, 1)))
        start = end
    return Group(*tables)


Column = list[tuple[str, str]]  # (value, interval) per row


def _one_line(
    rows: Sequence[TableLine], views: Sequence[RunView], columns: Sequence[Column], *, with_chance: bool
) -> RenderableType:
    table = plain_table()
    table.add_column("task", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for header in ("n", *(["chance"] if with_chance else []), *(view.label for view in views)):
        table.add_column(header, justify="right", no_wrap=True)
    for index, row in enumerate(rows):
        cells: list[RenderableType] = [label_cell(row), metric_cell(row), _count(row)]
        if with_chance:
            cells.append(chance_cell(row.any_cell))
        for column in columns:
            value, interval = column[index]
            text = Text(value, style="bold")
            text.append(f" {interval:>{_width(column, 1)}}", style="not bold dim")
            cells.append(text)
        table.add_row(*cells)
    return table


def _two_lines(rows: Sequence[TableLine], views: Sequence[RunView], columns: Sequence[Column]) -> RenderableType:
    table = plain_table()
    table.add_column("task", no_wrap=True)
    for view in views:
        table.add_column(view.label, justify="right", overflow="fold")
    for index, row in enumerate(rows):
        name = label_cell(row)
        name.append("\n" + _under(row) if row.metric else "", style="not bold dim")
        cells: list[RenderableType] = [name]
        for column in columns:
            text = Text(column[index][0], style="bold")
            text.append("\n" + column[index][1] if row.metric else "", style="not bold dim")
            cells.append(text)
        table.add_row(*cells)
    return table


def _cell(row: TableLine, column: int) -> tuple[str, str]:
    """Return value and interval; empty for a heading, which has no metric."""
    return (value_text(row.cells[column]), interval_text(row.cells[column])) if row.metric else ("", "")


def _count(row: TableLine) -> str:
    return shown_count(cell for cell in row.cells if cell is not None)


def _under(row: TableLine) -> str:
    chance = chance_cell(row.any_cell)
    parts = [metric_cell(row), f"n {_count(row)}", *([f"chance {chance}"] if chance else [])]
    return "  " * (row.depth + 1) + ", ".join(parts)


def _width(column: Column, which: int) -> int:
    return max((len(cell[which]) for cell in column), default=0)
