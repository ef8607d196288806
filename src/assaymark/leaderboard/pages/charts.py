"""The charts of a board: bars of a column, best score over time, score against size, speed or price, heat map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import TypeVar
from urllib.parse import urlencode

import numpy as np
from markupsafe import Markup

from assaymark.leaderboard.board import Board
from assaymark.leaderboard.chart_data import (
    MEASURES,
    MOST_BARS,
    ColumnBar,
    HeatMap,
    Measure,
    MeasuredModel,
    MeasuredModels,
    TimedModel,
    best_over_time,
    column_bars,
    heat_map,
    last_day,
    score_against,
)
from assaymark.leaderboard.pages.board import view_of
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.leaderboard.shown import selected_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import model_label
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View
from assaymark.records import JsonValue
from assaymark.registry import nearest
from assaymark.web.plots import FULL_WIDTH, LinkedBar, PlotPoint, bar_plot, front_plot, time_plot
from assaymark.web.render import model_path, plain, shown_ends, shown_score
from assaymark.web.svg import heatmap, on_screens

MOST_COLUMNS = 16  # of the heat map
MOST_NAMED = 12  # choices that a problem names where none is near
MOST_LINKS = 500  # models in a chart above which only those on the front are links
LONGEST_NAME = 36  # characters beside it
AVERAGE = ScoreColumn("average", "Average")
Choice = TypeVar("Choice", ScoreColumn, Measure)


@dataclass(frozen=True)
class ChartsPage:
    """A board's charts, of the rows that a view leaves."""

    board: Board
    table: BoardTable
    view: View
    n_models: int
    n_shared: int  # columns that the averages in the charts are of
    column: ScoreColumn  # of the bars
    columns: tuple[ScoreColumn, ...]  # that may be chosen
    bars: tuple[ColumnBar, ...]  # the best first
    best: tuple[TimedModel, ...]
    measure: Measure
    measures: tuple[Measure, ...]  # that may be chosen
    measured: MeasuredModels
    front: tuple[MeasuredModel, ...]  # the models on the Pareto front, the smallest, fastest or cheapest first
    heat: HeatMap
    problems: tuple[str, ...]  # parameters that could not be read
    bars_svg: Markup | None
    best_svg: Markup | None
    front_svg: Markup | None
    heat_svg: Markup | None

    most_bars = MOST_BARS

    def query(self) -> str:
        """Return the query string of this page."""
        own = {"column": (self.column.key, "average"), "against": (self.measure.key, "params")}
        pairs = [*self.view.pairs(), *((name, key) for name, (key, default) in own.items() if key != default)]
        return f"?{urlencode(pairs)}" if pairs else ""

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        return {
            "board": self.board.name,
            "version": self.table.version,
            "view": dict(self.view.pairs()),
            "problems": list(self.problems),
            "n_averaged": self.n_shared,
            "column": {"key": self.column.key, "title": self.column.title, "is_share": self.column.is_share,
                       "higher_is_better": self.column.higher_is_better},
            "bars": plain(self.bars),
            "best_over_time": plain(self.best),
            "against": {"key": self.measure.key, "title": self.measure.title,
                        "higher_is_better": self.measure.higher_is_better},
            "score_against": plain(list(self.measured.models())),
            "n_left_out": self.measured.n_left_out,
            "heat_map": {
                "columns": [column.key for column in self.heat.columns],
                "rows": [{"model": model, "mark": mark.strip(" ()"), "cells": plain(cells)}
                         for (model, cells), mark in zip(self.heat.rows, self.heat.marks, strict=True)],
            },
        }  # fmt: skip


def charts_page(site: Site, name: str, pairs: Sequence[tuple[str, str]]) -> ChartsPage:
    """Return a board's charts under a view.

    pairs: parameters of a view; `column` of the bars, and what the average is set `against`.

    Raises: UnknownName for a board that does not exist.
    """
    board = site.board(name)
    table = site.table(board)
    own = {"column", "against"}
    view = view_of(board, table, [pair for pair in pairs if pair[0] not in own])
    chosen = {key: value for key, value in pairs if key in own and value}
    columns = {column.key: column for column in (AVERAGE, *table.columns)}
    problems = [*view.problems]
    column = _chosen("column", chosen.get("column", "average"), columns, problems)
    measure = _chosen("against", chosen.get("against", "params"), MEASURES, problems)
    rows = selected_rows(table, view, board.shown_columns)
    by_column = replace(view, sort=f"-{column.key}" if column.higher_is_better else column.key)
    bars = column_bars(selected_rows(table, by_column, board.shown_columns), column)
    best, measured = best_over_time(table, rows), score_against(table, rows, measure)
    heat = heat_map(rows, table.columns[:MOST_COLUMNS])
    return ChartsPage(
        board,
        table,
        view,
        rows.n_models,
        len(rows.shared),
        column,
        tuple(columns.values()),
        tuple(bars),
        tuple(best),
        measure,
        tuple(MEASURES.values()),
        measured,
        tuple(measured.models(measured.is_on_front)),
        heat,
        tuple(problems),
        _bars_svg(bars, column) if bars else None,
        _best_svg(best, last_day(table, rows)) if len(best) > 1 else None,
        _front_svg(measured, measure) if len(measured) > 1 else None,
        _heat_svg(heat) if heat.rows and heat.columns else None,
    )


def _chosen(name: str, key: str, known: Mapping[str, Choice], problems: list[str]) -> Choice:
    """Return the choice that a parameter names; for an unknown name the first choice, with a message."""
    if key in known:
        return known[key]
    near = nearest(key[:100], known) or list(known)[:MOST_NAMED]
    problems.append(f"{name}: '{key[:40]}' is not known; {'nearest' if nearest(key[:100], known) else 'there are'}: "
                    f"{', '.join(near)}")  # fmt: skip
    return next(iter(known.values()))


def _bars_svg(bars: Sequence[ColumnBar], column: ScoreColumn) -> Markup:
    whole = [bar.model if bar.is_baseline else model_label(bar.model) + bar.mark for bar in bars]
    names = _distinct(whole)
    rows = []
    for name, unshortened, bar in zip(names, whole, bars, strict=True):
        text, ends = shown_score(bar.number, column.is_share), shown_ends(bar.number, column.is_share)
        title = f"{unshortened}: {text}{f' ({ends})' if ends else ''}"
        href = "" if bar.is_baseline else model_path(bar.model)
        rows.append(LinkedBar(name, bar.number.value, bar.number.low, bar.number.high, text, title, href))
    axis = column.title if column.higher_is_better else f"{column.title} (lower is better)"
    label = f"{axis} of the first rows, with 95% intervals"
    return on_screens(partial(bar_plot, rows, axis, label, is_share=column.is_share))


def _best_svg(best: Sequence[TimedModel], end: str) -> Markup:
    points = [
        PlotPoint(_day(model.date), model.number.value, model.number.low, model.number.high,
                  f"{model_label(model.model)}{model.mark}: {shown_score(model.number)} on {model.date}",
                  model_path(model.model))
        for model in best
    ]  # fmt: skip
    return on_screens(partial(time_plot, points, _day(end), "Best average over time, with 95% intervals"))


def _day(text: str) -> int:
    return date.fromisoformat(text).toordinal()


def _front_svg(measured: MeasuredModels, measure: Measure) -> Markup:
    label = f"Average against {measure.title.lower()}, with the Pareto front"
    is_linked = np.ones(len(measured), dtype=np.bool_) if len(measured) <= MOST_LINKS else measured.is_on_front
    models = zip(np.flatnonzero(is_linked).tolist(), measured.models(is_linked), strict=True)
    links = {
        at: (f"{model_label(model.model)}{model.mark}: {shown_score(model.number)}, {model.measure:.3g}{measure.words}",
             model_path(model.model))
        for at, model in models
    }  # fmt: skip
    columns = (measured.measures, measured.values, measured.is_on_front)
    return on_screens(partial(front_plot, *columns, label, links, title=measure.title, unit=measure.unit))


def _heat_svg(heat: HeatMap) -> Markup:
    cells = [
        [
            None if cell is None else (cell.standing, shown_score(cell.number, column.is_share))
            for column, cell in zip(heat.columns, cells, strict=True)
        ]
        for _, cells in heat.rows
    ]
    names = _distinct([model_label(model) + mark for (model, _), mark in zip(heat.rows, heat.marks, strict=True)])
    titles = [column.title for column in heat.columns]
    return on_screens(partial(heatmap, names, titles, cells, "Scores of the first rows", fills=FULL_WIDTH))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names short enough for an axis: beginning and end, still different if two rows have the same model."""
    labels: list[str] = []
    for name in names:
        short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2 - 1]}…{name[-LONGEST_NAME // 2 :]}"
        n_same = sum(label == short or label.startswith(f"{short} (") for label in labels)
        labels.append(f"{short} ({n_same + 1})" if n_same else short)
    return labels
