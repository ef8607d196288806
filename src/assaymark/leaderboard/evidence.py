"""Evidence for recommendations: a table of all stored runs, the published ones, and people's preferences.

Values of two tables may differ in prompts, shots and program, so models are ranked within one table. The table of
stored runs has a column for each benchmark, and one for each number of shots where runs differ in it.

Preferences are ratings from the arena's votes. `capabilities.yaml` says which categories of an arena's prompts belong
to a capability. Each category is rated by itself, in points that are never mixed with the scores of benchmarks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.published import Published
from assaymark.arena.rating_boards import Ratings
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.board_files import board_of_suite
from assaymark.leaderboard.guide import Capability, capabilities_of_task
from assaymark.leaderboard.own_rows import is_score
from assaymark.leaderboard.results_files import read_results_files
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun
from assaymark.leaderboard.table import BoardTable
from assaymark.records import Estimate
from assaymark.tasks.suites import suite_from

OWN_RUNS = "(own runs)"  # no board's file can have this name
_COPIED = ("licence", "type", "params", "merged", "flagged")  # facts of a model that hold in any table


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """One table, with where its rows can be read."""

    name: str  # of its board; OWN_RUNS for the stored runs
    title: str
    table: BoardTable


def sources_of(site: Site) -> list[EvidenceTable]:
    """Return the tables of a site: its stored runs first, where there are any, then each published table.

    Raises: DataError for a published file that cannot be read.
    """
    boards = list(site.boards.values())
    published = [
        EvidenceTable(board.name, board.title, site.table(board)) for board in boards if board.table is not None
    ]
    # numbers reported by visitors are not evidence, and must not decide which benchmarks and shots are compared
    stored = [run for run in site.stored_runs() if not run.is_upload]
    runs = [*stored, *read_results_files([path for board in boards for path in board.results])]
    board = own_board(runs, boards, [source.table for source in published])
    if board is None:
        return published
    return [EvidenceTable(OWN_RUNS, "Runs in the store", site.table(board)), *published]


def votes_of(site: Site) -> Ratings | None:
    """Return the ratings from the published votes of a site's store; None without a store."""
    return None if site.runs is None else site.runs.votes()


def own_board(runs: Sequence[StoredRun], boards: Sequence[Board], published: Sequence[BoardTable]) -> Board | None:
    """Return a board with every benchmark of the stored runs; None without runs.

    Facts about a model (licence, type) are copied from the boards' files and the published tables.
    """
    members = list(_members(runs))
    if not members:
        return None
    suite = suite_from({"name": "own", "title": "Runs in the store", "members": members, "reproduced": True})
    wanted = {run.model for run in runs} | {run.plan.model.name for run in runs}
    models: dict[str, Mapping[str, str | float | bool]] = {}
    for table in published:
        for row in table.rows:
            if row.model in wanted and row.model not in models:
                models[row.model] = {k: v for k in _COPIED if (v := row.facts.get(k)) is not None}
    for board in boards:
        models.update({name: {**models.get(name, {}), **facts} for name, facts in board.models.items()})
    results = tuple(path for board in boards for path in board.results)
    requests = tuple(path for board in boards for path in board.requests)
    return replace(board_of_suite(suite), name=OWN_RUNS, models=models, results=results, requests=requests)


def _members(runs: Sequence[StoredRun]) -> Iterator[dict[str, object]]:
    """Yield the members of the suite of all benchmarks: apart by shots where runs differ in them."""
    shots: dict[str, set[int | None]] = {}
    for run in runs:
        of_run: dict[str, set[int]] = {}
        for name, estimate in benchmarks(run):
            n = estimate.details.get("n_shots")
            of_run.setdefault(name, set()).update([n] if isinstance(n, int) else [])
        for name, of_task in of_run.items():
            shots.setdefault(name, set()).add(next(iter(of_task)) if len(of_task) == 1 else None)
    for name, kinds in shots.items():
        for n in sorted(kind for kind in kinds if kind is not None) if len(kinds) > 1 else [None]:
            title = name if n is None else f"{name}, {n}-shot"
            yield {"task": name, "metric": [""], "column": title, **({} if n is None else {"shots": n})}


def benchmarks(run: StoredRun) -> Iterator[tuple[str, Estimate]]:
    """Yield the primary estimate of each task with the benchmark it belongs to.

    That is its outermost group that measures a known capability, else its outermost group with a value, else itself.
    """
    groups = run.valued_groups()
    for estimate in run.estimates:
        if (
            estimate.details.get("kind", "task") != "task"
            or not estimate.details.get("primary")
            or "copy_of" in estimate.details  # perturbed: no benchmark of its own
            or estimate.value is None
            or not is_score(estimate)
        ):
            continue
        path = [*estimate.details.get("path", ()), estimate.task]
        known = next((name for name in path if capabilities_of_task(name)), None)
        yield known or next((name for name in path if name in groups), estimate.task), estimate


@dataclass(frozen=True, slots=True)
class Preference:
    """One model with its rating by voters. Units: rating, low and high in points (400 are odds of ten to one)."""

    model: str
    rating: float
    low: float | None
    high: float | None
    best_rank: int
    worst_rank: int
    n_votes: int
    is_preliminary: bool  # few votes


@dataclass(frozen=True, slots=True)
class PreferenceRanking:
    """The models of one category of an arena, the best first."""

    demand: str  # key of the capability
    title: str
    category: str
    n_votes: int
    models: tuple[Preference, ...]
    why_none: str = ""  # why no model is rated


def preferences_for(capability: Capability, votes: Ratings) -> list[PreferenceRanking]:
    """Return the ratings of each category of a store's arena that belongs to a capability, most votes first."""
    if not capability.votes or ArenaLog(votes.store).last_batch() is None:
        return []
    wanted = {_plain(name) for name in capability.votes}
    categories: Mapping[str, int] = votes.board().categories
    return [
        _ranking(capability, category, votes.board(category=category))
        for category in categories
        if _plain(category) in wanted
    ]


def _plain(category: str) -> str:
    return " ".join(category.lower().replace("-", " ").replace("_", " ").split())


def _ranking(capability: Capability, category: str, board: Published) -> PreferenceRanking:
    rated: Sequence[Preference] = [
        Preference(
            row.model, row.rating.rating, row.rating.low, row.rating.high, row.rating.best_rank,
            row.rating.worst_rank, row.n_votes, row.is_preliminary,
        )
        for row in board.models
        if row.rating is not None and row.withdrawn_at is None
    ]  # fmt: skip
    ordered = sorted(rated, key=lambda each: (-each.rating, each.model))
    return PreferenceRanking(
        capability.key, capability.title, category, board.n_votes, tuple(ordered), board.why_none or ""
    )
