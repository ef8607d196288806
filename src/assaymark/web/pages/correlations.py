"""How well a board's benchmarks agree with the ratings beside them."""

from dataclasses import dataclass

from assaymark.leaderboard.board import Board
from assaymark.leaderboard.correlations import BenchmarkCorrelation, board_correlations, correlations_json
from assaymark.leaderboard.rating_columns import rating_columns
from assaymark.leaderboard.rows import ScoreColumn
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import Table
from assaymark.records import JsonValue

__all__ = ["CorrelationsPage", "correlations_page"]


@dataclass(frozen=True)
class CorrelationsPage:
    """A board's correlations, for each rating; none where the board has no ratings."""

    board: Board
    table: Table
    sections: tuple[tuple[ScoreColumn, tuple[BenchmarkCorrelation, ...]], ...]

    def to_json(self) -> JsonValue:
        """Return what the page shows."""
        return {
            "board": self.board.name,
            "version": self.table.version,
            "correlations": correlations_json([one for _, listed in self.sections for one in listed]),
        }


def correlations_page(site: Site, name: str) -> CorrelationsPage:
    """Return the page of a board. Raises: UnknownName."""
    board = site.board(name)
    table = site.table(board)
    ratings = rating_columns(table)
    found = board_correlations(table) if ratings else []
    sections = ((column, tuple(one for one in found if one.rating == column.key)) for column in ratings)
    return CorrelationsPage(board, table, tuple(sections))
