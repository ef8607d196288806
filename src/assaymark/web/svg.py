"""SVG charts for pages: no script, colours by class, text escaped. A table beside each chart has its numbers.

Each chart is drawn for wide and for narrow windows (`on_screens`); the style sheet shows the one that fits. A narrow
chart is 340 pixels wide, so that its text is legible at 320: names are above their bars, and axes have fewer ticks.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from assaymark.documents.plain_text import printable
from assaymark.errors import clipped

MOST_TICKS, MOST_LOG_TICKS = 7, 10
MARGIN = 0.04  # of an axis's length, free at both ends
LARGEST = 1e300  # the difference of two larger numbers may be infinite
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 360)
MINUTE, HOUR, DAY = 60, 3600, 86_400  # seconds
TIMES = (
    *(n * MINUTE for n in (1, 2, 5, 10, 20, 30)),
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    91 * DAY,
)


NARROW_WIDTH = 340  # of every narrow drawing, pixels
LARGER = 16 / 12  # letters of drawings that fill their card, in windows below 1,000 pixels, where the drawing shrinks
LETTER_WIDTH = 7.2  # pixels; about the largest mean width of a text's letters


@dataclass(frozen=True, slots=True)
class Layout:
    """How a chart uses the width of a window."""

    is_narrow: bool
    most_ticks: int  # of an axis from left to right
    most_log_ticks: int


WIDE = Layout(False, MOST_TICKS, MOST_LOG_TICKS)
NARROW = Layout(True, 4, 6)


def on_screens(draw: Callable[..., Markup]) -> Markup:
    """Return a chart for wide and for narrow windows, one after the other; a window shows one of them.

    draw: with the keyword `layout`.
    """
    return draw(layout=WIDE) + draw(layout=NARROW)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high`, in the units of its scale (days, logarithms)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]  # position in [0, 1], text
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the position of a value, in [0, 1]."""
        return ((math.log10(value) if self.is_log else value) - self.low) / (self.high - self.low)

    def all_at(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the positions of values, in [0, 1]. Shapes: [values], both."""
        return np.asarray(((np.log10(values) if self.is_log else values) - self.low) / (self.high - self.low))


def number_axis(values: Iterable[float], text_of: Callable[[float], str], most: int = MOST_TICKS) -> Axis:
    """Return an axis of numbers, whose ticks are 1, 2 or 5 times a power of ten apart."""
    numbers = list(values)
    low, high = _ends(numbers, abs(numbers[0]) * MARGIN or 1.0)
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step * factor for factor in (1, 2, 5, 10, 20) if (high - low) / (step * factor) <= most)
    ticks = [round(number * step, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return _axis(low, high, [(tick, text_of(tick)) for tick in ticks])


def log_axis(values: Iterable[float], unit: str = "", most: int = MOST_LOG_TICKS) -> Axis:
    """Return a logarithmic axis of positive numbers with ticks at 1, 2 and 5 times powers of ten, or at the powers."""
    low, high = _ends([math.log10(value) for value in values], MARGIN)
    powers = range(math.floor(low), math.ceil(high) + 1)
    for factors in ((1, 2, 5), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low <= math.log10(tick) <= high]
        if len(inside) <= most:
            break
    return _axis(low, high, [(math.log10(tick), f"{tick:g}{unit}") for tick in inside], is_log=True)


def date_axis(days: Iterable[date], most: int = MOST_TICKS) -> Axis:
    """Return an axis of days with ticks at the first day of months. Values: days as `date.toordinal` counts them."""
    low, high = _ends([float(day.toordinal()) for day in days], 31.0)
    first, last = (date.fromordinal(round(end)) for end in (low, high))
    n_months = 12 * (last.year - first.year) + last.month - first.month
    step = next((months for months in MONTHS if n_months / months <= most), MONTHS[-1])
    beginning = 12 * first.year + first.month - 1
    starts = [date(month // 12, month % 12 + 1, 1) for month in range(beginning, beginning + n_months + 1)
              if month % step == 0]  # fmt: skip
    return _axis(low, high, [(start.toordinal(), f"{start:%b %Y}") for start in starts if low <= start.toordinal()])


def time_axis(moments: Iterable[float], most: int = MOST_TICKS) -> Axis:
    """Return an axis of times with ticks at whole minutes, hours or days, UTC. Values: seconds since 1970."""
    low, high = _ends(list(moments), float(DAY))
    step = next((step for step in TIMES if (high - low) / step <= most), TIMES[-1])
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


NAME_WIDTH = 218  # of names that are not longer than `LONGEST_NAME`, pixels
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
    title: str = ""  # shown when the pointer is on its point
    href: str = ""
    mark: str = ""  # a class of the style sheet, such as "up" for what is better


@dataclass(frozen=True, slots=True)
class Bar:
    """A share from 0 to 1."""

    name: str
    share: float
    text: str
    title: str = ""  # what a pointer on it is told
    href: str = ""


def spans(
    rows: Sequence[PlottedValue], label: str = "", *, are_differences: bool = False, layout: Layout = WIDE
) -> Markup:
    """Return a chart with a point and a line for each row, and ticks below; differences have a line at zero.

    label: text for screen readers.
    """
    left, room, height, line = _rows_of(rows, layout)
    bands = [end for row in rows if row.spread is not None for end in (-row.spread, row.spread)]
    zero = [0.0] if are_differences or bands else []
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    axis = number_axis([*zero, *bands, *ends], lambda tick: f"{tick:+,g}" if zero and tick else f"{tick:,g}",
                       layout.most_ticks)  # fmt: skip

    def at(value: float) -> float:
        return left + room * axis.at(value)

    width = left + room + 20 if not layout.is_narrow else NARROW_WIDTH
    parts = []
    for place, text in axis.ticks:
        x = left + room * place
        parts.append(line_between(x, 0, x, height * len(rows), "grid"))
        parts.append(tick_text(x, height * len(rows) + 15, text, width))
    if zero:
        parts.append(line_between(at(0.0), 0, at(0.0), height * len(rows), "zero"))
    for index, row in enumerate(rows):
        y = height * index + line
        parts.append(_name(row.name, y, left, layout))
        if row.spread is not None:
            band = Markup('<rect class="band" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"/>')
            parts.append(band.format(at(-row.spread), y - ROW / 2 + 3, at(row.spread) - at(-row.spread), ROW - 6))
        if row.low is not None and row.high is not None:
            parts.append(line_between(at(row.low), y, at(row.high), y, f"span {row.mark}".strip()))
        kind = f"point mark best {row.mark}".strip()
        point = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4.5"/>').format(kind, at(row.value), y)
        parts.append(_linked(point, row.title, row.href))
    return drawing(width, height * len(rows) + 22, parts, label, _role(rows), layout=layout)


def bars(rows: Sequence[Bar], label: str = "", *, layout: Layout = WIDE) -> Markup:
    """Return a chart with a bar for each row; the full width is 1. label: text for screen readers."""
    left, room, height, line = _rows_of(rows, layout)
    room = room if not layout.is_narrow else room - 50  # for the text behind a full bar
    parts = []
    for index, row in enumerate(rows):
        y = height * index + line
        width = room * row.share
        parts.append(_name(row.name, y, left, layout))
        bar = Markup('<rect class="bar mark best" x="{}" y="{:.1f}" width="{:.1f}" height="{}"/>')
        parts.append(_linked(bar.format(left, y - ROW / 2 + 4, width, ROW - 8), row.title, row.href))
        parts.append(text_at(left + width + 6, y + 4, row.text, "start"))
    return drawing(left + room + 50, height * len(rows), parts, label, _role(rows), layout=layout)


def _rows_of(rows: Sequence[PlottedValue] | Sequence[Bar], layout: Layout) -> tuple[float, float, float, float]:
    """Return start and width of the area of bars, the height of a row, and the position of bars within it."""
    if layout.is_narrow:
        return 6, NARROW_WIDTH - 20, ROW + 18, ROW / 2 + 16
    return _room_of([row.name for row in rows], NAME_WIDTH), PLOT_WIDTH, ROW, ROW / 2


def _room_of(names: Sequence[str], most: float) -> float:
    """Return the width of a column of names, in pixels."""
    return min(most, LETTER_WIDTH * max(map(len, names), default=0) + 16)


def _role(rows: Sequence[PlottedValue] | Sequence[Bar]) -> str:
    return "group" if any(row.href for row in rows) else "img"


def _linked(mark: Markup, title: str, href: str) -> Markup:
    """Return a bar or point as a link with a title, unchanged without an address. The table serves the keyboard."""
    if not href:
        return mark
    template = Markup('<a href="{}" tabindex="-1"><title>{}</title>{}</a>')
    return template.format(href, printable(title), mark)


HeatCell = tuple[float | None, str]


def heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[HeatCell | None]],
    label: str = "",
    *,
    layout: Layout = WIDE,
    fills: float = 0,
) -> Markup:
    """Return a table of coloured cells: each a share from 0 to 1, None for no colour, and its text; None is left blank.

    Long titles of columns are slanted. A narrow map has its columns in groups, one below the other, and names above
    cells. label: text for screen readers. fills: the least width of a wide map, in pixels.
    """
    if layout.is_narrow:
        return _narrow_heatmap(rows, columns, cells, label)
    is_slanted = any(len(title) > LONGEST_LEVEL for title in columns)
    larger = LARGER if fills else 1.0
    left = larger * _room_of(rows, NAME_WIDTH if all(len(name) <= LONGEST_NAME for name in rows) else WIDE_NAMES)
    least = (
        WIDE_CELL if columns and any(len(cell[1]) > LONGEST_VALUE for row in cells for cell in row if cell) else CELL
    )
    slope = larger * LETTER * min(LONGEST_NAME, max(map(len, columns))) if is_slanted else 0
    wide = max(least, (fills - left - slope - 10) / max(len(columns), 1))
    top = 18 * larger + slope
    parts = [_title(title, left + wide * (place + 0.5), top, is_slanted=is_slanted)
             for place, title in enumerate(columns)]  # fmt: skip
    for row, name in enumerate(rows):
        y = top + ROW * row
        parts.append(_name(name, y + ROW / 2, left))
        for column, cell in enumerate(cells[row]):
            if cell is not None:
                parts += _cell(cell, left + wide * column, y, wide)
    return drawing(left + wide * len(columns) + 10 + slope, top + ROW * len(rows) + 6, parts, label)


def _cell(cell: HeatCell, x: float, y: float, width: float) -> list[Markup]:
    place = f'x="{x + 1:.0f}" y="{y + 1:.0f}" width="{width - 2:.0f}" height="{ROW - 2}"'
    opacity = 0.0 if cell[0] is None else 0.08 + 0.5 * cell[0]
    box = Markup(f'<rect class="cell" {place} fill-opacity="{opacity:.2f}"/>')  # noqa: S704 - numbers
    return [box, text_at(x + width / 2, y + ROW / 2 + 4, cell[1], "middle")]


def _narrow_heatmap(
    rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[HeatCell | None]], label: str
) -> Markup:
    """Return a heat map whose columns stand in groups that fit the width, with upright titles where they are long."""
    longest = max((len(cell[1]) for row in cells for cell in row if cell), default=0)
    wide = WIDE_CELL if longest > LONGEST_VALUE else CELL
    n_beside = (NARROW_WIDTH - 4) // wide
    parts: list[Markup] = []
    y = 0.0
    for first in range(0, len(columns), n_beside):
        titles = [_cut(title, LONGEST_NAME) for title in columns[first : first + n_beside]]
        is_upright = any(len(title) > LONGEST_LEVEL for title in titles)
        y += 10 + (LETTER_WIDTH * max(map(len, titles)) if is_upright else 14)
        for place, title in enumerate(titles):
            x = 2 + wide * (place + 0.5)
            if is_upright:
                template = Markup('<text x="{0:.1f}" y="{1:.1f}" transform="rotate(-90 {0:.1f} {1:.1f})">{2}</text>')
                parts.append(template.format(x + 4, y - 4, title))
            else:
                parts.append(text_at(x, y - 6, title, "middle"))
        for name, row in zip(rows, cells, strict=True):
            parts.append(text_at(2, y + 14, _cut(name, WIDEST_NAME), "start"))
            for place, cell in enumerate(row[first : first + n_beside]):
                if cell is not None:
                    parts += _cell(cell, 2 + wide * place, y + 18, wide)
            y += ROW + 18
    return drawing(NARROW_WIDTH, y + 6, parts, label, layout=NARROW)


def _title(title: str, x: float, y: float, *, is_slanted: bool) -> Markup:
    if not is_slanted:
        return text_at(x, y - 6, title, "middle")
    template = Markup(
        '<text x="{0:.1f}" y="{1:.1f}" text-anchor="start" transform="rotate(-40 {0:.1f} {1:.1f})">{2}</text>'
    )
    return template.format(x - 4, y - 4, escape(_cut(title, LONGEST_NAME)))


def drawing(
    width: float, height: float, parts: Sequence[Markup], label: str = "", role: str = "img", *, layout: Layout = WIDE
) -> Markup:
    """Return an SVG element of its parts; without a label screen readers skip it. role: group where it has links."""
    named = Markup('aria-hidden="true"')
    if label:
        named = Markup('role="{}" aria-label="{}"').format(role, printable(label))
    start = Markup('<svg class="chart{}" viewBox="0 0 {:.0f} {:.0f}" width="{:.0f}" height="{:.0f}" {}>')
    return (
        start.format(" narrow" if layout.is_narrow else "", width, height, width, height, named)
        + Markup().join(parts)
        + Markup("</svg>")
    )


def _name(name: str, y: float, left: float = NAME_WIDTH, layout: Layout = WIDE) -> Markup:
    if layout.is_narrow:
        return text_at(2, y - ROW / 2 - 2, _cut(name, WIDEST_NAME), "start")
    return text_at(left - 8, y + 4, _cut(name, LONGEST_NAME if left == NAME_WIDTH else WIDEST_NAME), "end")


def _cut(name: str, longest: int) -> str:
    return clipped(printable(name), longest)


def text_at(x: float, y: float, text: str, anchor: str) -> Markup:
    """Return a text, escaped. anchor: start, middle or end."""
    # numbers need no escaping, and `Markup.format` takes ten times as long: a page of charts has a thousand texts
    return Markup(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{escape(anchor)}">{escape(printable(text))}</text>')  # noqa: S704


def tick_text(x: float, y: float, text: str, width: float) -> Markup:
    """Return the text of a tick, centred below it unless it would extend beyond a drawing of this width."""
    half = LETTER_WIDTH * len(text) / 2
    return text_at(max(half, min(x, width - half)), y, text, "middle")


def line_between(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a line of a class."""
    # numbers need no escaping, and `Markup.format` takes ten times as long: a page of charts has a thousand lines
    return Markup(f'<line class="{escape(kind)}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')  # noqa: S704
