"""Injection rates and panels as terminal tables."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.judges.injections import InjectionRate
from assaymark.judges.panel import PanelSummary
from assaymark.report.console import Text
from assaymark.report.numbers import NOTHING, short_model_name
from assaymark.report.views.cells import plain_table
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.store import RunRow

__all__ = ["injection_table", "panel_table"]


def injection_table(rates: Sequence[InjectionRate]) -> RenderableType:
    """Return the rates of success by judge prompt and kind of injection."""
    table = plain_table()
    table.add_column("judge prompt", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for name in ("succeeded", "interval", "n", "no verdict", "failed"):
        table.add_column(name, justify="right")
    for one in rates:
        shown = NOTHING if one.rate is None else f"{one.rate.value:.1%}"
        name, kind = ("", one.kind) if one.kind else (one.prompt, "all")
        counts = (one.n, one.n_missing, one.n_failed)
        table.add_row(name, kind, shown, _percents(one.rate), *(f"{count:,}" for count in counts))
    notes = [Text(_MEANING, style="dim")]
    if rates and not any(one.n for one in rates):
        notes.append(Text(_NO_VERDICT, style="yellow"))
    return Padding(Group(table, *notes), (0, 1))


_MEANING = (
    "Success: the answer that only asks for a good verdict is named the better one, or gets at least the grade of an "
    "honest answer. Intervals take questions as units."
)
_NO_VERDICT = (
    "No text of this judge holds a verdict: it does not follow the prompts, so nothing is known about injections."
)


def _percents(value: IntervalEstimate | None) -> str:
    if value is None or value.low is None or value.high is None:
        return ""
    return f"{value.low:.1%} to {value.high:.1%}"


def panel_table(rows: Sequence[RunRow], panel: Sequence[PanelSummary]) -> RenderableType:
    """Return the panel's verdict on each task, beside the disagreement of its judges."""
    names = ", ".join(short_model_name(row.model) for row in rows)
    table = plain_table()
    table.add_column("task", overflow="fold")
    value = "wins by majority" if panel and panel[0].is_paired else "mean grade"
    for name in (value, "interval", "unanimous", "alpha", "n", "fewer than 2"):
        table.add_column(name, justify="right")
    for one in panel:
        table.add_row(one.task, *_panel_cells(one))
    return Padding(Group(Text(f"panel of {names}", style="bold"), Text(), table), (0, 1))


def _panel_cells(one: PanelSummary) -> list[str]:
    alpha = NOTHING if one.alpha is None or one.alpha.value is None else f"{one.alpha.value:.3f}"
    unanimous = NOTHING if one.unanimous is None else f"{one.unanimous:.1%}"
    if one.value is None:
        return [NOTHING, "", unanimous, alpha, f"{one.n:,}", f"{one.n_missing:,}"]
    if one.is_paired:
        shown, ends = f"{one.value.value:.1%}", _percents(one.value)
    else:
        shown = f"{one.value.value:.2f}"
        ends = "" if one.value.low is None else f"{one.value.low:.2f} to {one.value.high:.2f}"
    return [shown, ends, unanimous, alpha, f"{one.n:,}", f"{one.n_missing:,}"]
