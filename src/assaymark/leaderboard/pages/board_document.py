"""The pages of a board that are one document: correlations with ratings, and win rates."""

from collections.abc import Mapping
from dataclasses import dataclass

from assaymark.documents.blocks import Paragraph
from assaymark.documents.document import Document, document
from assaymark.errors import UsageError
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.correlations import board_correlations
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.win_rates import board_win_rates
from assaymark.records import JsonValue
from assaymark.web.render import DocumentPage

CORRELATED = (
    "Intervals are percentiles of 2,000 bootstrap samples of the models. A model with several rows counts once, with "
    "the mean of its scores. The models are those that somebody chose to evaluate and to rate; over a narrower range "
    "of models the correlation is lower."
)
RATED = (
    "Both are by HELM's rules. A win rate is, over the columns that a model has, the share of the other models with a "
    "value that it beats; a tie counts half, and a column with fewer than two values is passed over. It depends on who "
    "else is listed; the mean score, over the columns that a model has, does not. Intervals are of samples that are "
    "drawn alike for all models."
)
NOT_ASKED = "This board shows no win rates; its file can ask for them: win_rates: true"


@dataclass(frozen=True, kw_only=True)
class BoardDocument(DocumentPage):
    """A result of a board; without a legend the document says why there is none."""

    board: Board


def correlations_page(site: Site, name: str) -> BoardDocument:
    """Return the correlations of a board. Raises: UnknownName."""
    board = site.board(name)
    table = site.table(board)
    try:
        found = board_correlations(table)
    except UsageError as error:
        return _page(board, table, "Correlations", _said(str(error)), {"correlations": []})
    return _page(board, table, "Correlations", found.document(), {"correlations": found.to_json()}, CORRELATED)


def win_rates_page(site: Site, name: str) -> BoardDocument:
    """Return the mean win rates of a board. Raises: UnknownName."""
    board = site.board(name)
    table = site.table(board)
    why = "" if board.win_rates else NOT_ASKED
    try:
        rates = None if why else board_win_rates(table, site.runs)
    except UsageError as error:
        rates, why = None, str(error)
    if rates is None:
        return _page(board, table, "Win rates", _said(why), {"win_rates": {"why": why}})
    return _page(board, table, "Win rates", rates.document(), {"win_rates": rates.to_json()}, RATED)


def _page(
    board: Board, table: BoardTable, title: str, shown: Document, result: Mapping[str, JsonValue], legend: str = ""
) -> BoardDocument:
    twin = {"board": board.name, "version": table.version, **result}
    return BoardDocument(board=board, title=title, document=shown, twin=twin, legend=legend)


def _said(why: str) -> Document:
    return document(Paragraph(f"{why[0].upper()}{why[1:]}."))
