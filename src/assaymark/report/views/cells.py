"""Cells that tables share (labels, metrics, chance, a value with its interval), and the common table style."""

from collections.abc import Callable

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table

from assaymark.records import Estimate
from assaymark.report.console import Text
from assaymark.report.evidence.records import RunView
from assaymark.report.numbers import NOTHING, is_proportion, shown_count, shown_interval, shown_value
from assaymark.report.views.layout import Row


class Sized:
    """A renderable that is drawn when the width is known, so that the caller need not know it."""

    def __init__(self, draw: Callable[[int], RenderableType]) -> None:
        self.draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.draw(options.max_width)


def plain_table() -> Table:
    """Return an empty table in the common style: a rule under the header, two spaces between columns."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")


def label_cell(row: Row) -> Text:
    """Return the task's or group's name, indented under its groups, with the number of tasks folded into it."""
    if not row.is_first:
        return Text("")
    text = Text("  " * row.depth + row.label, style="bold" if row.is_group else "")
    if row.is_group and not row.metric:
        text.append(" · no mean", style="not bold dim")
    text.append(f" ({row.n_hidden})" if row.n_hidden else "", style="not bold dim")
    return text


def metric_cell(row: Row) -> str:
    """Return the metric, with its filter unless that is `none`."""
    return row.metric if row.filter in {"none", ""} else f"{row.metric} ({row.filter})"


def shots_cell(row: Row) -> str:
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
    shown = shown_value(cell.value, proportion=is_proportion(cell))
    return f"{shown} ({cell.n_failed:,} failed)" if cell.n_failed else shown


def interval_text(cell: Estimate | None) -> str:
    """Return the interval alone."""
    return "" if cell is None else shown_interval(cell.low, cell.high, proportion=is_proportion(cell))


def number_cells(cell: Estimate | None) -> list[str | Text]:
    """Return value, interval and n."""
    if cell is None:
        return ["", "", ""]
    shown = shown_value(cell.value, proportion=is_proportion(cell))
    return [Text(shown, style="bold"), interval_text(cell), shown_count([cell])]


def heading(view: RunView) -> RenderableType:
    """Return the line above a run's table: model, run, and how it was run."""
    text = Text(view.label, style="bold")
    shown = [f"run {view.run_id}"] if view.run_id else []
    text.append("".join(f" · {value}" for value in [*shown, *(value for _, value in view.facts)]), style="not bold dim")
    return Padding(text, (0, 1))
