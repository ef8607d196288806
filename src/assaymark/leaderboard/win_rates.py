"""A board's models by HELM's mean win rate, beside the mean over the columns that each has.

The interval is of resampled samples, where those of every value are stored; a board of published values has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.table import Table

from assaymark.errors import DataError, UsageError
from assaymark.leaderboard.board import column_keys
from assaymark.leaderboard.rows import BoardRow, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.records import JsonValue, content_hash
from assaymark.results.console import Text
from assaymark.results.evidence.records import ScoreRow, row_value
from assaymark.results.numbers import NOTHING, shown_interval, shown_value
from assaymark.results.views.cells import plain_table
from assaymark.statistics.arrays import Floats
from assaymark.statistics.helm_win_rates import OrderDependence, helm_win_rates, order_dependence, resampled_win_rates

__all__ = ["WIN_RATES", "BoardWinRates", "ModelWinRate", "board_win_rates", "with_win_rates"]

WIN_RATES = "Win rates"
"""The category of the column with the mean win rate, which no score column is ever in."""
TITLE = "Mean win rate"

MOST_ORDERED = 12  # models, the best ones, whose order is tried beside fewer others
MOST_RESAMPLED = 60  # models: with more the intervals would take minutes


@dataclass(frozen=True, slots=True)
class ModelWinRate:
    """One row of the board. Undefined is None."""

    row: str
    model: str
    win_rate: float | None
    low: float | None
    high: float | None
    mean: float | None  # over the columns that it has; None where the columns have different directions
    n_columns: int


@dataclass(frozen=True, slots=True)
class BoardWinRates:
    """The win rates of a board, the best first."""

    models: tuple[ModelWinRate, ...]
    n_columns: int
    order: OrderDependence  # among the best models
    n_ordered: int
    why_no_intervals: str

    def lines(self) -> list[str]:
        """Return what to print below the table."""
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
        return [said, *([f"no intervals: {self.why_no_intervals}"] if self.why_no_intervals else [])]

    def table(self) -> Table:
        """Return the rates as a table for the terminal."""
        table = plain_table()
        table.add_column("model", overflow="fold")
        for header in ("mean win rate", "95% interval", "mean", "columns"):
            table.add_column(header, justify="right", no_wrap=True)
        for each in self.models:
            table.add_row(
                Text(each.model),
                shown_value(each.win_rate, proportion=True),
                shown_interval(each.low, each.high, proportion=True) or NOTHING,
                shown_value(each.mean, proportion=True),
                f"{each.n_columns} of {self.n_columns}",
            )
        return table

    def to_json(self) -> JsonValue:
        """Return the rates with stable names."""
        models = [
            {
                "row": each.row,
                "model": each.model,
                "mean_win_rate": each.win_rate,
                "low": each.low,
                "high": each.high,
                "mean": each.mean,
                "n_columns": each.n_columns,
            }
            for each in self.models
        ]
        order = {"n_models": self.n_ordered, "n_pairs": self.order.n_pairs, "n_dependent": self.order.n_dependent}
        return {"models": models, "order": order, "why_no_intervals": self.why_no_intervals or None}


def board_win_rates(table: BoardTable, runs: StoredRuns | None) -> BoardWinRates:
    """Return the mean win rate of each row of a board that is a model; uploads do not count for others.

    Raises: UsageError for a board with fewer than two models.
    """
    rows = [row for row in table.rows if not row.is_baseline and not row.is_upload]
    if len(rows) < 2:
        raise UsageError(f"the board has {len(rows)} model(s); win rates need at least two")
    columns = [column for column in table.columns if (column.category, column.title) != (WIN_RATES, TITLE)]
    higher = [column.higher_is_better for column in columns]
    values = np.array([[_value(row.cells.get(column.key)) for column in columns] for row in rows])
    rates, ends, why = helm_win_rates(values, higher), None, ""
    samples = _samples(rows, columns, runs)
    if isinstance(samples, str):
        why = samples
    else:
        ends = np.nanquantile(resampled_win_rates(samples, higher), [0.025, 0.975], axis=0)
    order = np.argsort(np.where(np.isfinite(rates), -rates, np.inf), kind="stable")
    best = [at for at in order[:MOST_ORDERED] if np.isfinite(rates[at])]
    is_one_way = len({*higher}) == 1 and all(column.is_share for column in columns)
    models = [
        ModelWinRate(
            rows[at].id,
            rows[at].model,
            _known(rates[at]),
            None if ends is None else _known(min(ends[0, at], rates[at])),
            None if ends is None else _known(max(ends[1, at], rates[at])),
            float(np.nanmean(values[at])) if is_one_way and np.isfinite(values[at]).any() else None,
            int(np.isfinite(values[at]).sum()),
        )
        for at in order
    ]
    return BoardWinRates(tuple(models), len(columns), order_dependence(values[best], higher), len(best), why)


def with_win_rates(table: BoardTable, runs: StoredRuns | None) -> BoardTable:
    """Return a table with the mean win rate as its first column, which is in no average and decides no rank.

    A table with fewer than two models is returned as it is.

    Raises: DataError where a score column has the same title.
    """
    titles = [column.title for column in table.columns]
    if TITLE in titles:
        raise DataError(f"win_rates adds the column '{TITLE}', which is also a score; choose another title for that")
    try:
        rates = board_win_rates(table, runs)
    except UsageError:
        return table
    key = column_keys([*titles, TITLE])[TITLE]
    note = f"HELM's mean win rate over {rates.n_columns} columns; it depends on which models are listed"
    if rates.why_no_intervals:
        note += f"; no intervals: {rates.why_no_intervals}"
    column = ScoreColumn(key, TITLE, WIN_RATES, weight=0.0, note=note)
    by_row = {each.row: each for each in rates.models if each.win_rate is not None}
    rows = []
    for row in table.rows:
        each = by_row.get(row.id)
        if each is not None and each.win_rate is not None:
            how = "" if each.low is None else "percentiles over resampled samples"
            number = IntervalValue(each.win_rate, each.low, each.high, method=how)
            row = replace(row, cells={**row.cells, key: RowScore(number)})  # noqa: PLW2901 - the row with its cell
        rows.append(row)
    version = content_hash([table.version, "win rates"]).rpartition(":")[2][:16]
    return replace(table, columns=(column, *table.columns), rows=tuple(rows), version=version)


def _value(cell: RowScore | None) -> float:
    return float("nan") if cell is None else cell.number.value


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


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
