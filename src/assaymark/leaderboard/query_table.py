"""A board's rows that a search finds, as a document."""

from collections.abc import Sequence

from assaymark.documents.blocks import Column, table
from assaymark.documents.document import Document, document
from assaymark.errors import UsageError
from assaymark.leaderboard.rows import IntervalValue, ScoreColumn, averaged
from assaymark.leaderboard.shown import ShownRow, all_rows, show_table
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.view import parse_view


def found_rows(
    site: Site, query: str, sort: str, hide: Sequence[str] = ()
) -> tuple[Sequence[ScoreColumn], list[ShownRow], int]:
    """Return a board's columns, the rows that a search finds, in order, and how many rows there are.

    Args:
        site: of one board.
        query: in the search language.
        sort: a column, with `-` for descending.
        hide: what is left out besides baselines, as keys of `view.HIDDEN_BY`.

    Raises: UsageError for a search or an order that cannot be read.
    """
    board = next(iter(site.boards.values()))
    whole = site.table(board)
    pairs = [("q", query), ("sort", sort), ("hide", ",".join({*hide, "baselines"}))]
    view = parse_view(pairs, [column.key for column in whole.columns])
    visible = show_table(whole, view, board.shown_columns)
    if visible.problems:
        raise UsageError(visible.problems[0])
    return whole.columns, all_rows(whole, view, board.shown_columns), visible.n_models


def rows_document(columns: Sequence[ScoreColumn], rows: Sequence[ShownRow]) -> Document:
    """Return rows as a table; an average of some columns says of how many."""
    n_averaged = len(averaged(columns))
    body = []
    for row in rows:
        rank = "" if row.rank is None else f"{row.rank} ({row.best}–{row.worst})"
        average = _number_text(row.average.number if row.average else None, is_share=True)
        if row.average is not None and row.average.n_columns < n_averaged:
            average += f" ({row.average.n_columns} of {n_averaged})"
        cells = [row.cells.get(column.key) for column in columns]
        numbers = [
            _number_text(cell.number if cell else None, is_share=column.is_share, interval=False)
            for cell, column in zip(cells, columns, strict=True)
        ]
        body.append((rank, row.row.model + row.row.mark, average, *numbers))
    titles: list[str | Column] = ["rank", Column("model", "text"), "average", *(column.title for column in columns)]
    return document(table(titles, body, n_text=0))


def _number_text(number: IntervalValue | None, *, is_share: bool, interval: bool = True) -> str:
    if number is None:
        return "–"
    scale = 100.0 if is_share else 1.0
    ends = (
        ""
        if not interval or number.low is None or number.high is None
        else f" ±{scale * (number.high - number.low) / 2:.1f}"
    )
    return f"{scale * number.value:.1f}{ends}"
