"""A published table without a board's file: its layout is recognised by its headings."""

import csv
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.leaderboard.board import Board, TableFormat, TableSource
from assaymark.leaderboard.board_init import number_headings
from assaymark.leaderboard.keys import slug

__all__ = ["board_of_table"]

_KNOWN: dict[TableFormat, frozenset[str]] = {
    "open-llm-v1": frozenset({"fullname", "average", "arc", "hellaswag"}),
    "open-llm-v2": frozenset({"model_name", "model_average_score", "evaluations_ifeval_value"}),
}


def board_of_table(path: Path, form: TableFormat | None = None) -> Board:
    """Return the board of a CSV file, its title the file's name; without `form` the layout is recognised.

    Raises: UsageError where there is no such file; DataError for one that is no table of models.
    """
    if not path.is_file():
        raise UsageError(f"there is no file {path}; expected a CSV file with a row for each model")
    found = form or _format_of(path)
    columns = {name: name for name in number_headings(path)} if found == "csv" else {}
    name = slug(path.stem)
    return Board(name=name, title=path.stem, table=TableSource(path.resolve(), found, columns))


def _format_of(path: Path) -> TableFormat:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            headings = set(next(csv.reader(file), ()))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: is no CSV file in UTF-8: {error}") from error
    return next((form for form, needed in _KNOWN.items() if needed <= headings), "csv")
