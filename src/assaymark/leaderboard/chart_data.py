"""Data for a board's charts: bars of a column, best score over time, score by size, speed or price, a heat map.

Also the strengths of a model.

Everything is computed from the rows that a view leaves, so a chart follows the filters of the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import numpy.typing as npt

from assaymark.leaderboard.rows import BoardRow, IntervalValue, ScoreColumn, averaged
from assaymark.leaderboard.shown import SelectedRows, ShownRow
from assaymark.leaderboard.table import BoardTable
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import two_sided_z

MOST_HEAT_ROWS = 30
MOST_BARS = 30
DAY = len("2024-01-31")  # characters of a date without the time
YEARS = range(1900, 2100)
FEWEST_MODELS = 10  # complete rows that a column's expectation is fitted to
FEWEST_COLUMNS = 3
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A model that scored above all that were dated before it."""

    date: str  # ISO 8601, a day
    model: str
    number: IntervalValue
    mark: str = ""  # of a row from files


@dataclass(frozen=True, slots=True)
class Measure:
    """A positive number of models, such as size or price, against which an average is plotted."""

    key: str  # of `columns.FACTS`
    name: str  # in a heading
    title: str  # of the axis
    unit: str  # behind a number of the axis, with its space
    words: str  # behind a number in a sentence, with its space
    higher_is_better: bool
    known: str  # what a row must state, in a sentence
    front: str  # who is compared on the front, in a sentence
    note: str = ""  # what a reader of the chart must know


MEASURES: Mapping[str, Measure] = {
    "params": Measure(
        "params", "size", "Parameters", " B", " B", False, "a known number of parameters", "with as few parameters"
    ),
    "speed": Measure(
        "speed",
        "speed",
        "Tokens per second",
        "",
        " tokens per second",
        True,
        "a measured speed",
        "as fast",
        "Faster models are to the right. Speeds can be compared only where they were measured on one machine.",
    ),
    "price": Measure(
        "price",
        "price",
        "Dollars per million tokens",
        "",
        " dollars per million tokens",
        False,
        "a known price above zero",
        "at this price or a lower one",
        "A price is of three tokens read and one generated; models also differ in how many tokens they "
        "need for an answer.",
    ),
}


@dataclass(frozen=True, slots=True)
class ColumnBar:
    """A row's number in one column."""

    model: str
    is_baseline: bool
    number: IntervalValue
    mark: str = ""  # of a row from files


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """A model with its value of a measure."""

    model: str
    measure: float  # billions of parameters, tokens per second, or US dollars per million tokens
    number: IntervalValue
    is_on_front: bool  # no model that is at least as good by the measure scores as high
    mark: str = ""  # of a row from files


@dataclass(frozen=True, slots=True)
class MeasuredModels:
    """Models by a measure, the best first: the smallest, fastest or cheapest. Shapes: each array [models].

    n_left_out: compared models whose measure is not known, or is not above zero.
    """

    rows: SelectedRows
    n_left_out: int
    places: npt.NDArray[np.int64]  # among the rows
    measures: Floats
    values: Floats
    is_on_front: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.places)

    def models(self, among: npt.NDArray[np.bool_] | None = None) -> Iterator[MeasuredModel]:
        """Yield the models one by one, or some of them."""
        for at in range(len(self)) if among is None else np.flatnonzero(among).tolist():
            row = self.rows.row(int(self.places[at]))
            on_front = bool(self.is_on_front[at])
            yield MeasuredModel(row.row.model, float(self.measures[at]), _average(row), on_front, row.row.mark)


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One score among those of its column."""

    number: IntervalValue
    standing: float | None  # share of the map's rows with a lower score, ties half; in [0, 1]. None: all are equal


@dataclass(frozen=True, slots=True)
class HeatMap:
    """The first rows by all columns."""

    columns: tuple[ScoreColumn, ...]
    rows: tuple[tuple[str, tuple[HeatCell | None, ...]], ...]  # model, and a cell per column
    marks: tuple[str, ...]  # of the rows from files, by row


@dataclass(frozen=True, slots=True)
class Residual:
    """A model's score in one column minus its expectation from the other columns. Shares in [0, 1]."""

    column: ScoreColumn
    value: float
    low: float | None  # None where the scores' errors are not known
    high: float | None
    spread: float  # standard deviation of the residuals of all models
    n_models: int


def best_over_time(table: BoardTable, rows: SelectedRows) -> list[TimedModel]:
    """Return the compared models that raised the best average, by date; rows without a date are left out."""
    days = _days(table, rows)
    dated = np.flatnonzero((days > 0) & rows.is_compared)
    ordered = dated[np.lexsort((-rows.values[dated], days[dated]))]
    best = [(int(days[at]), rows.row(at)) for at in ordered[_above_all_before(rows.values[ordered])].tolist()]
    return [
        TimedModel(date.fromordinal(day).isoformat(), row.row.model, _average(row), row.row.mark) for day, row in best
    ]


def last_day(table: BoardTable, rows: SelectedRows) -> str:
    """Return the last date among rows that have one, ISO 8601."""
    return date.fromordinal(int(_days(table, rows).max())).isoformat()


def _days(table: BoardTable, rows: SelectedRows) -> npt.NDArray[np.int64]:
    """Return the rows' dates as ordinals; 0 for a row without a plausible date: ISO 8601, of these two centuries."""
    texts = table.index.texts("date")
    return np.array([*map(_day, texts.distinct), 0], dtype=np.int64)[texts.codes[rows.places]]


def _day(text: str) -> int:
    try:
        day = date.fromisoformat(text[:DAY])
    except ValueError:
        return 0
    return day.toordinal() if day.year in YEARS else 0


def score_against(table: BoardTable, rows: SelectedRows, measure: Measure) -> MeasuredModels:
    """Return the compared models that have a measure, the best by it first, with the Pareto front marked."""
    measures = table.index.numbers(measure.key)[rows.places]
    known = np.flatnonzero(np.isfinite(measures) & (measures > 0) & rows.is_compared)
    n_left_out = int(np.count_nonzero(rows.is_compared)) - len(known)
    order = -measures if measure.higher_is_better else measures
    known = known[np.lexsort((-rows.values[known], order[known]))]
    values = rows.values[known]
    return MeasuredModels(rows, n_left_out, known, measures[known], values, _above_all_before(values))


def column_bars(rows: SelectedRows, column: ScoreColumn) -> list[ColumnBar]:
    """Return the first rows that have a number in a column, the best first; none where no model has one.

    Averages are those of the compared models, and of baselines over the same columns.

    rows: in the order in which they are taken. column: a score column, or one with the key "average".
    """
    bars: list[ColumnBar] = []
    shared = rows.shared
    for at in range(len(rows)):
        if len(bars) == MOST_BARS:
            break
        row = rows.row(at)
        is_same = rows.averaged_of(row) == shared if row.row.is_baseline else rows.is_compared[at]
        average = row.average if is_same else None
        scored = average if column.key == "average" else row.cells.get(column.key)
        if scored is not None:
            bars.append(ColumnBar(row.row.model, row.row.is_baseline, scored.number, row.row.mark))
    if all(bar.is_baseline for bar in bars):
        return []
    bars.sort(key=lambda bar: bar.number.value, reverse=column.higher_is_better)  # baselines stand among the models
    return bars


def _above_all_before(values: Floats) -> npt.NDArray[np.bool_]:
    best = np.maximum.accumulate(np.concatenate([[-np.inf], values]))
    return np.asarray(values > best[:-1])


def _average(row: ShownRow) -> IntervalValue:
    if row.average is None:
        raise ValueError("a row without an average has no rank")
    return row.average.number


def heat_map(rows: SelectedRows, columns: Sequence[ScoreColumn]) -> HeatMap:
    """Return the first rows by all columns, each score with its standing among them."""
    first = [rows.row(at) for at in range(min(len(rows), MOST_HEAT_ROWS))]
    values = {
        column.key: np.sort([row.cells[column.key].number.value for row in first if column.key in row.cells])
        for column in columns
    }
    heat_rows = [
        (row.row.model, tuple(_heat_cell(row, column, values[column.key]) for column in columns)) for row in first
    ]
    return HeatMap(tuple(columns), tuple(heat_rows), tuple(row.row.mark for row in first))


def _heat_cell(row: ShownRow, column: ScoreColumn, values: Floats) -> HeatCell | None:
    cell = row.cells.get(column.key)
    if cell is None:
        return None
    if column.is_neutral or values[0] == values[-1]:
        return HeatCell(cell.number, None)
    low, high = (int(np.searchsorted(values, cell.number.value, side)) for side in ("left", "right"))
    standing = (low + high) / 2 / len(values)
    return HeatCell(cell.number, standing if column.higher_is_better else 1 - standing)


def profile(table: BoardTable, row: BoardRow) -> list[Residual]:
    """Return a row's residuals, one per column that is a share; none where too little is known.

    A column is regressed (least squares, with an intercept) on the mean of the other columns over all complete rows
    but this one, so a residual says whether the model is better or worse at it than models of its overall level. The
    95% interval takes the errors of the row's own scores as independent, and the fitted line as known.
    """
    columns = averaged(table.columns)
    if len(columns) < FEWEST_COLUMNS or any(column.key not in row.cells for column in columns):
        return []
    values = np.column_stack([table.index.scores(column.key).values for column in columns])
    others = table.index.is_complete & table.index.may_rank
    others[table.places[row.id]] = False
    values = values[others & np.isfinite(values).all(axis=1)]
    if len(values) < FEWEST_MODELS:
        return []
    own = [row.cells[column.key].number for column in columns]
    return [_residual(column, values, own, at) for at, column in enumerate(columns)]


def _residual(column: ScoreColumn, values: Floats, own: Sequence[IntervalValue], at: int) -> Residual:
    n_columns = values.shape[1]
    rest = (values.sum(axis=1) - values[:, at]) / (n_columns - 1)
    spread_of_rest = float(((rest - rest.mean()) ** 2).sum())
    slope = 0.0
    if spread_of_rest > 0:
        slope = float(((rest - rest.mean()) * (values[:, at] - values[:, at].mean())).sum()) / spread_of_rest
    intercept = float(values[:, at].mean() - slope * rest.mean())
    fitted = values[:, at] - intercept - slope * rest
    own_rest = sum(number.value for place, number in enumerate(own) if place != at) / (n_columns - 1)
    value = own[at].value - intercept - slope * own_rest
    error = _error(own, at, slope)
    reach = None if error is None else two_sided_z(CONFIDENCE) * error
    return Residual(
        column, value, None if reach is None else value - reach, None if reach is None else value + reach,
        float(np.sqrt((fitted**2).sum() / (len(fitted) - 2))), len(values)
    )  # fmt: skip


def _error(own: Sequence[IntervalValue], at: int, slope: float) -> float | None:
    """Return a residual's standard error: of its score, and of the other columns' mean times the slope."""
    errors = [number.stderr for number in own]
    known = [error for error in errors if error is not None]
    if len(known) != len(errors):
        return None
    rest = sum(error * error for place, error in enumerate(known) if place != at)
    return float(np.sqrt(known[at] ** 2 + (slope / (len(own) - 1)) ** 2 * rest))
