"""The boards that a server shows, over one store: tables are built when first requested and again when runs change.

Without a board's file there is one board for each suite that was run, and one of all other tasks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock

from assaymark.documents.numbers import counted
from assaymark.errors import UnknownName
from assaymark.leaderboard.averages import average_of
from assaymark.leaderboard.baselines import baseline_rows, with_claims
from assaymark.leaderboard.board import RECORDS, Board
from assaymark.leaderboard.board_files import board_of_suite, library_suites
from assaymark.leaderboard.columns import FROM_FILES
from assaymark.leaderboard.own_rows import agreeing_runs, holds_member, is_score, rows_of_runs, with_present_names
from assaymark.leaderboard.published import read_published
from assaymark.leaderboard.published_records import folder_state
from assaymark.leaderboard.queue import Marks
from assaymark.leaderboard.rating_columns import rating_files, with_ratings
from assaymark.leaderboard.request_files import read_requests, requests_state, with_requests
from assaymark.leaderboard.results_files import read_results_files, results_state
from assaymark.leaderboard.rows import BoardRow, ScoreColumn
from assaymark.leaderboard.stored import StoredRun, StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.win_rates import with_win_rates
from assaymark.records import content_hash
from assaymark.registry import nearest
from assaymark.scoring.metrics import find_metric
from assaymark.tasks.suites import Member, Suite, suite_from


@dataclass(frozen=True, slots=True)
class _CachedTable:
    """A table, and the state of the store from which it was made."""

    state: str
    table: BoardTable
    reports: tuple[StoredRun, ...] = ()  # what models' repositories among its results files state


class Site:
    """Boards and the runs they are made of. May be used by several threads."""

    def __init__(self, boards: Sequence[Board], runs: StoredRuns | None = None) -> None:
        """Args: boards: at least one is expected; runs: of the store, None where only published tables are shown."""
        self._own_boards = tuple(boards)
        self.runs = runs
        self._tables: dict[str, _CachedTable] = {}
        self._boards: tuple[tuple[tuple[str, str], ...], tuple[Board, ...]] | None = None
        self._lock = Lock()

    @property
    def boards(self) -> Mapping[str, Board]:
        """The boards by name: those given, else one per suite that has runs in the store."""
        return {board.name: board for board in self._own_boards or self._boards_of_store()}

    def _boards_of_store(self) -> tuple[Board, ...]:
        """Return the boards of the store's runs, made again when runs change."""
        runs = self.stored_runs()
        state = tuple((run.run_id, run.state) for run in runs)
        with self._lock:
            cached = self._boards
        if cached is None or cached[0] != state:
            cached = (state, tuple(_boards_of(runs)))
            with self._lock:
                self._boards = cached
        return cached[1]

    def board(self, name: str) -> Board:
        """Return one board.

        Raises: UnknownName.
        """
        boards = self.boards
        if name not in boards:
            raise UnknownName("board", name[:80], nearest(name[:80], boards))
        return boards[name]

    def stored_runs(self) -> list[StoredRun]:
        """Return the store's runs, the latest first; none without a store."""
        return [] if self.runs is None else self.runs.runs()

    def reports(self) -> list[StoredRun]:
        """Return what models' repositories state that the boards' files name, as the tables were made of it."""
        with self._lock:
            cached = list(self._tables.values())
        return [run for table in cached for run in table.reports]

    def seal_state(self) -> str:
        """Return a key that changes when a task is sealed or revealed, or a seal's last day has passed."""
        if self.runs is None or not (seals := self.runs.seals()):
            return ""
        today = datetime.now(UTC).date().isoformat()
        facts = [[seal.dataset_hash, seal.task, seal.commitment, seal.public_fraction, seal.valid_until,
                  seal.revealed_at] for seal in seals]  # fmt: skip
        return content_hash([today, facts])

    def marks(self) -> Marks:
        """Return facts from the queue and from moderators about runs and models; empty without a store."""
        return Marks() if self.runs is None else self.runs.marks()

    def table(self, board: Board) -> BoardTable:
        """Return a board's table as the store is now.

        Raises: DataError for a published file that violates its format.
        """
        runs = [] if board.table is not None else self.stored_runs()
        marks = self.marks()
        reports = sorted(marks.n_reports.items())
        state = content_hash([_state(board, runs), sorted(marks.flagged), reports, rating_files(board.ratings)])
        with self._lock:
            cached = self._tables.get(board.name)
        if cached is None or cached.state != state:
            files = list(with_requests(read_results_files(board.results), read_requests(board.requests)))
            table = with_ratings(_make_table(board, [*runs, *files]), board.ratings)
            table = _with_merges(with_win_rates(table, self.runs) if board.win_rates else table)
            stated = tuple(run for run in files if run.is_hub_report)
            cached = _CachedTable(state, _discussed(table, marks), stated)
            with self._lock:
                self._tables[board.name] = cached
        return cached.table


def _state(board: Board, runs: Sequence[StoredRun]) -> str:
    if board.table is not None:
        if board.table.format == RECORDS:
            return folder_state(board.table.file)
        status = board.table.file.stat()
        return f"{status.st_mtime_ns} {status.st_size}"
    files = [*map(results_state, board.results), *map(requests_state, board.requests)]
    return content_hash([files, *([run.run_id, run.state] for run in runs)])


def _make_table(board: Board, runs: Sequence[StoredRun]) -> BoardTable:
    if board.table is not None:
        table = read_published(board, board.table)
        rows = with_claims(table.rows, board.claims, table.columns)
        return replace(table, rows=(*rows, *baseline_rows(board, table.columns, ())))
    runs, left_out = agreeing_runs(board, runs)
    rows = rows_of_runs(board, runs)
    columns = tuple(_with_unit(column, rows) for column in board.score_columns)
    rows = [_in_unit(row, columns) for row in rows]
    used = {run_id for row in rows for run_id in row.run_ids}
    return BoardTable(
        columns,
        (*with_claims(rows, board.claims, columns), *baseline_rows(board, columns, runs)),
        rank_apart=not board.rank_together,
        left_out=tuple(left_out),
        version=_state(board, runs).rpartition(":")[2][:16],
        updated_at=max((run.row.updated_at for run in runs if run.run_id in used), default=""),
        n_runs=len(used),
    )


def _with_merges(table: BoardTable) -> BoardTable:
    """Return a table in which merges are marked as such, whether by the card's tags or by the type of the model."""
    if not any(row.facts.get("type") == "merge" for row in table.rows):
        return table
    rows = [
        replace(row, facts={**row.facts, "merged": True}) if row.facts.get("type") == "merge" else row
        for row in table.rows
    ]
    return replace(table, rows=tuple(rows))


def _discussed(table: BoardTable, marks: Marks) -> BoardTable:
    """Return a table whose rows have the moderators' flags and the number of open reports on their models."""
    if not any(row.model in marks.flagged or row.model in marks.n_reports for row in table.rows):
        return table
    rows = [
        replace(
            row,
            facts={**row.facts, "flagged": True} if row.model in marks.flagged else row.facts,
            n_reports=0 if row.is_baseline else marks.n_reports.get(row.model, 0),
        )
        for row in table.rows
    ]
    discussed = [table.version, sorted(marks.flagged), sorted(marks.n_reports.items())]
    return replace(table, rows=tuple(rows), version=content_hash(discussed).rpartition(":")[2][:16])


def _with_unit(column: ScoreColumn, rows: Sequence[BoardRow]) -> ScoreColumn:
    """Return a column with the unit and the direction that its metrics declare.

    If the board's file names no declared metric, the cells measured here decide, else those of the host's files;
    numbers reported by visitors do not count.
    """
    declared = [find_metric(name) for name in column.metrics]
    known = [metric for metric in declared if metric is not None and metric.value_range == (0.0, 1.0)]
    if known and len(known) == len(declared):
        return replace(column, is_share=True, higher_is_better=all(metric.higher_is_better for metric in known))
    cells = [
        [
            row.cells[column.key]
            for row in rows
            if column.key in row.cells and not row.is_upload and row.origin == origin
        ]
        for origin in ("measured", "imported", "reported")
    ]
    deciding = next(filter(None, cells), [])
    return replace(
        column,
        is_share=all(cell.is_share for cell in deciding),
        higher_is_better=all(cell.higher_is_better for cell in deciding),
        is_neutral=any(cell.is_neutral for cell in deciding),
    )


def _in_unit(row: BoardRow, columns: Sequence[ScoreColumn]) -> BoardRow:
    """Return a row from files without scores whose unit differs from their column's.

    Its average is over the columns that count in one, now that they are known.
    """
    if row.origin not in FROM_FILES:
        return row
    units = {column.key: column.is_share for column in columns}
    kept = {key: cell for key, cell in row.cells.items() if cell.is_share == units[key]}
    if len(kept) == len(row.cells):
        is_other = any(column.is_neutral and column.key in kept for column in columns)
        return replace(row, average=average_of(columns, kept, "weighted")) if is_other else row
    titles = [column.title for column in columns if column.key in row.cells.keys() - kept.keys()]
    note = f"left out, not in the unit of the column: {', '.join(titles)}"
    return replace(row, cells=kept, average=average_of(columns, kept, "weighted"), notes=(*row.notes, note))


def _boards_of(runs: Sequence[StoredRun]) -> list[Board]:
    """Return one board for each suite of which the runs have scores, and one of all other tasks if there are any.

    Suites are those for which runs were made, and those that come with the package if a model has most of their tasks,
    since a table of dashes is useless.
    """
    runs = [run for run in runs if not run.is_upload]  # a visitor's file adds no board and no column to one
    suites: dict[str, Suite] = {}
    for run in runs:
        for fact in run.row.extra.get("suites", ()):
            suite = suite_from(fact["spec"])
            suites.setdefault(suite.name, suite)
    boards = [board for suite in suites.values() if rows_of_runs(board := board_of_suite(suite), runs)]
    for suite in library_suites().values():
        if suite.name not in suites and _has_most(board := board_of_suite(suite), suite.members, runs):
            suites[suite.name] = suite
            boards.append(board)
    rest = _other_tasks(runs, [board.suite for board in boards if board.suite is not None])
    return [*boards, *([rest] if rest is not None else [])]


def _has_most(board: Board, members: Sequence[Member], runs: Sequence[StoredRun]) -> bool:
    """Return whether some row of a board has a value, and more than half of its tasks."""
    for row in rows_of_runs(board, runs):
        of_row = [with_present_names(run) for run in runs if run.run_id in row.run_ids]
        n_held = sum(any(holds_member(member, run) for run in of_row) for member in members)
        if row.cells and 2 * n_held > len(members):
            return True
    return False


def _other_tasks(runs: Sequence[StoredRun], suites: Sequence[Suite]) -> Board | None:
    """Return a board of the results that no suite's board shows, among them other shots of a suite's tasks.

    Its columns are the outermost groups with a number of their own, and the tasks that are in none. If a suite has the
    task too, or the task was evaluated with several numbers of shots, each number of shots is a column.
    """
    titles: dict[str, str] = {}
    shots: dict[str, set[int]] = {}
    of_suites: set[str] = set()
    for run in map(with_present_names, runs):
        groups = run.valued_groups()
        covered = {member for suite in suites for member in suite.members if holds_member(member, run)}
        for estimate in run.estimates:
            path = estimate.details.get("path", ())
            named = {*path, estimate.task}
            is_task = (
                estimate.details.get("kind", "task") == "task"
                and estimate.details.get("primary")
                and is_score(estimate)
            )
            is_task = is_task and "copy_of" not in estimate.details  # a perturbed copy is not a benchmark of its own
            if is_task and not any(member.task in named for member in covered):
                name = next((group for group in path if group in groups), estimate.task)
                titles.setdefault(name, _without_prefix(name, path))
                if (n := estimate.details.get("n_shots")) is not None:
                    shots.setdefault(name, set()).add(n)
                if any(member.task in named for suite in suites for member in suite.members):
                    of_suites.add(name)
    members: list[dict[str, object]] = []
    for name, title in titles.items():
        seen = sorted(shots.get(name, ()))
        if len(seen) > 1 or (seen and name in of_suites):
            members += [
                {"task": name, "metric": [""], "shots": n, "column": f"{title}, {counted(n, 'shot')}"} for n in seen
            ]
        else:
            members.append({"task": name, "metric": [""], "column": title})
    if not members:
        return None
    suite = suite_from({"name": "all-tasks", "title": "All tasks in the store", "members": members, "reproduced": True})
    introduction = "Every task of the store's runs that no suite's board shows." if suites else ""
    if len(members) > 1:
        introduction += " Averages are comparable only between rows with the same tasks, which stand together."
    return replace(board_of_suite(suite), introduction=introduction.strip())


def _without_prefix(name: str, path: Sequence[str]) -> str:
    """Return a task's name without that of the group around it: demo_facts of demo is facts."""
    prefix = next((f"{group}_" for group in path if name.startswith(f"{group}_")), "")
    return name.removeprefix(prefix)
