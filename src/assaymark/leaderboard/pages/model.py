"""The pages of a model, with its rows on every board and its runs, and of the checkpoints of one training.

The latter shows each benchmark against the step, and the paired differences to the first checkpoint.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from assaymark.documents.blocks import Block
from assaymark.errors import UnknownName
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.chart_data import Residual, profile
from assaymark.leaderboard.exports import shown_json
from assaymark.leaderboard.model_card import card_of
from assaymark.leaderboard.pages.run import runs_of
from assaymark.leaderboard.reported_values import ReportedBeside, reported_beside, reported_blocks
from assaymark.leaderboard.rows import BoardRow, IntervalValue, ScoreColumn
from assaymark.leaderboard.series import Series, SeriesLine, find_series, series_names, step_of
from assaymark.leaderboard.shown import ShownRow, all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import RankInType, Relative, Relatives, StoredRun, rank_in_type
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View
from assaymark.records import JsonValue
from assaymark.registry import nearest
from assaymark.web.plots import PlotPoint, series_plot
from assaymark.web.render import model_path, plain, plain_fields, shown_ends, shown_score
from assaymark.web.svg import PlottedValue, on_screens, spans

MOST_CHARTS = 24


@dataclass(frozen=True)
class SeriesPage:
    """One series."""

    series: Series
    charts: tuple[Markup, ...]  # SVG, one per benchmark
    values: tuple[tuple[SeriesLine, dict[int, object]], ...]  # each line with its values by step

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        return {
            "series": self.series.name,
            "checkpoints": [
                {"step": checkpoint.step, "model": checkpoint.model, "runs": [run.run_id for run in checkpoint.runs],
                 "difference_to_first": None if checkpoint.against_first is None
                 else plain(checkpoint.against_first.overall),
                 "differences": [] if checkpoint.against_first is None else plain(checkpoint.against_first.tasks)}
                for checkpoint in self.series.checkpoints
            ],
            "benchmarks": [
                {"column": line.column.key, "title": line.column.title, "is_share": line.column.is_share,
                 "points": [{"step": step, **plain_fields(number)} for step, number in line.points]}
                for line in self.series.lines
            ],
        }  # fmt: skip


def series_page(site: Site, name: str) -> SeriesPage:
    """Return the page of a series. Raises: UnknownName."""
    series = find_series(site, name)
    lines = series.lines[:MOST_CHARTS]
    models = {checkpoint.step: checkpoint.model for checkpoint in series.checkpoints}
    charts = tuple(_drawn(line, models) for line in lines)
    return SeriesPage(series, charts, tuple((line, dict(line.points)) for line in series.lines))


def _drawn(line: SeriesLine, models: Mapping[int, str]) -> Markup:
    points = [
        PlotPoint(step, number.value, number.low, number.high, _title(step, number, line), model_path(models[step]))
        for step, number in line.points
    ]
    label = f"{line.column.title} against the step, with 95% intervals"
    return on_screens(partial(series_plot, points, label, is_share=line.column.is_share))


def _title(step: int, number: IntervalValue, line: SeriesLine) -> str:
    ends = shown_ends(number, line.column.is_share)
    return f"step {step:,}: {shown_score(number, line.column.is_share)}{f' ({ends})' if ends else ''}"


RELATED = 50  # models made from this one that are listed


@dataclass(frozen=True)
class OnBoard:
    """A model's rows on one board."""

    board: Board
    table: BoardTable
    rows: tuple[ShownRow, ...]
    columns: tuple[ScoreColumn, ...]  # in which some row has a score
    in_type: tuple[RankInType | None, ...]  # by row
    residuals: tuple[Residual, ...]  # of the first row that has all scores
    chart: Markup | None  # of the residuals


@dataclass(frozen=True)
class ModelPage:
    """One model."""

    name: str
    url: str
    boards: tuple[OnBoard, ...]
    runs: tuple[StoredRun, ...]
    base: BoardRow | None  # the model that this one was made from, where a board has it
    base_name: str
    against_base: Relative | None
    made_from_it: tuple[tuple[BoardRow, Relative | None], ...]
    series: str  # name of the training that this is a checkpoint of; empty for none
    reported: tuple[ReportedBeside, ...] = ()

    @property
    def reported_blocks(self) -> list[Block]:
        """What others report of the model, beside what was measured."""
        return reported_blocks(self.reported)

    @property
    def broadest_run(self) -> StoredRun | None:
        """The run with the most tasks, the latest of several; None without results."""
        return max((run for run in self.runs if run.estimates), key=lambda run: len(run.row.tasks), default=None)

    @property
    def has_card(self) -> bool:
        """Whether something was measured here."""
        return any(run.estimates and run.origin != "reported" for run in self.runs)

    @property
    def card(self) -> str:
        """The address of its model card."""
        return f"/card{model_path(self.name).removeprefix('/model')}"

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        return {
            "model": self.name,
            "url": self.url or None,
            "boards": {
                board.board.name: [shown_json(row, board.table.columns) for row in board.rows] for board in self.boards
            },
            "profiles": {board.board.name: plain(board.residuals) for board in self.boards if board.residuals},
            "runs": plain(self.runs),
            "base": self.base_name or None,
            "against_base": plain(self.against_base),
            "made_from_it": [{"model": row.model, "against_base": plain(comparison)}
                             for row, comparison in self.made_from_it],
            "series": self.series or None,
            "reported": [pair.to_json() for pair in self.reported],
        }  # fmt: skip


def model_page(site: Site, path: str) -> ModelPage:
    """Return the page at `/model/<path>`.

    Raises: UnknownName for a model that is on no board and in no run.
    """
    tables = [(board, site.table(board)) for board in site.boards.values()]
    runs = site.stored_runs()
    name = _name_at(path, [*(table.by_model for _, table in tables), {run.model for run in runs}])
    boards = []
    for board, table in tables:
        ids = {row.id for row in table.rows_of(name)}
        if ids:
            boards.append(_on_board(board, table, ids))
    rows = [row for on_board in boards for shown_row in on_board.rows for row in [shown_row.row]]
    base_name = next((str(row.facts["base"]) for row in rows if row.facts.get("base")), "")
    base_name = "" if base_name == name else base_name
    own = tuple(run for run in runs if run.model == name)
    relatives = Relatives(site.runs)
    known = series_names(runs)
    steps = [step for run in own if (step := step_of(run)) is not None]
    return ModelPage(
        name,
        next((row.url for row in rows if row.url), ""),
        tuple(boards),
        own,
        next((row for _, table in tables for row in table.rows_of(base_name)), None) if base_name else None,
        base_name,
        relatives.compare([run for run in runs if run.model == base_name], own) if base_name else None,
        tuple(_derived(relatives, tables, name, runs)),
        next((name for name, _ in steps if name in known), ""),
        tuple(reported_beside([*own, *(run for run in site.reports() if run.model == name)])),
    )


@dataclass(frozen=True)
class CardPage:
    """A model card, as Markdown."""

    name: str
    path: str  # of the model's page
    text: str

    @property
    def body(self) -> str:
        """The card without the facts for the Hub at its beginning, and without its title."""
        return self.text.partition("\n---\n")[2].lstrip().partition("\n")[2]


def card_page(site: Site, path: str) -> CardPage:
    """Return the card of the model whose page is at `/model/<path>`. Raises: UnknownName."""
    stored = runs_of(site)
    name = _name_at(path, [{run.model for run in stored.runs() if run.estimates and run.origin != "reported"}])
    return CardPage(name, model_path(name), card_of(stored, name))


def _name_at(path: str, known: Sequence[Collection[str]]) -> str:
    """Return the model whose page is at `/model/<path>`. Raises: UnknownName."""
    if any(path in names for names in known):
        return path
    every = set().union(*known)
    wanted = f"/model/{path}"
    # a name that is not a plain path is found by its hash
    match = next((name for name in every if model_path(name) == wanted), None) if path.startswith("~") else None
    if match is None:
        raise UnknownName("model", path[:100], nearest(path[:100], every))
    return match


def _on_board(board: Board, table: BoardTable, ids: Collection[str]) -> OnBoard:
    rows = tuple(all_rows(table, View(), board.shown_columns, ids))
    residuals = next((of_row for row in rows if (of_row := tuple(profile(table, row.row)))), ())
    in_type = tuple(rank_in_type(table, row.row) for row in rows)
    points = [
        PlottedValue(
            residual.column.title,
            100 * residual.value,
            _points(residual.low),
            _points(residual.high),
            100 * residual.spread,
        )
        for residual in residuals
    ]
    columns = tuple(column for column in table.columns if any(column.key in row.cells for row in rows))
    chart = on_screens(partial(spans, points)) if points else None
    return OnBoard(board, table, rows, columns, in_type, residuals, chart)


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _derived(
    relatives: Relatives, tables: Sequence[tuple[Board, BoardTable]], name: str, runs: Sequence[StoredRun]
) -> list[tuple[BoardRow, Relative | None]]:
    """Return the models made from this one, the first of them compared with it."""
    own = [run for run in runs if run.model == name]
    of_model: dict[str, list[StoredRun]] = {}
    for run in runs:
        of_model.setdefault(run.model, []).append(run)
    by_model: dict[str, BoardRow] = {}
    for _, table in tables:
        for row in table.made_from.get(name, ()):
            by_model.setdefault(row.model, row)
    rows = sorted(by_model.values(), key=lambda row: -(row.average.number.value if row.average else -1.0))[:RELATED]
    return [(row, relatives.compare(own, of_model.get(row.model, []))) for row in rows]
