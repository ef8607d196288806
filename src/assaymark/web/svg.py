"""Charts as SVG in the page: no script, colours by class, text escaped. The numbers stand in a table beside them.

Axes of plots: where values lie between two ends, and round ticks with their texts.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from assaymark.results.plain_text import printable

__all__ = [
    "Axis",
    "Bar",
    "PlottedValue",
    "bars",
    "date_axis",
    "drawing",
    "heatmap",
    "line_between",
    "log_axis",
    "number_axis",
    "spans",
    "text_at",
    "time_axis",
]


MOST_TICKS, MOST_LOG_TICKS = 7, 10
MARGIN = 0.04  # of an axis's length, free at both ends
LARGEST = 1e300  # the difference of two larger numbers may be infinite
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 360)
HOUR, DAY = 3600, 86_400  # seconds
TIMES = (HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high`, in the units of its scale (days, logarithms)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]  # position in [0, 1], text
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return where a value lies, in [0, 1]."""
        return ((math.log10(value) if self.is_log else value) - self.low) / (self.high - self.low)

    def all_at(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return where values lie, in [0, 1]. Shapes: [values], both."""
        return np.asarray(((np.log10(values) if self.is_log else values) - self.low) / (self.high - self.low))


def number_axis(values: Iterable[float], text_of: Callable[[float], str]) -> Axis:
    """Return an axis of numbers, whose ticks are 1, 2 or 5 times a power of ten apart."""
    numbers = list(values)
    low, high = _ends(numbers, abs(numbers[0]) * MARGIN or 1.0)
    step = 10.0 ** math.floor(math.log10((high - low) / MOST_TICKS))
    step = next(step * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (step * factor) <= MOST_TICKS)
    ticks = [round(number * step, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return _axis(low, high, [(tick, text_of(tick)) for tick in ticks])


def log_axis(values: Iterable[float], unit: str = "") -> Axis:
    """Return a logarithmic axis of positive numbers with ticks at 1, 2 and 5 times powers of ten, or at the powers."""
    low, high = _ends([math.log10(value) for value in values], MARGIN)
    powers = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1, 2, 5), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low <= math.log10(tick) <= high]
        if len(inside) <= MOST_LOG_TICKS:
            break
    return _axis(low, high, [(math.log10(tick), f"{tick:g}{unit}") for tick in inside], is_log=True)


def date_axis(days: Iterable[date]) -> Axis:
    """Return an axis of days with ticks at the first day of months. Values: days as `date.toordinal` counts them."""
    low, high = _ends([float(day.toordinal()) for day in days], 31.0)
    first, last = (date.fromordinal(round(end)) for end in (low, high))
    n_months = 12 * (last.year - first.year) + last.month - first.month
    step = next((months for months in MONTHS if n_months / months <= MOST_TICKS), MONTHS[-1])
    beginning = 12 * first.year + first.month - 1
    starts = [date(month // 12, month % 12 + 1, 1) for month in range(beginning, beginning + n_months + 1)
              if month % step == 0]  # fmt: skip
    return _axis(low, high, [(start.toordinal(), f"{start:%b %Y}") for start in starts if low <= start.toordinal()])


def time_axis(moments: Iterable[float]) -> Axis:
    """Return an axis of times with ticks at whole hours or days, UTC. Values: seconds since 1970."""
    low, high = _ends(list(moments), float(DAY))
    step = next((step for step in TIMES if (high - low) / step <= MOST_TICKS), TIMES[-1])
    ticks = [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    texts = [f"{datetime.fromtimestamp(tick, UTC):{'%H:%M' if tick % DAY else '%d %b'}}" for tick in ticks]
    return _axis(low, high, zip(ticks, texts, strict=True))


def _ends(values: list[float], alone: float) -> tuple[float, float]:
    """Return the ends of an axis; `alone` is the room on both sides where all values are equal."""
    low, high = min(values), max(values)
    room = (high - low) * MARGIN or alone
    return max(low - room, -LARGEST), min(high + room, LARGEST)


def _axis(low: float, high: float, ticks: Iterable[tuple[float, str]], *, is_log: bool = False) -> Axis:
    return Axis(low, high, tuple(((tick - low) / (high - low), text) for tick, text in ticks), is_log)


NAME_WIDTH = 190
PLOT_WIDTH = 380
ROW = 22
CELL, WIDE_CELL = 40, 62
LONGEST_VALUE = 5  # characters in a narrow cell
LONGEST_NAME = 28  # characters
WIDE_NAMES, WIDEST_NAME = 310, 44  # of a heat map with longer names: pixels, characters
LONGEST_LEVEL = 6  # characters of a title that fits above a cell without a slope
LETTER = 5  # pixels that each letter of a slanted title takes above and beside the map


@dataclass(frozen=True, slots=True)
class PlottedValue:
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
    text: str


def spans(rows: Sequence[PlottedValue]) -> Markup:
    """Return a chart with a point and a line for each row, and ticks below; differences have a line at zero."""
    bands = [end for row in rows if row.spread is not None for end in (-row.spread, row.spread)]
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    axis = number_axis([*bands, *ends], lambda tick: f"{tick:+,g}" if bands and tick else f"{tick:,g}")

    def at(value: float) -> float:
        return NAME_WIDTH + PLOT_WIDTH * axis.at(value)

    parts = []
    for place, text in axis.ticks:
        x = NAME_WIDTH + PLOT_WIDTH * place
        parts.append(line_between(x, 0, x, ROW * len(rows), "grid"))
        parts.append(text_at(x, ROW * len(rows) + 15, text, "middle"))
    if bands:
        parts.append(line_between(at(0.0), 0, at(0.0), ROW * len(rows), "zero"))
    for index, row in enumerate(rows):
        y = ROW * index + ROW / 2
        parts.append(_name(row.name, y))
        if row.spread is not None:
            band = Markup('<rect class="band" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"/>')
            parts.append(band.format(at(-row.spread), y - ROW / 2 + 3, at(row.spread) - at(-row.spread), ROW - 6))
        if row.low is not None and row.high is not None:
            parts.append(line_between(at(row.low), y, at(row.high), y, "span"))
        parts.append(Markup('<circle class="point" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(at(row.value), y))
    return drawing(NAME_WIDTH + PLOT_WIDTH + 20, ROW * len(rows) + 22, parts)


def bars(rows: Sequence[Bar]) -> Markup:
    """Return a chart with a bar for each row; the full width is 1."""
    parts = []
    for index, row in enumerate(rows):
        y = ROW * index
        width = PLOT_WIDTH * row.share
        parts.append(_name(row.name, y + ROW / 2))
        bar = Markup('<rect class="bar" x="{}" y="{:.1f}" width="{:.1f}" height="{}"/>')
        parts.append(bar.format(NAME_WIDTH, y + 4, width, ROW - 8))
        parts.append(text_at(NAME_WIDTH + width + 6, y + ROW / 2 + 4, row.text, "start"))
    return drawing(NAME_WIDTH + PLOT_WIDTH + 50, ROW * len(rows), parts)


def heatmap(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[tuple[float, str] | None]], label: str = ""
) -> Markup:
    """Return a table of coloured cells: each a share from 0 to 1 and its text; None is left blank.

    Long titles of columns are slanted. label: text for screen readers.
    """
    is_slanted = any(len(title) > LONGEST_LEVEL for title in columns)
    left = NAME_WIDTH if all(len(name) <= LONGEST_NAME for name in rows) else WIDE_NAMES
    wide = WIDE_CELL if columns and any(len(cell[1]) > LONGEST_VALUE for row in cells for cell in row if cell) else CELL
    slope = LETTER * min(LONGEST_NAME, max(map(len, columns))) if is_slanted else 0
    top = 18 + slope
    parts = [_title(title, left + wide * (place + 0.5), top, is_slanted=is_slanted)
             for place, title in enumerate(columns)]  # fmt: skip
    for row, name in enumerate(rows):
        y = top + ROW * row
        parts.append(_name(name, y + ROW / 2, left))
        for column, cell in enumerate(cells[row]):
            if cell is None:
                continue
            box = Markup('<rect class="cell" x="{}" y="{}" width="{}" height="{}" fill-opacity="{:.2f}"/>')
            x = left + wide * column
            parts.append(box.format(x + 1, y + 1, wide - 2, ROW - 2, 0.08 + 0.5 * cell[0]))
            parts.append(text_at(x + wide / 2, y + ROW / 2 + 4, cell[1], "middle"))
    return drawing(left + wide * len(columns) + 10 + slope, top + ROW * len(rows) + 6, parts, label)


def _title(title: str, x: float, y: float, *, is_slanted: bool) -> Markup:
    if not is_slanted:
        return text_at(x, y - 6, title, "middle")
    made = Markup(
        '<text x="{0:.1f}" y="{1:.1f}" text-anchor="start" transform="rotate(-40 {0:.1f} {1:.1f})">{2}</text>'
    )
    return made.format(x - 4, y - 4, escape(_cut(title, LONGEST_NAME)))


def drawing(width: float, height: float, parts: Sequence[Markup], label: str = "", role: str = "img") -> Markup:
    """Return an SVG element of its parts; without a label screen readers skip it. role: group where it has links."""
    named = Markup('aria-hidden="true"')
    if label:
        named = Markup('role="{}" aria-label="{}"').format(role, printable(label))
    start = Markup('<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}" {}>')
    return start.format(width, height, width, height, named) + Markup().join(parts) + Markup("</svg>")


def _name(name: str, y: float, left: float = NAME_WIDTH) -> Markup:
    return text_at(left - 8, y + 4, _cut(name, LONGEST_NAME if left == NAME_WIDTH else WIDEST_NAME), "end")


def _cut(name: str, longest: int) -> str:
    text = printable(name)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def text_at(x: float, y: float, text: str, anchor: str) -> Markup:
    """Return a text, escaped. anchor: start, middle or end."""
    made = Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    return made.format(x, y, anchor, escape(printable(text)))


def line_between(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a line of a class."""
    made = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
    return made.format(kind, x1, y1, x2, y2)
