"""A board's models by HELM's mean win rate and mean score, both over the columns that a model has.

Intervals of both come from the same resampled samples, if all of them are stored; a board of published values has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assaymark.documents.blocks import Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted, shown_interval, shown_value
from assaymark.errors import DataError, UsageError
from assaymark.leaderboard.board import column_keys
from assaymark.leaderboard.rating_columns import rating_columns
from assaymark.leaderboard.rows import BoardRow, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.records import JsonValue, content_hash
from assaymark.records.json_values import json_of
from assaymark.results.evidence.records import ScoreRow, row_value
from assaymark.statistics.arrays import Floats
from assaymark.statistics.helm_win_rates import (
    OrderDependence,
    helm_mean_scores,
    helm_win_rates,
    order_dependence,
    resampled_values,
)

WIN_RATES = "Win rates"
"""The category of the columns with HELM's aggregates, which no score column is ever in."""
TITLE, MEAN_TITLE = "Mean win rate", "Mean score"
NOTES = {
    TITLE: "HELM's mean win rate over {n} columns; it depends on which models are listed",
    MEAN_TITLE: "HELM's mean score: over those of {n} columns that a model has",
}

MOST_ORDERED = 12  # the best models, whose order is also computed among fewer models
MOST_RESAMPLED = 60  # models: with more the intervals would take minutes


@dataclass(frozen=True, slots=True)
class ModelWinRate:
    """One row of the board. Undefined is None."""

    row: str
    model: str
    mean_win_rate: float | None
    low: float | None
    high: float | None
    mean: float | None  # over the columns that it has; None where the columns have different directions
    mean_low: float | None
    mean_high: float | None
    n_columns: int

    def aggregate(self, title: str) -> IntervalValue | None:
        """Return the value of the column with this title; None where it is undefined."""
        value, low, high = (
            (self.mean_win_rate, self.low, self.high) if title == TITLE else (self.mean, self.mean_low, self.mean_high)
        )
        how = "" if low is None else "percentiles over resampled samples"
        return None if value is None else IntervalValue(value, low, high, method=how)


@dataclass(frozen=True, slots=True)
class BoardWinRates:
    """The win rates of a board, the best first."""

    models: tuple[ModelWinRate, ...]
    n_columns: int
    order: OrderDependence  # among the best models
    n_ordered: int
    why_no_intervals: str

    def lines(self) -> list[str]:
        """Return the lines to print below the table."""
        order = self.order
        said = (
            f"{order.n_dependent:,} of {order.n_pairs:,} pairs of the best {self.n_ordered} models change places "
            "beside only some of the others"
        )
        if order.example is not None:
            first, second, others = order.example
            names = [each.model for each in self.models[: self.n_ordered]]
            beside = ", ".join(names[at] for at in others) or "nobody else"
            said += f": {names[first]} and {names[second]}, for example, beside {beside}"
        return [said, *([f"No intervals: {self.why_no_intervals}"] if self.why_no_intervals else [])]

    def document(self) -> Document:
        """Return the rates, and what follows from which models are compared."""
        rows = [
            (
                each.model,
                shown_value(each.mean_win_rate, proportion=True),
                shown_interval(each.low, each.high, proportion=True) or NOTHING,
                shown_value(each.mean, proportion=True),
                shown_interval(each.mean_low, each.mean_high, proportion=True) or NOTHING,
                f"{each.n_columns} of {self.n_columns}",
            )
            for each in self.models
        ]
        columns = ("model", "mean win rate", "95% interval", "mean score", "95% interval", "columns")
        return document(table(columns, rows), [Paragraph(line) for line in self.lines()])

    def to_json(self) -> JsonValue:
        """Return the rates with stable names."""
        order = {"n_models": self.n_ordered, "n_pairs": self.order.n_pairs, "n_dependent": self.order.n_dependent}
        return {"models": json_of(self.models), "order": order, "why_no_intervals": self.why_no_intervals or None}


def board_win_rates(table: BoardTable, runs: StoredRuns | None) -> BoardWinRates:
    """Return both aggregates of each row of a board that is a model; uploads do not count for others.

    Raises: UsageError for a board with fewer than two models.
    """
    rows = [row for row in table.rows if not row.is_baseline and not row.is_upload]
    if len(rows) < 2:
        raise UsageError(f"the board has {counted(len(rows), 'model')}; win rates need at least two")
    added = {(WIN_RATES, TITLE), (WIN_RATES, MEAN_TITLE)}
    added |= {(column.category, column.title) for column in rating_columns(table)}
    columns = [
        column for column in table.columns if (column.category, column.title) not in added and not column.is_neutral
    ]
    higher = [column.higher_is_better for column in columns]
    is_one_way = len({*higher}) == 1 and all(column.is_share for column in columns)
    values = np.array(
        [
            [np.nan if (cell := row.cells.get(column.key)) is None else cell.number.value for column in columns]
            for row in rows
        ]
    )
    rates, means, why = helm_win_rates(values, higher), helm_mean_scores(values), ""
    unknown = np.full((2, len(rows)), np.nan)
    rate_ends, mean_ends = unknown, unknown
    samples = _samples(rows, columns, runs)
    if isinstance(samples, str):
        why = samples
    else:
        drawn = resampled_values(samples)
        rate_ends, mean_ends = (
            np.nanquantile(each, [0.025, 0.975], axis=0)
            for each in (helm_win_rates(drawn, higher), helm_mean_scores(drawn))
        )
    order = np.argsort(np.where(np.isfinite(rates), -rates, np.inf), kind="stable")
    best = [at for at in order[:MOST_ORDERED] if np.isfinite(rates[at])]
    models = [
        ModelWinRate(
            rows[at].id,
            rows[at].model,
            *_with_ends(rates[at], rate_ends[:, at]),
            *(_with_ends(means[at], mean_ends[:, at]) if is_one_way else (None, None, None)),
            int(np.isfinite(values[at]).sum()),
        )
        for at in order
    ]
    return BoardWinRates(tuple(models), len(columns), order_dependence(values[best], higher), len(best), why)


def with_win_rates(table: BoardTable, runs: StoredRuns | None) -> BoardTable:
    """Return a table with both aggregates as its first columns, which are in no average and decide no rank.

    Columns of different directions or units have no mean score, so no column of it. A table with fewer than two models
    is returned as it is.

    Raises: DataError where a score column has the same title.
    """
    titles = [column.title for column in table.columns]
    taken = [title for title in NOTES if title in titles]
    if taken:
        raise DataError(f"win_rates adds the column '{taken[0]}', which is also a score; choose another title for that")
    try:
        rates = board_win_rates(table, runs)
    except UsageError:
        return table
    by_row = {each.row: each for each in rates.models}
    columns, rows = list(table.columns), list(table.rows)
    for title, note in reversed(NOTES.items()):
        numbers = {name: each.aggregate(title) for name, each in by_row.items()}
        if all(number is None for number in numbers.values()):
            continue
        key = column_keys([*(column.title for column in columns), title])[title]
        said = note.format(n=rates.n_columns)
        if rates.why_no_intervals:
            said += f"; no intervals: {rates.why_no_intervals}"
        columns.insert(0, ScoreColumn(key, title, WIN_RATES, weight=0.0, note=said))
        rows = [
            row if (number := numbers.get(row.id)) is None else replace(row, cells={**row.cells, key: RowScore(number)})
            for row in rows
        ]
    version = content_hash([table.version, "win rates and mean scores"]).rpartition(":")[2][:16]
    return replace(table, columns=tuple(columns), rows=tuple(rows), version=version)


def _with_ends(value: float, ends: Floats) -> tuple[float | None, float | None, float | None]:
    """Return a value with the ends of its interval, which contains it; None if unknown."""
    if not np.isfinite(value):
        return None, None, None
    low, high = (float(end) if np.isfinite(end) else None for end in ends)
    if low is None or high is None:
        return float(value), None, None
    return float(value), min(low, float(value)), max(high, float(value))


def _samples(rows: Sequence[BoardRow], columns: Sequence[ScoreColumn], runs: StoredRuns | None) -> list[Floats] | str:
    """Return the scores of each column's samples, [samples, models], or why they are not all stored."""
    if len(rows) > MOST_RESAMPLED:
        return f"the board has {len(rows):,} models; at most {MOST_RESAMPLED} are resampled"
    tables = []
    for column in columns:
        of_rows: list[Mapping[str, float] | None] = []
        for row in rows:
            cell = row.cells.get(column.key)
            scores = None if cell is None else _scores_of(cell, runs)
            if cell is not None and scores is None:
                return f"the samples of {row.model}'s {column.title} are not stored, or their mean is not its value"
            of_rows.append(scores)
        known = [set(scores) for scores in of_rows if scores is not None]
        shared = sorted(set.intersection(*known)) if known else []
        if known and any(len(own) != len(shared) for own in known):
            return f"the models have different samples of {column.title}"
        nothing = float("nan")
        tables.append(
            np.array([[nothing if own is None else own[key] for own in of_rows] for key in shared])
            if shared
            else np.full((1, len(rows)), nothing)
        )
    return tables


def _scores_of(cell: RowScore, runs: StoredRuns | None) -> Mapping[str, float] | None:
    """Return the scores behind a cell by sample; None unless their mean is the cell's value."""
    if runs is None or cell.run_id is None or cell.task is None:
        return None
    for scored in runs.scores_of(cell.run_id, cell.task):
        own = _by_sample(scored)
        if own and abs(sum(own.values()) / len(own) - cell.number.value) < 1e-9:
            return own
    return None


def _by_sample(rows: Sequence[ScoreRow]) -> dict[str, float]:
    seen: dict[str, int] = {}
    values: dict[str, float] = {}
    for row in sorted(rows, key=lambda row: row.sample_index):
        seen[row.sample_sha256] = seen.get(row.sample_sha256, 0) + 1
        values[f"{row.sample_sha256} {seen[row.sample_sha256]}"] = row_value(row)
    return values
