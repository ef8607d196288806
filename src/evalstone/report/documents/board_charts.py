"""The charts of a leaderboard as Vega-Lite specifications, in the style of the charts of reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evalstone.report.documents.charts import COLOURS, INK, LONGEST_LABEL, ROW, Spec, finished, imported_altair

__all__ = [
    "FrontPoint",
    "HeatPoint",
    "StepPoint",
    "best_chart",
    "heat_chart",
    "size_chart",
]

WIDTH = 620  # pixels of the plot
HEIGHT = 320
CELL = 62  # pixels: width of a cell of the heat map
LONGEST_LEVEL = 8  # characters of a title that fits above a cell without a slope


@dataclass(frozen=True, slots=True)
class StepPoint:
    """A new best score."""

    date: str  # ISO 8601
    value: float  # a share in [0, 1], as all values here
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A model by its size."""

    size: float  # billions of parameters
    value: float
    is_on_front: bool


@dataclass(frozen=True, slots=True)
class HeatPoint:
    """One cell of a heat map."""

    row: str
    column: str
    text: str
    standing: float  # in [0, 1]


def best_chart(points: Sequence[StepPoint], end: str) -> Spec:
    """Return a chart of the best score over time: a step for each new best one, its interval as a line.

    Args:
        points: by date.
        end: the day that the last step reaches.

    Raises: MissingExtra without the extra `charts`.
    """
    alt = imported_altair()
    rows = [{"date": one.date, "value": one.value, "low": one.low, "high": one.high} for one in points]
    x = alt.X("date:T", title=None, axis=alt.Axis(tickCount=6, format="%b %Y"))
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(format=".0%", tickCount=6))
    line = alt.Chart(alt.Data(values=[*rows, {**rows[-1], "date": end}])).encode(x=x, y=y)
    marks = alt.Chart(alt.Data(values=rows)).encode(x=x)
    known = alt.Chart(alt.Data(values=[row for row in rows if row["low"] is not None])).encode(x=x)
    layers = [
        line.mark_line(interpolate="step-after", color=COLOURS[0], strokeWidth=1.5),
        known.mark_rule(color=COLOURS[0], strokeWidth=1.5, opacity=0.6).encode(
            y=alt.Y("low:Q", title=None), y2="high:Q"
        ),
        marks.mark_point(color=COLOURS[0], filled=True, size=40, opacity=1).encode(y=y),
    ]
    return finished(alt.layer(*layers), HEIGHT, width=WIDTH)


def size_chart(points: Sequence[FrontPoint]) -> Spec:
    """Return a chart of scores against the number of parameters, the Pareto front as a line.

    Points that fall on the same pixel are drawn once.

    Raises: MissingExtra without the extra `charts`.
    """
    alt = imported_altair()
    x = alt.X("size:Q", title="parameters (billions)", scale=alt.Scale(type="log", nice=False, padding=12),
              axis=alt.Axis(tickCount=6, format="~g"))  # fmt: skip
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(format=".0%", tickCount=6))
    front = [{"size": one.size, "value": one.value} for one in points if one.is_on_front]
    rest = {(float(f"{one.size:.3g}"), round(one.value, 3)) for one in points if not one.is_on_front}
    others = alt.Chart(alt.NamedData("others"))
    best = alt.Chart(alt.NamedData("front")).encode(x=x, y=y)
    layers = [
        others.mark_point(color=COLOURS[5], filled=True, size=12, opacity=0.45).encode(x=x, y=y),
        best.mark_line(interpolate="step-after", color=COLOURS[1], strokeWidth=1.5),
        best.mark_point(color=COLOURS[1], filled=True, size=45, opacity=1),
    ]
    data = {"others": [{"size": size, "value": value} for size, value in sorted(rest)], "front": front}
    return finished(alt.layer(*layers), HEIGHT, width=WIDTH, data=data)


def heat_chart(points: Sequence[HeatPoint], rows: Sequence[str], columns: Sequence[str]) -> Spec:
    """Return a heat map: values as text, the standing in the column as the strength of the colour.

    Raises: MissingExtra without the extra `charts`.
    """
    alt = imported_altair()
    values = [{"row": one.row, "column": one.column, "text": one.text, "standing": one.standing} for one in points]
    y = alt.Y("row:N", sort=list(rows), title=None,
              axis=alt.Axis(labelLimit=LONGEST_LABEL, ticks=False, domain=False, labelPadding=8))  # fmt: skip
    angle = -40 if any(len(title) > LONGEST_LEVEL for title in columns) else 0
    x = alt.X("column:N", sort=list(columns), title=None,
              axis=alt.Axis(orient="top", labelAngle=angle, labelLimit=200, ticks=False, domain=False))  # fmt: skip
    strength: Any = alt.Opacity("standing:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.62]), legend=None)
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y)
    layers = [
        base.mark_rect(color=COLOURS[0]).encode(opacity=strength),
        base.mark_text(color=INK, fontSize=11).encode(text="text:N"),
    ]
    return finished(alt.layer(*layers), (ROW + 2) * len(rows), width=CELL * len(columns))
