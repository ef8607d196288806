"""Ratings of arenas, judges and studies as columns of a board, beside its scores.

A rating is not a share, so averages and ranks do not include it.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.arena.rating_documents import FEW_VOTES
from assaymark.arena.ratings import RatingSettings, rate
from assaymark.arena.vote_files import read_votes
from assaymark.errors import AssaymarkError, DataError
from assaymark.leaderboard.board import RatingSource, column_keys
from assaymark.leaderboard.rows import BoardRow, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.users_files import number_in
from assaymark.records import content_hash

CATEGORY = "Ratings"
"""The category of rating columns; a score column is never in it."""

LARGEST_FILE = 200 << 20


@dataclass(frozen=True, slots=True)
class _Rated:
    """The contents of one file: ratings by model name in lower case, and how they were made."""

    numbers: Mapping[str, IntervalValue]
    n_votes: Mapping[str, int]
    note: str


def with_ratings(table: BoardTable, sources: Sequence[RatingSource]) -> BoardTable:
    """Return a table with a column for each file of ratings or votes; models are matched by name, whatever the case.

    Raises: DataError for a file that holds neither, in one line that names it.
    """
    if not sources:
        return table
    titles = [column.title for column in table.columns]
    if taken := next((rating_source.title for rating_source in sources if rating_source.title in titles), None):
        raise DataError(f"ratings have the column '{taken}', which is also a score; choose another title")
    keys = column_keys([*titles, *(rating_source.title for rating_source in sources)])
    columns, cells = list(table.columns), [dict(row.cells) for row in table.rows]
    for source in sources:
        rated = _read(source)
        key = keys[source.title]
        n_matched: set[str] = set()
        for row, own in zip(table.rows, cells, strict=True):
            number = rated.numbers.get(row.model.lower())
            if number is not None and not row.is_baseline:
                own[key] = RowScore(number, n=rated.n_votes.get(row.model.lower()), is_share=False)
                n_matched.add(row.model.lower())
        note = f"{rated.note}; {len(n_matched):,} of its {len(rated.numbers):,} models are on this board"
        columns.append(ScoreColumn(key, source.title, CATEGORY, weight=0.0, is_share=False, note=note))
    rows: list[BoardRow] = [replace(row, cells=own) for row, own in zip(table.rows, cells, strict=True)]
    version = content_hash([table.version, rating_files(sources)]).rpartition(":")[2][:16]
    return replace(table, columns=tuple(columns), rows=tuple(rows), version=version)


def rating_columns(table: BoardTable) -> tuple[ScoreColumn, ...]:
    """Return the columns of a table that are ratings."""
    return tuple(column for column in table.columns if column.category == CATEGORY and not column.is_share)


def rating_files(sources: Sequence[RatingSource]) -> list[list[str | int]]:
    """Return a key that changes when a file of ratings does."""
    return [
        [str(source.file), source.title, source.language, source.file.stat().st_mtime_ns, source.file.stat().st_size]
        for source in sources
    ]


def _read(source: RatingSource) -> _Rated:
    if source.file.stat().st_size > LARGEST_FILE:
        raise DataError(f"{source.file}: expected at most {LARGEST_FILE >> 20} MiB of ratings or votes")
    headings = _headings(source)
    if source.rating in headings and source.model in headings:
        if source.language:
            raise DataError(f"{source.file}: has ratings and no votes, so none in {source.language} can be selected")
        return _ratings(source)
    try:
        ratings = rate(read_votes(source.file, language=source.language or None), RatingSettings())
    except AssaymarkError as error:
        if source.language:
            raise DataError(f"{source.file}: {error}") from error
        raise DataError(
            f"{source.file}: has no columns {source.model} and {source.rating}, and is not a file of votes: {error}"
        ) from error
    numbers = {
        rating.model.lower(): IntervalValue(rating.rating, rating.low, rating.high, method="sandwich")
        for rating in ratings.ratings
    }
    votes = {rating.model.lower(): rating.n_votes for rating in ratings.ratings}
    of = f" in {source.language}" if source.language else ""
    few = f"; fewer than {FEW_VOTES} say little" if of and ratings.n_votes < FEW_VOTES else ""
    return _Rated(numbers, votes, f"Bradley-Terry on {ratings.n_votes:,} votes{of}{few}, intervals by {ratings.by}")


def _headings(source: RatingSource) -> Sequence[str]:
    """Return the headings of a CSV file; none for other files."""
    if source.file.suffix.lower() != ".csv":
        return ()
    try:
        with source.file.open(encoding="utf-8-sig", newline="") as file:
            return csv.DictReader(file).fieldnames or ()
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{source.file}: is not a CSV file in UTF-8: {error}") from error


def _ratings(source: RatingSource) -> _Rated:
    numbers: dict[str, IntervalValue] = {}
    try:
        with source.file.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            for record in reader:
                name = (record.get(source.model) or "").strip().lower()
                value = number_in(source.file, reader.line_num, record, source.rating)
                if name and value is not None:
                    low, high = (
                        number_in(source.file, reader.line_num, record, end) for end in (source.low, source.high)
                    )
                    if low is None or high is None:
                        low = high = None
                    elif not low <= value <= high:
                        where = f"{source.file}, line {reader.line_num}: {source.rating} is {value:g}, and not from "
                        raise DataError(f"{where}{source.low} {low:g} to {source.high} {high:g}")
                    number = IntervalValue(value, low, high)
                    if numbers.setdefault(name, number) != number:
                        raise DataError(f"{source.file}, line {reader.line_num}: {name:.60} has another rating before")
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{source.file}: is not a CSV file in UTF-8: {error}") from error
    return _Rated(numbers, {}, f"column {source.rating} of {source.file.name}")
