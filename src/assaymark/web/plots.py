"""Plots with axes as SVG in the page: bars, steps over time, scores against size or speed, values of checkpoints.

Colours are classes of the style sheet. A drawing has a text for screen readers; a table beside it has its numbers.
Named points are links for the pointer; the table serves the keyboard. `plots.js` shows the name of the nearest point.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from assaymark.documents.plain_text import printable
from assaymark.web.svg import (
    LARGER,
    LETTER_WIDTH,
    NARROW_WIDTH,
    WIDE,
    Axis,
    Layout,
    date_axis,
    drawing,
    line_between,
    log_axis,
    number_axis,
    text_at,
    tick_text,
    time_axis,
)

LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 44
LARGE_LETTER = LARGER * LETTER_WIDTH
TICKS = 26  # pixels below a plot whose axes have no titles
WIDTH, HEIGHT = 1120, 380  # of the plot, pixels; the page scales it to its own width
FULL_WIDTH = LEFT + WIDTH + RIGHT  # of a drawing that fills its card, pixels
WIDEST = 10_000  # pixels, more than any plot has
FINE = 2  # pixels between the smallest dots, which are wider than this
SERIES_WIDTH, SERIES_HEIGHT = 420, 200
RADIUS = 4.5  # of a point that is a link, pixels
HISTORY_HEIGHT = 220
NARROW_HEIGHT = 220  # of the plot, pixels
MOST_SERIES = 6  # told apart by colours and dashes of the style sheet
NARROW_BAR_ROW, NARROW_BAR_VALUES = 40, 48  # the name is above the bar
BAR_ROW, BAR_NAMES, BAR_VALUES = 24, 400, 90  # height of a row, most room for its name, for its value, pixels


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A value with its interval, at a position: a day's ordinal, a measure of the model, or a step."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None
    title: str = ""  # what a pointer on it is told
    href: str = ""


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """Values over time of one thing, such as a version. Points: by their x, seconds since 1970."""

    name: str
    points: tuple[PlotPoint, ...]


@dataclass(frozen=True, slots=True)
class PlotEvent:
    """Something that happened at a time, in seconds since 1970: a line from top to bottom that is a link."""

    x: float
    title: str
    href: str


@dataclass(frozen=True, slots=True)
class LinkedBar:
    """A value with its interval and the name of its row."""

    name: str
    value: float
    low: float | None
    high: float | None
    text: str  # the value as it is written beside the bar
    title: str  # what a pointer on it is told
    href: str = ""


class _Plot:
    """A drawing with two axes and their titles, to which marks are added."""

    def __init__(
        self, x: Axis, y: Axis, layout: Layout, size: tuple[int, int], titles: tuple[str, str] = ("", "")
    ) -> None:
        """Args: size: width and height of the plot in a wide window, pixels; titles: of the axes."""
        self.x, self.y, self.layout = x, y, layout
        self.left = left = max(LEFT, math.ceil(LARGE_LETTER * max((len(text) for _, text in y.ticks), default=0)))
        self.height = height = NARROW_HEIGHT if layout.is_narrow else size[1]
        self.width = width = (NARROW_WIDTH if layout.is_narrow else LEFT + size[0] + RIGHT) - left - RIGHT
        self.parts: list[Markup] = []
        self.role = "img"
        self.bottom = BOTTOM if any(titles) else TICKS
        for place, text in y.ticks:
            level = TOP + height * (1 - place)
            self.parts.append(line_between(left, level, left + width, level, "grid"))
            self.parts.append(text_at(left - 6, level + 4, text, "end"))
        for place, text in x.ticks:
            at = left + width * place
            self.parts.append(line_between(at, TOP + height, at, TOP + height + 4, "grid"))
            self.parts.append(tick_text(at, TOP + height + 18, text, left + width + RIGHT))
        if any(titles):
            self.parts.append(text_at(left + width, TOP + height + 37, titles[0], "end"))
            self.parts.append(text_at(2, 17, titles[1], "start"))

    def at(self, x: float, value: float) -> tuple[float, float]:
        """Return the pixel of a point."""
        return self.left + self.width * self.x.at(x), TOP + self.height * (1 - self.y.at(value))

    def path(self, points: Sequence[tuple[float, float]], kind: str, *, steps: bool = False) -> None:
        """Add a line through pixels; with `steps`, horizontal up to the next one."""
        (x0, y0), *rest = points
        drawn = [f"M{x0:.1f} {y0:.1f}", *(f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}" for x, y in rest)]
        self.parts.append(Markup('<path class="{}" d="{}"/>').format(kind, "".join(drawn)))

    def dots(self, xs: npt.NDArray[np.float64], values: npt.NDArray[np.float64], kind: str, grid: int = 1) -> None:
        """Add a dot for each point, on a grid of pixels; equal ones are drawn once. Shapes: xs, values [points]."""
        x, y = self.left + self.width * self.x.all_at(xs), TOP + self.height * (1 - self.y.all_at(values))
        columns, rows = (np.rint(pixels / grid).astype(np.int64) for pixels in (x, y))
        places = np.unique(columns * WIDEST + rows).tolist()
        if places:
            drawn = "".join(f"M{grid * (place // WIDEST)} {grid * (place % WIDEST)}h0" for place in places)
            self.parts.append(Markup('<path class="{}" d="{}"/>').format(kind, drawn))

    def links(self, points: Sequence[PlotPoint], kind: str, beside: Sequence[float] = ()) -> None:
        """Add a link with a title for each point; `beside`: how far to the right of its place each is drawn, pixels."""
        self.role = "group" if points else self.role
        for number, point in enumerate(points):  # written plainly where nothing needs escaping, as in `line_between`
            x, y = self.at(point.x, point.value)
            x += beside[number] if beside else 0.0
            title = escape(printable(point.title))
            mark = (
                f'<circle class="{escape(kind)}" cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}"><title>{title}</title></circle>'
            )
            self.parts.append(Markup(f'<a href="{escape(point.href)}" tabindex="-1">{mark}</a>'))  # noqa: S704

    def best_dots(self, points: Sequence[PlotPoint]) -> None:
        """Add a large dot for each point."""
        self.dots(np.array([point.x for point in points]), np.array([point.value for point in points]), "dots best")

    def svg(self, label: str) -> Markup:
        """Return the drawing."""
        width, height = self.left + self.width + RIGHT, TOP + self.height + self.bottom
        return drawing(width, height, self.parts, label, self.role, layout=self.layout)


def time_plot(points: Sequence[PlotPoint], end: float, label: str, *, layout: Layout = WIDE) -> Markup:
    """Return the best score over time: a step for each new best one, its interval as a line.

    Args:
        points: by day; values are shares.
        end: the day that the last step reaches.
        label: text for screen readers.
        layout: for which windows.
    """
    days = [date.fromordinal(round(day)) for day in (*(point.x for point in points), end)]
    x, y = date_axis(days, layout.most_ticks), number_axis(_heights(points), _per_cent)
    plot = _Plot(x, y, layout, (WIDTH, HEIGHT), ("Date", "Average"))
    steps = [plot.at(point.x, point.value) for point in points]
    plot.path([*steps, plot.at(end, points[-1].value)], "steps", steps=True)
    for point in points:
        if point.low is not None and point.high is not None:
            plot.parts.append(line_between(*plot.at(point.x, point.low), *plot.at(point.x, point.high), "span"))
    plot.best_dots([point for point in points if not point.href])
    plot.links([point for point in points if point.href], "mark best")
    return plot.svg(label)


def bar_plot(rows: Sequence[LinkedBar], column: str, label: str, *, is_share: bool, layout: Layout = WIDE) -> Markup:
    """Return a bar from zero for each row, its interval as a line across the end.

    Args:
        rows: from the top, at least one.
        column: title of the axis.
        label: text for screen readers.
        is_share: whether values are shares in [0, 1], shown as per cent.
        layout: for which windows; in a narrow one names stand above their bars.
    """
    row_height = NARROW_BAR_ROW if layout.is_narrow else BAR_ROW
    width, height = NARROW_WIDTH if layout.is_narrow else FULL_WIDTH, row_height * len(rows)
    names = min(BAR_NAMES, LARGE_LETTER * max(len(row.name) for row in rows) + 16)
    left = 8 if layout.is_narrow else names
    room = width - left - (NARROW_BAR_VALUES if layout.is_narrow else BAR_VALUES)
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    axis = number_axis([0.0, *ends], _per_cent if is_share else "{:g}".format, layout.most_ticks)

    def at(value: float) -> float:
        return left + room * axis.at(value)

    parts = []
    for place, text in axis.ticks:
        x = left + room * place
        parts.append(line_between(x, 0, x, height + 4, "grid"))
        parts.append(tick_text(x, height + 18, text, width))
    for index, row in enumerate(rows):
        if layout.is_narrow:
            name = text_at(2, row_height * index + 14, row.name, "start")
            parts.append(_bar(row, name, row_height * index + row_height - BAR_ROW, at))
        else:
            name = text_at(names - 8, BAR_ROW * index + BAR_ROW / 2 + 4, row.name, "end")
            parts.append(_bar(row, name, BAR_ROW * index, at))
    parts.append(text_at(width - RIGHT, height + 37, column, "end"))
    role = "group" if any(row.href for row in rows) else "img"
    return drawing(width, height + BOTTOM, parts, label, role, layout=layout)


def _bar(row: LinkedBar, name: Markup, y: float, at: Callable[[float], float]) -> Markup:
    """Return a bar with its name, from the level `y` on."""
    begin, end = sorted((at(0.0), at(row.value)))
    rectangle = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"/>')
    parts = [name, rectangle.format("mark best" if row.href else "mark", begin, y + 4, end - begin, BAR_ROW - 8)]
    reach = end
    if row.low is not None and row.high is not None:
        parts.append(line_between(at(row.low), y + BAR_ROW / 2, at(row.high), y + BAR_ROW / 2, "whisker"))
        reach = max(end, at(row.high))
    parts.append(text_at(reach + 8, y + BAR_ROW / 2 + 4, row.text, "start"))
    inner = Markup("<title>{}</title>").format(printable(row.title)) + Markup().join(parts)
    if not row.href:
        return Markup("<g>{}</g>").format(inner)
    return Markup('<a href="{}" tabindex="-1">{}</a>').format(row.href, inner)


def front_plot(
    measures: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    is_on_front: npt.NDArray[np.bool_],
    label: str,
    links: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    *,
    title: str = "",
    unit: str = "",
    layout: Layout = WIDE,
) -> Markup:
    """Return scores (shares) against a positive measure on a logarithmic axis, the Pareto front as a line.

    Args:
        measures: the best first: ascending where less is better. Shapes: this and the next two [models], at least one.
        values: the scores.
        is_on_front: whether no model before it scores as much.
        label: text for screen readers.
        links: title and address of models, by their position.
        title: of the measure's axis.
        unit: behind the measure's numbers.
        layout: for which windows.
    """
    y = number_axis([float(values.min()), float(values.max())], _per_cent)
    x = log_axis([float(measures.min()), float(measures.max())], unit, layout.most_log_ticks)
    plot = _Plot(x, y, layout, (WIDTH, HEIGHT), (title, "Average"))
    is_named = np.isin(np.arange(len(measures)), list(links))
    plain = ~is_on_front & ~is_named
    plot.dots(measures[plain], values[plain], "dots", FINE)
    front = [PlotPoint(x, value) for x, value in zip(measures[is_on_front], values[is_on_front], strict=True)]
    plot.path([plot.at(point.x, point.value) for point in front], "steps", steps=True)
    if not is_named[is_on_front].all():
        plot.best_dots(front)
    for kind, of_kind in (("mark", ~is_on_front), ("mark best", is_on_front)):
        chosen = np.flatnonzero(is_named & of_kind).tolist()
        named = [PlotPoint(float(measures[at]), float(values[at]), None, None, *links[at]) for at in chosen]
        plot.links(named, kind)
    return plot.svg(label)


def series_plot(points: Sequence[PlotPoint], label: str, *, is_share: bool, layout: Layout = WIDE) -> Markup:
    """Return values against the step, with their intervals as a band."""
    x = number_axis([point.x for point in points], "{:,.0f}".format, layout.most_ticks)
    y = number_axis(_heights(points), _per_cent if is_share else "{:g}".format)
    plot = _Plot(x, y, layout, (SERIES_WIDTH, SERIES_HEIGHT), ("Step", ""))
    known = [(point.x, point.low, point.high) for point in points if point.low is not None and point.high is not None]
    if known:
        around = [(step, low) for step, low, _ in known] + [(step, high) for step, _, high in reversed(known)]
        plot.path([plot.at(step, value) for step, value in around], "area")
    plot.path([plot.at(point.x, point.value) for point in points], "steps")
    plot.best_dots([point for point in points if not point.href])
    plot.links([point for point in points if point.href], "mark best")
    return plot.svg(label)


def history_plot(
    series: Sequence[PlotSeries],
    label: str,
    shown: Callable[[float], str],
    events: Sequence[PlotEvent] = (),
    *,
    reach: tuple[Sequence[float], Sequence[float]] = ((), ()),
    width: int = WIDTH,
    has_bands: bool = True,
    layout: Layout = WIDE,
) -> Markup:
    """Return values over time with their intervals as bands, a line for each series, and events as upright lines.

    Args:
        series: at most `MOST_SERIES`, with at least one point together; the place of each decides its colour.
        label: text for screen readers.
        shown: a value as the axis shows it.
        events: at times that the axis is extended to.
        reach: times and values that the axes are extended to.
        width: of the plot in a wide window, pixels.
        has_bands: whether intervals are drawn.
        layout: for which windows.
    """
    points = [point for each in series for point in each.points]
    x = time_axis([*(point.x for point in points), *(event.x for event in events), *reach[0]], layout.most_ticks)
    heights = _heights(points) if has_bands else [point.value for point in points]
    plot = _Plot(x, number_axis([*heights, *reach[1]], shown), layout, (width, HISTORY_HEIGHT))
    drawn = [(at, each) for at, each in enumerate(series) if each.points]
    beside = _beside(plot, [each for _, each in drawn])
    for (at, each), shifts in zip(drawn, beside, strict=True):
        known = [(point.x, point.low, point.high) for point in each.points
                 if has_bands and point.low is not None and point.high is not None]  # fmt: skip
        if len(known) > 1:
            around = [(when, low) for when, low, _ in known] + [(when, high) for when, _, high in reversed(known)]
            plot.path([plot.at(when, value) for when, value in around], f"series-band s{at}")
        places = []
        for point, shift in zip(each.points, shifts, strict=True):
            across, level = plot.at(point.x, point.value)
            places.append((across + shift, level))
            if has_bands and point.low is not None and point.high is not None:
                low, high = plot.at(point.x, point.low)[1], plot.at(point.x, point.high)[1]
                plot.parts.append(line_between(across + shift, low, across + shift, high, f"series-span s{at}"))
        plot.path(places, f"series s{at}")
    link = Markup('<a href="{}" tabindex="-1"><path class="alarm" d="M{:.1f} {}V{}"/><title>{}</title></a>')
    for event in events:
        when = plot.left + plot.width * x.at(event.x)
        plot.parts.append(link.format(event.href, when, TOP, TOP + plot.height, printable(event.title)))
    for (at, each), shifts in zip(drawn, beside, strict=True):
        plot.links(each.points, f"mark series-mark s{at}", shifts)
    return plot.svg(label)


def _beside(plot: _Plot, series: Sequence[PlotSeries]) -> list[list[float]]:
    """Return how far to the right each point is drawn, in pixels, so that no two of one time hide each other."""
    shifts = [[0.0] * len(each.points) for each in series]
    at_once: dict[float, list[tuple[float, int, int]]] = {}
    for number, each in enumerate(series):
        for place, point in enumerate(each.points):
            at_once.setdefault(point.x, []).append((plot.at(point.x, point.value)[1], number, place))
    for points in at_once.values():
        near: list[tuple[float, int, int]] = []
        for each_point in [*sorted(points), (math.inf, 0, 0)]:
            if near and each_point[0] - near[-1][0] >= 2 * RADIUS:  # each group is drawn side by side, by its series
                for nth, (_, number, place) in enumerate(sorted(near, key=lambda one: one[1])):
                    shifts[number][place] = (2 * RADIUS + 1) * (nth - (len(near) - 1) / 2)
                near = []
            near.append(each_point)
    return shifts


def _heights(points: Sequence[PlotPoint]) -> list[float]:
    return [end for point in points for end in (point.value, point.low, point.high) if end is not None]


def _per_cent(value: float) -> str:
    return f"{100 * value:.4g}%"
