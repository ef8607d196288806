"""Agreement of each benchmark of a board with the board's ratings, over models."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from assaymark.documents.blocks import Block, Heading, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING
from assaymark.errors import UsageError
from assaymark.leaderboard.rating_columns import rating_columns
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.win_rates import WIN_RATES
from assaymark.records import JsonValue
from assaymark.statistics.correlation import Correlation, correlations

AVERAGE = "average"


@dataclass(frozen=True, slots=True)
class BenchmarkCorrelation:
    """One benchmark against one rating. Signs are as if higher were better in both."""

    rating: str  # keys and titles of the columns
    rating_title: str
    benchmark: str
    benchmark_title: str
    spearman: Correlation
    pearson: Correlation

    @property
    def n(self) -> int:
        """Models with both values."""
        return self.spearman.n


@dataclass(frozen=True, slots=True)
class BoardCorrelations:
    """The correlations of a board, by rating."""

    ratings: Mapping[ScoreColumn, tuple[BenchmarkCorrelation, ...]]

    def document(self) -> Document:
        """Return a table for each rating."""
        columns = ("benchmark", "Spearman", "95% interval", "Pearson", "95% interval", "models")
        blocks: list[Block] = []
        for column, rows in self.ratings.items():
            body = [
                (each.benchmark_title, *_cells(each.spearman), *_cells(each.pearson), f"{each.n:,}") for each in rows
            ]
            blocks += [Heading(f"Benchmarks and {column.title}"), Paragraph(f"{column.title}: {column.note}."),
                       table(columns, body)]  # fmt: skip
        return document(blocks)

    def to_json(self) -> list[JsonValue]:
        """Return the correlations with stable names; undefined is None."""
        return [asdict(each) | {"n": each.n} for rows in self.ratings.values() for each in rows]


def board_correlations(table: BoardTable, *, confidence: float = 0.95) -> BoardCorrelations:
    """Return the correlation of each benchmark, and of the average, with each rating; the highest Spearman's first.

    A model counts once: with several rows, by the mean of each value over them.

    Raises: UsageError for a board without ratings.
    """
    ratings = rating_columns(table)
    if not ratings:
        raise UsageError("the board has no ratings; add `ratings: {file: ratings.csv, column: Arena}` to its file")
    benchmarks = [(column.key, column.title, column) for column in table.columns
                  if column not in ratings and column.category != WIN_RATES]  # fmt: skip
    found = {}
    for rating in ratings:
        of_models = _values(table, rating)
        of_rating = [
            _correlated(rating, of_models, key, title, _values(table, column), confidence)
            for key, title, column in [(AVERAGE, "Average", None), *benchmarks]
        ]
        of_rating.sort(key=lambda each: 2.0 if each.spearman.value is None else -each.spearman.value)
        found[rating] = tuple(of_rating)
    return BoardCorrelations(found)


def _cells(correlation: Correlation) -> tuple[str, str]:
    value = NOTHING if correlation.value is None else f"{correlation.value:.2f}"
    if correlation.low is None or correlation.high is None:
        return value, NOTHING
    return value, f"{correlation.low:.2f} to {correlation.high:.2f}"


def _correlated(
    rating: ScoreColumn, ratings: dict[str, float], key: str, title: str, scores: dict[str, float], confidence: float
) -> BenchmarkCorrelation:
    models = sorted(ratings.keys() & scores.keys())
    values = [np.array([by_model[model] for model in models], dtype=np.float64) for by_model in (scores, ratings)]
    spearman, pearson = correlations(values[0], values[1], confidence=confidence)
    return BenchmarkCorrelation(rating.key, rating.title, key, title, spearman, pearson)


def _values(table: BoardTable, column: ScoreColumn | None) -> dict[str, float]:
    """Return each model's value, of a complete average if no column is given; higher is better."""
    by_model: dict[str, list[float]] = {}
    for row in table.rows:
        if row.is_baseline or row.is_upload:
            continue
        if column is not None:
            cell = row.cells.get(column.key)
            value = None if cell is None else cell.number.value if column.higher_is_better else -cell.number.value
        else:
            is_complete = row.average is not None and row.average.n_columns == table.n_averaged
            value = row.average.number.value if row.average is not None and is_complete else None
        if value is not None:
            by_model.setdefault(row.model, []).append(value)
    return {model: sum(values) / len(values) for model, values in by_model.items()}
