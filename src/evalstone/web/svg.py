"""Charts as SVG in the page: no script, colours by class, text escaped. The numbers stand in a table beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from evalstone.report.plain_text import printable

__all__ = ["Bar", "Span", "bars", "heatmap", "spans"]

NAME_WIDTH = 190
PLOT_WIDTH = 380
ROW = 22
CELL = 40
LONGEST_NAME = 28  # characters


@dataclass(frozen=True, slots=True)
class Span:
    """A value with its interval. spread: of a difference, drawn as a band on both sides of zero."""

    name: str
    value: float
    low: float | None
    high: float | None
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A share from 0 to 1."""

    name: str
    share: float
    shown: str


def spans(rows: Sequence[Span]) -> Markup:
    """Return a chart with a point and a line for each row, and ticks below; differences have a line at zero."""
    bands = [end for row in rows if row.spread is not None for end in (-row.spread, row.spread)]
    ends = [*bands, *(end for row in rows for end in (row.value, row.low, row.high) if end is not None)]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.04 or 1.0
    low, high = low - room, high + room

    def at(value: float) -> float:
        return NAME_WIDTH + PLOT_WIDTH * (value - low) / (high - low)

    parts = []
    for tick in _ticks(low, high):
        parts.append(_line(at(tick), 0, at(tick), ROW * len(rows), "grid"))
        parts.append(
            _text(at(tick), ROW * len(rows) + 15, f"{tick:+,.0f}" if bands and tick else f"{tick:,.0f}", "middle")
        )
    if bands:
        parts.append(_line(at(0.0), 0, at(0.0), ROW * len(rows), "zero"))
    for index, row in enumerate(rows):
        y = ROW * index + ROW / 2
        parts.append(_name(row.name, y))
        if row.spread is not None:
            band = Markup('<rect class="band" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"/>')
            parts.append(band.format(at(-row.spread), y - ROW / 2 + 3, at(row.spread) - at(-row.spread), ROW - 6))
        if row.low is not None and row.high is not None:
            parts.append(_line(at(row.low), y, at(row.high), y, "span"))
        parts.append(Markup('<circle class="point" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(at(row.value), y))
    return _svg(NAME_WIDTH + PLOT_WIDTH + 20, ROW * len(rows) + 22, parts)


def bars(rows: Sequence[Bar]) -> Markup:
    """Return a chart with a bar for each row; the full width is 1."""
    parts = []
    for index, row in enumerate(rows):
        y = ROW * index
        width = PLOT_WIDTH * row.share
        parts.append(_name(row.name, y + ROW / 2))
        bar = Markup('<rect class="bar" x="{}" y="{:.1f}" width="{:.1f}" height="{}"/>')
        parts.append(bar.format(NAME_WIDTH, y + 4, width, ROW - 8))
        parts.append(_text(NAME_WIDTH + width + 6, y + ROW / 2 + 4, row.shown, "start"))
    return _svg(NAME_WIDTH + PLOT_WIDTH + 50, ROW * len(rows), parts)


def heatmap(names: Sequence[str], cells: Sequence[Sequence[tuple[float, str] | None]]) -> Markup:
    """Return a table of coloured cells: each a share from 0 to 1 and its text; None is left blank.

    Rows have names; columns have the numbers of the rows.
    """
    parts = [_text(NAME_WIDTH + CELL * (index + 0.5), 12, str(index + 1), "middle") for index in range(len(names))]
    for row, name in enumerate(names):
        y = 18 + ROW * row
        parts.append(_name(f"{row + 1} {name}", y + ROW / 2))
        for column, cell in enumerate(cells[row]):
            if cell is None:
                continue
            box = Markup('<rect class="cell" x="{}" y="{}" width="{}" height="{}" fill-opacity="{:.2f}"/>')
            x = NAME_WIDTH + CELL * column
            parts.append(box.format(x + 1, y + 1, CELL - 2, ROW - 2, 0.08 + 0.5 * cell[0]))
            parts.append(_text(x + CELL / 2, y + ROW / 2 + 4, cell[1], "middle"))
    return _svg(NAME_WIDTH + CELL * len(names) + 10, 24 + ROW * len(names), parts)


def _svg(width: float, height: float, parts: Sequence[Markup]) -> Markup:
    start = Markup('<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}" aria-hidden="true">')
    return start.format(width, height, width, height) + Markup().join(parts) + Markup("</svg>")


def _name(name: str, y: float) -> Markup:
    shown = printable(name)
    cut = shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"
    return _text(NAME_WIDTH - 8, y + 4, cut, "end")


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    made = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    return made.format(x, y, anchor, escape(text))


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    made = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
    return made.format(kind, x1, y1, x2, y2)


def _ticks(low: float, high: float) -> list[float]:
    """Return at most eight round values between two ends."""
    step = next(
        step for power in range(7) for step in (10**power, 2 * 10**power, 5 * 10**power) if (high - low) / step <= 7
    )
    first = int(low // step) + 1
    return [float(step * number) for number in range(first, int(high // step) + 1)]
