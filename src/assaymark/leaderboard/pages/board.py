"""The list of boards, a board's table, and the page about a board."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assaymark.documents.numbers import counted
from assaymark.errors import DataError
from assaymark.leaderboard.about import TaskAbout, bibtex, column_help, command_of_board, tasks_about
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.columns import FACTS, ORIGINS, FactColumn
from assaymark.leaderboard.exports import shown_json
from assaymark.leaderboard.exposure import ModelExposure, SealedView, exposure_lines, exposures, sealed_views
from assaymark.leaderboard.own_rows import PLAIN_TEXT
from assaymark.leaderboard.rows import BoardRow, Issue, RowScore, ScoreColumn
from assaymark.leaderboard.shown import ShownRow, TablePage, show_table
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import HIDDEN_BY, PAGE_SIZES, View, parse_view
from assaymark.limits.shown_paths import without_folders
from assaymark.records import JsonValue
from assaymark.records.json_values import json_of
from assaymark.web.render import plain, shown_score

ON_CARD = 3  # rows at the top of a board that the list of boards shows


@dataclass(frozen=True)
class BoardCard:
    """A board on the list of boards."""

    board: Board
    table: BoardTable
    n_models: int  # a model in several setups counts once
    setup: str  # of the rows at the top: prompts, profile and limit where they are not the board's
    top: tuple[ShownRow, ...]  # the best of the largest group of rows that are ranked with each other


@dataclass(frozen=True)
class BoardsPage:
    """All boards."""

    boards: tuple[BoardCard, ...]
    failures: tuple[tuple[str, str], ...]  # boards whose table cannot be made, and why

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        listed = [
            {"name": board.board.name, "title": board.board.title, "rows": len(board.table.rows),
             "models": board.n_models, "columns": [column.key for column in board.table.columns],
             "runs": board.table.n_runs, "updated_at": board.table.updated_at, "version": board.table.version,
             "setup": board.setup,
             "top": [{"model": each.row.model, "rank": each.rank, "ranks": [each.best, each.worst]}
                     for each in board.top]}
            for board in self.boards
        ]  # fmt: skip
        return {"boards": listed, "failures": [list(failure) for failure in self.failures]}


@dataclass(frozen=True)
class ColumnOption:
    """One column in the column picker."""

    key: str
    title: str
    help: str
    shown: bool


@dataclass(frozen=True)
class BoardPage:
    """One board's table under a view."""

    board: Board
    table: BoardTable
    shown: TablePage
    categories: tuple[tuple[str, int], ...]  # of the visible score columns, with how many stand under each
    fact_options: tuple[ColumnOption, ...]
    score_options: tuple[ColumnOption, ...]
    hidden_by: Mapping[str, str]
    page_sizes: tuple[int, ...]
    origins: Mapping[str, str]  # with their titles
    with_params: bool  # some row states its number of parameters
    measures: Mapping[str, str]  # by column: what it measures, in words
    sealed: tuple[SealedView, ...] = ()
    exposures: tuple[ModelExposure, ...] = ()  # models on the previews and on the sealed rows

    @property
    def exposure_lines(self) -> list[str]:
        """An alarm for each model that does better on a preview, or that there is none."""
        return exposure_lines(self.exposures)

    @property
    def view(self) -> View:
        """The view."""
        return self.shown.view

    def explained(self, column: ScoreColumn, cell: RowScore) -> str:
        """Describe a score in words: raw, its error, metric, shots, samples and the method of its interval."""
        factor, unit = (100.0, " points") if column.is_share else (1.0, "")
        is_raw = cell.raw is not None and cell.raw.value != cell.number.value
        parts = [
            cell.reported,
            f"raw {shown_score(cell.raw, column.is_share)}" if is_raw else "",
            f"standard error {factor * cell.number.stderr:.2g}{unit}" if cell.number.stderr else "",
            ", ".join(column.metrics),
            ", ".join(counted(n, "shot") for n in column.shots),
            counted(cell.n, "sample") if cell.n else "",
            f"{cell.n_failed:,} failed" if cell.n_failed else "",
            f"interval: {cell.number.method}" if cell.number.method else "",
        ]
        return "; ".join(filter(None, parts))

    @property
    def without_direction(self) -> list[str]:
        """The visible columns of which it is not known whether more is better."""
        return [column.title for column in self.shown.scores if column.is_neutral]

    @property
    def n_before_scores(self) -> int:
        """Columns left of the scores."""
        return 1 + self.shown.with_rank + self.shown.with_average

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        visible = self.shown
        return {
            "board": self.board.name,
            "title": self.board.title,
            "version": self.table.version,
            "updated_at": self.table.updated_at,
            "view": dict(visible.view.pairs()),
            "problems": list(visible.problems),
            "n_models": visible.n_models,
            "n_matching": visible.n_matching,
            "page": visible.view.page,
            "n_pages": visible.n_pages,
            "columns": [plain(column) for column in visible.scores],
            "rows": [shown_json(row, visible.scores) for row in visible.rows],
            "n_issues": len(self.table.issues),
            "left_out": list(self.table.left_out),
            "sealed": plain(self.sealed),
            "exposures": json_of(self.exposures),
        }


@dataclass(frozen=True)
class AboutPage:
    """The page about a board and its benchmarks."""

    board: Board
    table: BoardTable
    tasks: tuple[TaskAbout, ...]
    command: str
    bibtex: str
    issues: tuple[Issue, ...]
    baselines: tuple[BoardRow, ...]
    unread: tuple[str, ...]  # records that could not be read

    json_keys = (
        "board=board.name title=board.title introduction=board.introduction about=board.about policy=board.policy "
        "faq=board.faq tasks command bibtex issues unread baselines=sources"
    )

    @property
    def sources(self) -> list[dict[str, str]]:
        """The baselines with where their values are from."""
        return [{"name": row.model, "source": row.citation} for row in self.baselines]


def boards_page(site: Site) -> BoardsPage:
    """Return the list of boards."""
    cards: list[BoardCard] = []
    failures: list[tuple[str, str]] = []
    for board in site.boards.values():
        try:
            table = site.table(board)
            cards.append(BoardCard(board, table, len(table.by_model), *_top(table)))
        except DataError as error:  # one faulty file does not affect the other boards
            failures.append((board.title, without_folders(str(error))))
    return BoardsPage(tuple(cards), tuple(failures))


def _top(table: BoardTable) -> tuple[str, tuple[ShownRow, ...]]:
    """Return the best rows of the largest group that is ranked together, and its setup; none for fewer than two models.

    Of groups of equal size, the one on all samples is preferred.
    """
    ranks, codes = table.index.ranks, table.index.rank_groups
    best: list[int] = []  # places of the group's rows
    for code in np.unique(codes[ranks.rank > 0]).tolist():
        places: list[int] = np.flatnonzero((codes == code) & (ranks.rank > 0)).tolist()
        if len({table.rows[at].model for at in places}) > 1:
            best = max(
                best,
                places,
                key=lambda group: (len(group), bool(group) and table.rows[group[0]].facts.get("limit") is None),
            )
    if not best:
        return "", ()
    setup = str(table.rows[best[0]].facts.get("prompts") or "")
    best.sort(key=lambda at: (ranks.rank[at], table.rows[at].model.lower()))
    top = [
        ShownRow(row, int(ranks.rank[at]), int(ranks.best[at]), int(ranks.worst[at]), row.average, row.cells)
        for at in best[:ON_CARD]
        for row in [table.rows[at]]
    ]
    return "" if setup == PLAIN_TEXT else setup, tuple(top)


def view_of(board: Board, table: BoardTable, pairs: Sequence[tuple[str, str]]) -> View:
    """Return the view of a page's parameters; choosing the board's own columns counts as no choice."""
    view = parse_view(pairs, [column.key for column in table.columns])
    own = {"rank", "average", *board.shown_columns, *(column.key for column in table.columns)}
    return replace(view, cols=None) if view.cols is not None and set(view.cols) == own else view


def board_page(site: Site, name: str, pairs: Sequence[tuple[str, str]]) -> BoardPage:
    """Return one board's table. Raises: UnknownName for a board that does not exist."""
    board = site.board(name)
    table = site.table(board)
    visible = show_table(table, view_of(board, table, pairs), board.shown_columns)
    facts = {column.key for column in visible.facts}
    scores = {column.key for column in visible.scores}
    return BoardPage(
        board,
        table,
        visible,
        tuple(_runs_of([column.category for column in visible.scores])),
        tuple(_fact_options(facts, table)),
        tuple(ColumnOption(column.key, column.title, column.note, column.key in scores) for column in table.columns),
        {key: title for key, title in HIDDEN_BY.items() if key in visible.view.hide or key in table.index.hidable},
        PAGE_SIZES,
        ORIGINS,
        "params" in table.index.known_facts,
        {column.key: column_help(column) for column in visible.scores},
        sealed_views(table, site.runs),
        exposures(table, site.runs),
    )


def _fact_options(chosen: set[str], table: BoardTable) -> list[ColumnOption]:
    """Return the columns that some row has a value in."""
    known = table.index.known_facts
    listed: list[FactColumn] = [column for column in FACTS if column.key in known or column.key in chosen]
    return [ColumnOption(column.key, column.title, column.help, column.key in chosen) for column in listed]


def _runs_of(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return equal neighbours with their number; nothing where all are empty."""
    counts: list[tuple[str, int]] = []
    for name in names:
        if counts and counts[-1][0] == name:
            counts[-1] = (name, counts[-1][1] + 1)
        else:
            counts.append((name, 1))
    return counts if any(names) else []


def about_page(site: Site, name: str) -> AboutPage:
    """Return the page about a board. Raises: UnknownName for a board that does not exist."""
    board = site.board(name)
    table = site.table(board)
    return AboutPage(
        board,
        table,
        tasks_about(board),
        command_of_board(board),
        bibtex(board, table.updated_at),
        table.issues,
        tuple(row for row in table.rows if row.is_baseline),
        table.unread,
    )
