"""The charts of a board: best score over time, score against size, heat map.

How well a board's benchmarks agree with the ratings beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from markupsafe import Markup

from assaymark.leaderboard.board import Board
from assaymark.leaderboard.chart_data import (
    HeatMap,
    SizedModel,
    SizedModels,
    TimedModel,
    best_over_time,
    heat_map,
    last_day,
    score_by_size,
)
from assaymark.leaderboard.correlations import BenchmarkCorrelation, board_correlations, correlations_json
from assaymark.leaderboard.pages.board import view_of
from assaymark.leaderboard.rating_columns import rating_columns
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.leaderboard.shown import selected_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import model_label
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View
from assaymark.records import JsonValue
from assaymark.web.plots import PlotPoint, size_plot, time_plot
from assaymark.web.render import model_path, plain, shown_score
from assaymark.web.svg import heatmap

__all__ = ["ChartsPage", "CorrelationsPage", "charts_page", "correlations_page"]


@dataclass(frozen=True)
class CorrelationsPage:
    """A board's correlations, for each rating; none where the board has no ratings."""

    board: Board
    table: BoardTable
    sections: tuple[tuple[ScoreColumn, tuple[BenchmarkCorrelation, ...]], ...]

    def to_json(self) -> JsonValue:
        """Return what the page shows."""
        return {
            "board": self.board.name,
            "version": self.table.version,
            "correlations": correlations_json([correlation for _, listed in self.sections for correlation in listed]),
        }


def correlations_page(site: Site, name: str) -> CorrelationsPage:
    """Return the page of a board. Raises: UnknownName."""
    board = site.board(name)
    table = site.table(board)
    ratings = rating_columns(table)
    correlations = board_correlations(table) if ratings else []
    sections = (
        (column, tuple(correlation for correlation in correlations if correlation.rating == column.key))
        for column in ratings
    )
    return CorrelationsPage(board, table, tuple(sections))


MOST_COLUMNS = 16  # of the heat map
MOST_LINKS = 500  # models in a chart above which only those on the front are links
LONGEST_NAME = 40  # characters beside it


@dataclass(frozen=True)
class ChartsPage:
    """A board's charts, of the rows that a view leaves."""

    board: Board
    table: BoardTable
    view: View
    n_rows: int
    best: tuple[TimedModel, ...]
    sized: SizedModels
    front: tuple[SizedModel, ...]  # the models on the Pareto front, smallest first
    heat: HeatMap
    best_svg: Markup | None
    size_svg: Markup | None
    heat_svg: Markup | None

    def to_json(self) -> JsonValue:
        """Return what the page shows."""
        return {
            "board": self.board.name,
            "version": self.table.version,
            "view": dict(self.view.pairs()),
            "best_over_time": plain(self.best),
            "score_by_size": plain(list(self.sized.models())),
            "heat_map": {
                "columns": [column.key for column in self.heat.columns],
                "rows": [{"model": model, "cells": plain(cells)} for model, cells in self.heat.rows],
            },
        }


def charts_page(site: Site, name: str, pairs: Sequence[tuple[str, str]]) -> ChartsPage:
    """Return a board's charts under a view. Raises: UnknownName for a board that does not exist."""
    board = site.board(name)
    table = site.table(board)
    view = view_of(board, table, pairs)
    rows = selected_rows(table, view, board.shown_columns)
    best, sized = best_over_time(table, rows), score_by_size(table, rows)
    heat = heat_map(rows, table.columns[:MOST_COLUMNS])
    return ChartsPage(
        board,
        table,
        view,
        len(rows),
        tuple(best),
        sized,
        tuple(sized.models(sized.is_on_front)),
        heat,
        _best_svg(best, last_day(table, rows)) if len(best) > 1 else None,
        _size_svg(sized) if len(sized) > 1 else None,
        _heat_svg(heat) if heat.rows and heat.columns else None,
    )


def _best_svg(best: Sequence[TimedModel], end: str) -> Markup:
    points = [
        PlotPoint(_day(model.date), model.number.value, model.number.low, model.number.high,
                  f"{model_label(model.model)}: {shown_score(model.number)} on {model.date}", model_path(model.model))
        for model in best
    ]  # fmt: skip
    return time_plot(points, _day(end), "Best average over time, with 95% intervals")


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def _size_svg(sized: SizedModels) -> Markup:
    label = "Average against the number of parameters, with the Pareto front"
    is_linked = np.ones(len(sized), dtype=np.bool_) if len(sized) <= MOST_LINKS else sized.is_on_front
    models = zip(np.flatnonzero(is_linked).tolist(), sized.models(is_linked), strict=True)
    links = {
        at: (f"{model_label(model.model)}: {shown_score(model.number)}, {model.params:.3g} B", model_path(model.model))
        for at, model in models
    }
    return size_plot(sized.params, sized.values, sized.is_on_front, label, links)


def _heat_svg(heat: HeatMap) -> Markup:
    cells = [
        [
            None if cell is None else (cell.standing, shown_score(cell.number, column.is_share))
            for column, cell in zip(heat.columns, cells, strict=True)
        ]
        for _, cells in heat.rows
    ]
    names = _distinct([model_label(model) for model, _ in heat.rows])
    return heatmap(names, [column.title for column in heat.columns], cells, "Scores of the first rows")


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names short enough for an axis, still different where two rows have one model or one beginning."""
    labels: list[str] = []
    for name in names:
        short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
        n_same = sum(label == short or label.startswith(f"{short} (") for label in labels)
        labels.append(f"{short} ({n_same + 1})" if n_same else short)
    return labels
