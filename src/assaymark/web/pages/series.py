"""Checkpoints of one training: each benchmark against the step, and the paired differences to the first checkpoint."""

from dataclasses import dataclass

from markupsafe import Markup

from assaymark.leaderboard.series import Series, SeriesLine, find_series
from assaymark.leaderboard.site import Site
from assaymark.records import JsonValue
from assaymark.web.plots import PlotPoint, series_plot
from assaymark.web.render import plain

__all__ = ["SeriesPage", "series_page"]

MOST_CHARTS = 24


@dataclass(frozen=True)
class SeriesPage:
    """One series."""

    series: Series
    charts: tuple[Markup, ...]  # SVG, one per benchmark
    values: tuple[tuple[SeriesLine, dict[int, object]], ...]  # each line with its values by step

    def to_json(self) -> JsonValue:
        """Return what the page shows."""
        return {
            "series": self.series.name,
            "checkpoints": [
                {"step": one.step, "model": one.model, "runs": [run.run_id for run in one.runs],
                 "difference_to_first": None if one.against_first is None else plain(one.against_first.overall),
                 "differences": [] if one.against_first is None else plain(one.against_first.tasks)}
                for one in self.series.checkpoints
            ],
            "benchmarks": [
                {"column": line.column.key, "title": line.column.title, "is_share": line.column.is_share,
                 "points": [{"step": step, **plain(number)} for step, number in line.points]}
                for line in self.series.lines
            ],
        }  # fmt: skip


def series_page(site: Site, name: str) -> SeriesPage:
    """Return the page of a series. Raises: UnknownName."""
    series = find_series(site, name)
    lines = series.lines[:MOST_CHARTS]
    charts = tuple(_drawn(line) for line in lines)
    return SeriesPage(series, charts, tuple((line, dict(line.points)) for line in series.lines))


def _drawn(line: SeriesLine) -> Markup:
    points = [PlotPoint(step, number.value, number.low, number.high) for step, number in line.points]
    label = f"{line.column.title} against the step, with 95% intervals"
    return series_plot(points, label, is_share=line.column.is_share)
