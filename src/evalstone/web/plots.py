"""Plots with two axes as SVG in the page: steps over time, scores against size, values of checkpoints.

Colours are classes of the style sheet. A drawing has a text for screen readers; its numbers stand in a table beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from markupsafe import Markup

from evalstone.web.axes import Axis, date_axis, log_axis, number_axis
from evalstone.web.svg import drawing, line_between, text_at

__all__ = ["PlotPoint", "series_plot", "size_plot", "time_plot"]

LEFT, RIGHT, TOP, BOTTOM = 52, 14, 8, 26
WIDTH, HEIGHT = 620, 320  # of the plot, pixels
SERIES_WIDTH, SERIES_HEIGHT = 420, 200


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A value with its interval, at a position: a day's ordinal, billions of parameters, or a step."""

    x: float
    value: float
    low: float | None = None
    high: float | None = None


class _Plot:
    """A drawing with two axes, to which marks are added."""

    def __init__(self, x: Axis, y: Axis, width: int, height: int) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self.parts: list[Markup] = []
        for place, text in y.ticks:
            level = TOP + height * (1 - place)
            self.parts.append(line_between(LEFT, level, LEFT + width, level, "grid"))
            self.parts.append(text_at(LEFT - 6, level + 4, text, "end"))
        for place, text in x.ticks:
            at = LEFT + width * place
            self.parts.append(line_between(at, TOP + height, at, TOP + height + 4, "grid"))
            self.parts.append(text_at(at, TOP + height + 18, text, "middle"))

    def at(self, x: float, value: float) -> tuple[float, float]:
        """Return the pixel of a point."""
        return LEFT + self.width * self.x.at(x), TOP + self.height * (1 - self.y.at(value))

    def path(self, points: Sequence[tuple[float, float]], kind: str, *, steps: bool = False) -> None:
        """Add a line through pixels; with `steps`, horizontal up to the next one."""
        (x0, y0), *rest = points
        drawn = [f"M{x0:.1f} {y0:.1f}", *(f"H{x:.1f}V{y:.1f}" if steps else f"L{x:.1f} {y:.1f}" for x, y in rest)]
        self.parts.append(Markup('<path class="{}" d="{}"/>').format(kind, "".join(drawn)))

    def dots(self, points: Sequence[PlotPoint], kind: str) -> None:
        """Add a dot for each point; those that fall on one pixel are drawn once."""
        pixels = sorted({(round(x), round(y)) for x, y in (self.at(one.x, one.value) for one in points)})
        if pixels:
            drawn = "".join(f"M{x} {y}h0" for x, y in pixels)
            self.parts.append(Markup('<path class="{}" d="{}"/>').format(kind, drawn))

    def svg(self, label: str) -> Markup:
        """Return the drawing."""
        return drawing(LEFT + self.width + RIGHT, TOP + self.height + BOTTOM, self.parts, label)


def time_plot(points: Sequence[PlotPoint], end: float, label: str) -> Markup:
    """Return the best score over time: a step for each new best one, its interval as a line.

    Args:
        points: by day; values are shares.
        end: the day that the last step reaches.
        label: text for screen readers.
    """
    days = [date.fromordinal(round(day)) for day in (*(one.x for one in points), end)]
    plot = _Plot(date_axis(days), number_axis(_heights(points), _per_cent), WIDTH, HEIGHT)
    steps = [plot.at(one.x, one.value) for one in points]
    plot.path([*steps, plot.at(end, points[-1].value)], "steps", steps=True)
    for one in points:
        if one.low is not None and one.high is not None:
            plot.parts.append(line_between(*plot.at(one.x, one.low), *plot.at(one.x, one.high), "span"))
    plot.dots(points, "dots best")
    return plot.svg(label)


def size_plot(front: Sequence[PlotPoint], others: Sequence[PlotPoint], label: str) -> Markup:
    """Return scores (shares) against the number of parameters on a logarithmic axis, the Pareto front as a line."""
    every = [*front, *others]
    plot = _Plot(
        log_axis([one.x for one in every], " B"), number_axis([one.value for one in every], _per_cent), WIDTH, HEIGHT
    )
    plot.dots(others, "dots")
    plot.path([plot.at(one.x, one.value) for one in front], "steps", steps=True)
    plot.dots(front, "dots best")
    return plot.svg(label)


def series_plot(points: Sequence[PlotPoint], label: str, *, is_share: bool) -> Markup:
    """Return values against the step, with their intervals as a band."""
    x = number_axis([one.x for one in points], "{:,.0f}".format)
    y = number_axis(_heights(points), _per_cent if is_share else "{:g}".format)
    plot = _Plot(x, y, SERIES_WIDTH, SERIES_HEIGHT)
    known = [(one.x, one.low, one.high) for one in points if one.low is not None and one.high is not None]
    if known:
        around = [(step, low) for step, low, _ in known] + [(step, high) for step, _, high in reversed(known)]
        plot.path([plot.at(step, value) for step, value in around], "area")
    plot.path([plot.at(one.x, one.value) for one in points], "steps")
    plot.dots(points, "dots best")
    return plot.svg(label)


def _heights(points: Sequence[PlotPoint]) -> list[float]:
    return [end for one in points for end in (one.value, one.low, one.high) if end is not None]


def _per_cent(value: float) -> str:
    return f"{100 * value:.4g}%"
