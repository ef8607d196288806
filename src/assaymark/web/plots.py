"""Plots with two axes as SVG in the page: steps over time, scores against size, values of checkpoints.

Colours are classes of the style sheet. A drawing has a text for screen readers; its numbers stand in a table beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from assaymark.web.axes import Axis, date_axis, log_axis, number_axis
from assaymark.web.svg import drawing, line_between, text_at

__all__ = ["PlotPoint", "series_plot", "size_plot", "time_plot"]

LEFT, RIGHT, TOP, BOTTOM = 52, 14, 8, 26
WIDTH, HEIGHT = 620, 320  # of the plot, pixels
WIDEST = 10_000  # pixels, more than any plot has
FINE = 2  # pixels between the smallest dots, which are wider than that
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

    def dots(self, xs: npt.NDArray[np.float64], values: npt.NDArray[np.float64], kind: str, grid: int = 1) -> None:
        """Add a dot for each point, on a grid of pixels; equal ones are drawn once. Shapes: xs, values [points]."""
        x, y = LEFT + self.width * self.x.all_at(xs), TOP + self.height * (1 - self.y.all_at(values))
        columns, rows = (np.rint(pixels / grid).astype(np.int64) for pixels in (x, y))
        places = np.unique(columns * WIDEST + rows).tolist()
        if places:
            drawn = "".join(f"M{grid * (place // WIDEST)} {grid * (place % WIDEST)}h0" for place in places)
            self.parts.append(Markup('<path class="{}" d="{}"/>').format(kind, drawn))

    def best_dots(self, points: Sequence[PlotPoint]) -> None:
        """Add a large dot for each point."""
        self.dots(np.array([one.x for one in points]), np.array([one.value for one in points]), "dots best")

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
    plot.best_dots(points)
    return plot.svg(label)


def size_plot(
    sizes: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    is_on_front: npt.NDArray[np.bool_],
    label: str,
) -> Markup:
    """Return scores (shares) against billions of parameters on a logarithmic axis, the Pareto front as a line.

    Args:
        sizes: ascending. Shapes: this and the next two [models], at least one.
        values: the scores.
        is_on_front: whether no model of as few parameters scores as much.
        label: text for screen readers.
    """
    y = number_axis([float(values.min()), float(values.max())], _per_cent)
    plot = _Plot(log_axis([float(sizes.min()), float(sizes.max())], " B"), y, WIDTH, HEIGHT)
    plot.dots(sizes[~is_on_front], values[~is_on_front], "dots", FINE)
    front = [PlotPoint(x, value) for x, value in zip(sizes[is_on_front], values[is_on_front], strict=True)]
    plot.path([plot.at(one.x, one.value) for one in front], "steps", steps=True)
    plot.best_dots(front)
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
    plot.best_dots(points)
    return plot.svg(label)


def _heights(points: Sequence[PlotPoint]) -> list[float]:
    return [end for one in points for end in (one.value, one.low, one.high) if end is not None]


def _per_cent(value: float) -> str:
    return f"{100 * value:.4g}%"
