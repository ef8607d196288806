"""The page of quality over time, a part of the server beside those of traces: charts and tables, and the alarms."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request, Response
from markupsafe import Markup

from assaymark.applications.traces.pages import shown_instant
from assaymark.applications.traces.routes import Readers
from assaymark.applications.traces.trace_rows import Token
from assaymark.applications.watch.board import AlarmBoard, alarm_board
from assaymark.applications.watch.quality import (
    NANOSECONDS,
    Quality,
    QualityMetric,
    QualityPoint,
    QualityQuery,
    quality_of,
    version_text,
    window_of,
)
from assaymark.documents.numbers import counted
from assaymark.store import Store
from assaymark.web.app import Feature
from assaymark.web.plots import PlotEvent, PlotPoint, PlotSeries, history_plot
from assaymark.web.render import Drawing, respond, wants_json
from assaymark.web.svg import on_screens

CHART_WIDTH = 540  # of a plot, pixels: two stand side by side
PERIODS = (("1", "last day"), ("7", "last 7 days"), ("30", "last 30 days"), ("90", "last 90 days"))


def watch_feature(store: Store) -> Feature:
    """Return the page, for an application that has those of traces and whoever has a token of the project."""

    def add(app: FastAPI) -> None:
        readers = Readers(store)

        @app.get("/traces/quality")
        @app.get("/traces/quality.json")
        def quality(request: Request) -> Response:
            page = quality_page(store, readers.need(request), QualityQuery.of(request.query_params))
            response = respond(request, "trace_quality.html", page, as_json=wants_json(request))
            response.headers["cache-control"] = "private, no-store"
            return response

    return Feature(add, drawing=Drawing(Path(__file__).resolve().parent / "templates"))


@dataclass(frozen=True, slots=True)
class ChartedMetric:
    """A metric with its chart. rows: bucket start, then for each point (version, point, address of its traces)."""

    metric: QualityMetric
    svg: Markup


@dataclass(frozen=True)
class QualityPage:
    """Quality over time of a project."""

    project: str
    query: QualityQuery
    quality: Quality
    charts: tuple[ChartedMetric, ...]
    board: AlarmBoard

    json_keys = "project *quality *board"

    periods = PERIODS

    @property
    def legend(self) -> list[str]:
        """The names of the lines, in the order of their colours; none where there is a single one."""
        versions = self.quality.versions
        return [version_text(version) for version in versions] if len(versions) > 1 else []

    def name(self, version: str | None) -> str:
        """Return the label of a version."""
        return version_text(version) if self.quality.window.by_version else "all versions"


def quality_page(store: Store, token: Token, query: QualityQuery) -> QualityPage:
    """Return the page that an address asks for. Raises: UsageError."""
    quality = quality_of(store, window_of(store, token.project, query))
    board = alarm_board(store, token.project)
    events = [_events(quality, metric, board) for metric in quality.metrics]
    points = (point for metric in quality.metrics for each in metric.series for point in each.points)
    times = [(point.start + quality.window.bucket / 2) / NANOSECONDS for point in points]
    times += [event.x for of_metric in events for event in of_metric]
    charts = tuple(ChartedMetric(metric, _chart(quality, metric, times, of_metric))
                   for metric, of_metric in zip(quality.metrics, events, strict=True))  # fmt: skip
    return QualityPage(token.project_name, query, quality, charts, board)


def _events(quality: Quality, metric: QualityMetric, board: AlarmBoard) -> list[PlotEvent]:
    """Return the alarms of a metric that lie in the window."""
    return [
        PlotEvent(event.at / NANOSECONDS, f"alarm {event.name}: {event.text}", f"/trace/{event.trace_id}")
        for event in board.raised
        if (event.metric, event.source or "") == (metric.key.removesuffix(" 95%"), metric.source)
        and quality.window.since <= event.at < quality.window.until
    ]


def _chart(quality: Quality, metric: QualityMetric, times: Sequence[float], events: Sequence[PlotEvent]) -> Markup:
    """Return a metric's chart; `times`: those of all charts of the page, which share an axis."""
    middle = quality.window.bucket / 2
    series = []
    for each in metric.series:
        name = f"{version_text(each.version)}: " if quality.window.by_version else ""
        points = tuple(
            PlotPoint(
                (point.start + middle) / NANOSECONDS,
                point.value,
                point.low,
                point.high,
                _title(quality, metric, name, point),
                quality.list_address(point.start, each.version),
            )
            for point in each.points
        )
        series.append(PlotSeries(name, points))
    is_count = metric.unit == "count"
    label = f"{metric.title} over time" + ("" if is_count else ", with 95% intervals")
    reach = (times, [0.0] if is_count else [])
    return on_screens(partial(history_plot, series, label, metric.tick, events, reach=reach, width=CHART_WIDTH))


def _title(quality: Quality, metric: QualityMetric, version: str, point: QualityPoint) -> str:
    """Return what a pointer on a point is told: when, which version, the value, and of how many."""
    when = shown_instant(point.start)[: 10 if quality.bucket_name == "day" else 16]
    if metric.unit == "count":
        return f"{when}: {version}{counted(point.n, 'trace')}"
    sessions = f" in {point.n_sessions:,} sessions" if point.n_sessions < point.n else ""
    return f"{when}: {version}{metric.shown_value(point)} ({metric.shown_interval(point)}), n {point.n:,}{sessions}"
