"""The charts of reports and pages as Vega-Lite specifications, rendered by a web page or into an SVG file.

The functions return plain data, made by altair, which is imported only here and only when a chart is drawn. Text and
rules have the text colour of the surrounding page (`currentColor`), so one drawing suits a light page, a dark page and
paper. Runs differ by colour and by shape; the colours are distinguishable for colour-blind readers and have a contrast
of 3 to 1 on white and on dark. Long lists are split into parts that fit a page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from assaymark.documents.plain_text import html_text, printable
from assaymark.errors import MissingExtra
from assaymark.records import JsonValue
from assaymark.statistics.calibration import CalibrationError
from assaymark.statistics.intervals import wilson

if TYPE_CHECKING:
    from altair import Legend, Scale, TopLevelMixin, Y

Spec = Mapping[str, JsonValue]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#9018f0", "#786030", "#787890")
"""Colours of runs, in order: three of Okabe and Ito 2008 (with enough contrast), then those most distant from them."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
NOT_SIGNIFICANT = "#7a7a7a"
VERDICTS = ("better", "worse", "not significant")
INK = "currentColor"
FONT = "Arial, Liberation Sans, sans-serif"  # equally wide in browsers and in the renderer that lays out the drawing
WIDTH = 540  # pixels of the plot, without its labels
LONGEST_LABEL = 240  # pixels
LETTER = 7.0  # approximate pixels of a letter of a label
LONGEST_NAME = 36  # characters of a task's name; the middle is omitted, since names often differ at their ends
TALLEST = 860  # pixels of one part: the space of an A4 page below a heading
ROW = 20  # pixels of one task
ROW_OF_RUN = 9  # pixels for each run beyond the first


@dataclass(frozen=True, slots=True)
class IntervalPoint:
    """One value with its interval: a mark in the row of its task."""

    task: str
    run: str
    value: float  # a share in [0, 1]
    low: float
    high: float
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimPoint:
    """One value that others state of a model: a hollow mark in the row of its task."""

    task: str
    model: str
    value: float  # a share in [0, 1]


@dataclass(frozen=True, slots=True)
class DifferencePoint:
    """One difference with its interval, positive where the second run is better."""

    task: str
    gain: float  # a share, so 0.01 is a point
    low: float
    high: float
    verdict: str  # one of VERDICTS


Point = TypeVar("Point", IntervalPoint, DifferencePoint)


def can_draw() -> bool:
    """Return whether the extra `charts` is installed."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def interval_charts(points: Sequence[IntervalPoint], claims: Sequence[ClaimPoint] = ()) -> list[Spec]:
    """Return charts of values with their intervals: a row per task in the given order, a mark per run, chance as a bar.

    What others claim of models has hollow marks without intervals. Claims of tasks without a point are left out.

    Raises: MissingExtra without the extra `charts`.
    """
    alt = imported_altair()
    long_named, points = points, _with_short_names(points)
    tasks = list(dict.fromkeys(point.task for point in points))
    runs = list(dict.fromkeys(point.run for point in points))
    step = ROW + ROW_OF_RUN * (len(runs) - 1)
    short_names = dict(zip((point.task for point in long_named), (point.task for point in points), strict=True))
    claims = [replace(claim, task=short_names[claim.task]) for claim in claims if claim.task in short_names]
    models = list(dict.fromkeys(claim.model for claim in claims))
    end = _next_tenth(max([*(point.high for point in points), *(claim.value for claim in claims)], default=1.0))
    x_scale = alt.Scale(domain=[0, end], nice=False)
    specs = []
    for part in _parts(tasks, step):
        rows = [
            {"task": point.task, "run": point.run, "value": point.value, "low": point.low, "high": point.high}
            for point in points
            if point.task in part
        ]
        chances = {point.task: point.chance for point in points if point.task in part and point.chance is not None}
        chance = alt.Chart(alt.Data(values=[{"task": task, "chance": share} for task, share in chances.items()]))
        base = alt.Chart(alt.Data(values=rows)).encode(y=_task_axis(alt, part, tasks))
        of_run = base.encode(
            yOffset=alt.YOffset("run:N", sort=runs, scale=alt.Scale(paddingOuter=0.35)),
            color=alt.Color("run:N", sort=runs, scale=_run_scale(alt, runs, COLOURS), legend=_legend(alt, runs)),
        )
        x = alt.X("value:Q", title=None, scale=x_scale, axis=alt.Axis(format=".0%", tickCount=6))
        shape = alt.Shape("run:N", sort=runs, scale=_run_scale(alt, runs, SHAPES), legend=_legend(alt, runs))
        layers = [
            chance.mark_tick(color=INK, opacity=0.6, thickness=1.5, size=step - 5).encode(
                x=alt.X("chance:Q", scale=x_scale), y=_task_axis(alt, part, tasks)
            ),
            of_run.mark_rule(strokeWidth=2, strokeCap="round").encode(x=alt.X("low:Q", scale=x_scale), x2="high:Q"),
            of_run.mark_point(filled=True, size=55, opacity=1).encode(x=x, shape=shape),
        ]
        chart = alt.layer(*layers)
        if of_part := [claim for claim in claims if claim.task in part]:
            hollow = alt.Chart(
                alt.Data(values=[{"task": claim.task, "model": claim.model, "value": claim.value} for claim in of_part])
            ).mark_point(filled=False, size=75, strokeWidth=1.5, color=INK)
            scale = alt.Scale(domain=models, range=[SHAPES[at % len(SHAPES)] for at in range(len(models))])
            hollow = hollow.encode(
                x=x, y=_task_axis(alt, part, tasks), shape=alt.Shape("model:N", scale=scale, legend=_top(alt))
            )
            chart = alt.layer(chart, hollow).resolve_scale(shape="independent")
        specs.append(_finished(chart, step * len(part)))
    return specs


def difference_charts(points: Sequence[DifferencePoint]) -> list[Spec]:
    """Return charts of differences with their intervals around zero (forest plots), significant ones coloured.

    Raises: MissingExtra without the extra `charts`.
    """
    alt = imported_altair()
    points = _with_short_names(points)
    reach = max([0.01, *(abs(end) for point in points for end in (point.low, point.high))])
    x_scale = alt.Scale(domain=[-100 * reach, 100 * reach], nice=True)
    colours = [COLOURS[0], COLOURS[1], NOT_SIGNIFICANT]
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=colours), legend=_top(alt))
    shape = alt.Shape(
        "verdict:N", scale=alt.Scale(domain=list(VERDICTS), range=["triangle-right", "triangle-left", "circle"])
    )
    specs = []
    tasks = list(dict.fromkeys(point.task for point in points))
    for part in _parts(tasks, ROW):
        rows = [
            {"task": p.task, "gain": 100 * p.gain, "low": 100 * p.low, "high": 100 * p.high, "verdict": p.verdict}
            for p in points
            if p.task in part
        ]
        base = alt.Chart(alt.Data(values=rows)).encode(y=_task_axis(alt, part, tasks))
        x = alt.X("gain:Q", title="points", scale=x_scale, axis=alt.Axis(format="+d", tickCount=7))
        zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=INK, opacity=0.7, strokeWidth=1.2)
        layers = [
            zero.encode(x=alt.X("zero:Q", scale=x_scale)),
            base.mark_rule(strokeWidth=2, strokeCap="round").encode(
                x=alt.X("low:Q", scale=x_scale), x2="high:Q", color=colour
            ),
            base.mark_point(filled=True, size=70, opacity=1).encode(x=x, color=colour, shape=shape),
        ]
        specs.append(_finished(alt.layer(*layers), ROW * len(part)))
    return specs


def calibration_chart(curves: Sequence[tuple[str, CalibrationError]]) -> Spec:
    """Return a chart of accuracy against confidence, per run; perfect calibration is the diagonal.

    Each mark is one bin of equally many answers, with Wilson's interval of its accuracy.

    Raises: MissingExtra without the extra `charts`.
    """
    alt = imported_altair()
    runs = [name for name, _ in curves]
    rows = []
    for name, curve in curves:
        for calibration_bin in curve.bins:
            interval = wilson(calibration_bin.accuracy * calibration_bin.n, calibration_bin.n)
            rows.append({"run": name, "confidence": calibration_bin.confidence, "right": calibration_bin.accuracy,
                         "low": interval.low, "high": interval.high})  # fmt: skip
    share = alt.Scale(domain=[0, 1])
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("confidence:Q", scale=share, title="confidence", axis=alt.Axis(format=".0%", tickCount=5)),
        color=alt.Color("run:N", sort=runs, scale=_run_scale(alt, runs, COLOURS), legend=_legend(alt, runs)),
    )
    y = alt.Y("right:Q", scale=share, title="share right", axis=alt.Axis(format=".0%", tickCount=5))
    shape = alt.Shape("run:N", sort=runs, scale=_run_scale(alt, runs, SHAPES), legend=_legend(alt, runs))
    diagonal = alt.Chart(alt.Data(values=[{"confidence": 0, "right": 0}, {"confidence": 1, "right": 1}]))
    layers = [
        diagonal.mark_line(color=INK, opacity=0.55, strokeDash=[4, 4]).encode(x="confidence:Q", y=y),
        base.mark_rule(strokeWidth=1.5, opacity=0.8).encode(y=alt.Y("low:Q", scale=share), y2="high:Q"),
        base.mark_line(strokeWidth=1, opacity=0.5).encode(y=y),
        base.mark_point(filled=True, size=55, opacity=1).encode(y=y, shape=shape),
    ]
    return _finished(alt.layer(*layers), 320, width=320)


def to_svg(spec: Spec, description: str, *, ink: str | None = None) -> str:
    """Return a specification drawn as SVG.

    Args:
        spec: from one of the functions above.
        description: text for screen readers.
        ink: a colour for text and rules of a drawing outside of a page (a file next to a Markdown report).

    Raises: MissingExtra without the extra `charts`.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtra("drawing charts", "charts") from error
    drawn = str(vl_convert.vegalite_to_svg({name: _with_printable_texts(part) for name, part in spec.items()}))
    head, _, rest = drawn.partition("<svg ")
    named = f'{head}<svg role="img" aria-label="{html_text(description)}" {rest}'
    return named if ink is None else named.replace(INK, ink)


def _with_printable_texts(part: JsonValue) -> JsonValue:
    """Return a part of a specification with its texts made valid for XML."""
    if isinstance(part, Mapping):
        return {name: _with_printable_texts(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_with_printable_texts(value) for value in part]
    return printable(part) if isinstance(part, str) else part


def imported_altair() -> ModuleType:
    """Return altair. Raises: MissingExtra without the extra `charts`."""
    try:
        import altair as alt
    except ImportError as error:
        raise MissingExtra("drawing charts", "charts") from error
    module: ModuleType = alt
    return module


def _with_short_names(points: Sequence[Point]) -> list[Point]:
    """Return the points with task names that fit next to the plot, still distinct for distinct tasks."""
    short_names: dict[str, str] = {}
    for task in dict.fromkeys(point.task for point in points):
        half = LONGEST_NAME // 2
        short = task if len(task) <= LONGEST_NAME else f"{task[: half - 1]}…{task[-half:]}"
        n_same = sum(name.rstrip("\u200b") == short for name in short_names.values())
        short_names[task] = short + "\u200b" * n_same  # zero-width: rows may look alike, but stay separate
    return [replace(point, task=short_names[point.task]) for point in points]


def _next_tenth(share: float) -> float:
    """Return the end of an axis: the smallest multiple of 0.1 that no interval exceeds."""
    return min(10, int(share * 10 + 1 - 1e-9)) / 10 if share < 1 else 1.0


def _parts(tasks: Sequence[str], step: int) -> list[list[str]]:
    """Return the tasks in parts of equal size, none taller than a page."""
    n_parts = max(1, -(-len(tasks) * step // TALLEST))
    size = -(-len(tasks) // n_parts) or 1
    return [list(tasks[start : start + size]) for start in range(0, len(tasks), size)]


def _task_axis(alt: ModuleType, part: Sequence[str], tasks: Sequence[str]) -> "Y":
    """Return the axis of one part's tasks, equally wide in all parts, so that their plots are aligned."""
    width = min(LONGEST_LABEL, LETTER * max(map(len, tasks)))
    axis = alt.Axis(labelLimit=LONGEST_LABEL, minExtent=width, ticks=False, domain=False, labelPadding=8, grid=False)
    return alt.Y("task:N", sort=list(part), title=None, axis=axis)


def _run_scale(alt: ModuleType, runs: Sequence[str], values: Sequence[str]) -> "Scale":
    return alt.Scale(domain=list(runs), range=[values[index % len(values)] for index in range(len(runs))])


def _legend(alt: ModuleType, runs: Sequence[str]) -> "Legend | None":
    return _top(alt) if len(runs) > 1 else None


def _top(alt: ModuleType) -> "Legend":
    return alt.Legend(title=None, orient="top", direction="horizontal", columns=3, labelLimit=LONGEST_LABEL)


def _finished(chart: "TopLevelMixin", height: int, *, width: int = WIDTH) -> Spec:
    """Return a chart's specification in the common style. height, width: of the plot in pixels."""
    styled = (
        chart.properties(width=width, height=height)
        .configure(background="transparent", font=FONT, aria=False)
        .configure_view(stroke=None)
        .configure_mark(aria=False)  # the drawing as a whole has a description
        .configure_axis(
            labelColor=INK, titleColor=INK, labelFontSize=12, titleFontSize=12, titleFontWeight="normal",
            gridColor=INK, gridOpacity=0.15, domainColor=INK, domainOpacity=0.4, tickColor=INK, tickOpacity=0.4,
        )
        .configure_legend(labelColor=INK, labelFontSize=12, symbolOpacity=1)
    )  # fmt: skip
    spec: Spec = styled.to_dict(validate=False)  # against the schema takes a second; the tests do it
    return spec
