"""Two or more runs compared: what differs in the setup, the paired tests, and the samples that changed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.errors import UsageError
from assaymark.leaderboard.pages.run import runs_of
from assaymark.leaderboard.pages.sample import question_line
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun, StoredRuns
from assaymark.limits.shown_paths import without_folders
from assaymark.records import JsonValue
from assaymark.results.comparison.records import Comparison, Flip, PairComparison
from assaymark.results.comparison.row_pairs import RowPair
from assaymark.runs.targets import TARGETS
from assaymark.web.render import plain, plain_fields

MOST_RUNS = 4
SHOWN_FLIPS = 100
SHOWN_ROWS = 100
MOST_ROWS = 5000  # of a run whose rows are read for a page
MOST_PARTNERS = 8


@dataclass(frozen=True)
class PairView:
    """One run against the first."""

    run: StoredRun
    pair: PairComparison
    flips: tuple[Flip, ...]
    n_flips: int
    questions: Mapping[tuple[str, int], str]  # task, index in the first run -> the beginning of the question
    rows: tuple[RowPair, ...] = ()  # of applications, those that got worse first
    n_rows: int = 0


@dataclass(frozen=True)
class ComparePage:
    """Runs side by side."""

    first: StoredRun | None
    pairs: tuple[PairView, ...]
    comparison: Comparison | None
    task: str
    listed: tuple[StoredRun, ...]  # runs to choose from
    problem: str
    partners: tuple[tuple[StoredRun, StoredRun], ...] = ()  # where nothing can be compared: pairs that can be

    def order(self, baseline: str = "") -> str:
        """Return the ids of the runs, the baseline first, as an address names them."""
        ids = [run.run_id for run in (self.first, *(view.run for view in self.pairs)) if run is not None]
        return ",".join(sorted(ids, key=lambda run_id: run_id != baseline))

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        comparison = None if self.comparison is None else _public(self.comparison)
        rows = {view.run.run_id: plain(view.rows) for view in self.pairs if view.rows}
        return {"problem": self.problem or None, "comparison": comparison, **({"rows": rows} if rows else {})}


def _public(comparison: Comparison) -> dict[str, JsonValue]:
    """Return a comparison; files have no folders, except in what models answered, where a slash is not a path."""
    pairs = [
        {key: value if key == "flips" else without_folders(value) for key, value in plain_fields(pair).items()}
        for pair in comparison.pairs
    ]
    of_all = plain_fields(replace(comparison, pairs=()))
    return {key: pairs if key == "pairs" else without_folders(value) for key, value in of_all.items()}


def compare_page(site: Site, parameters: Sequence[tuple[str, str]]) -> ComparePage:
    """Return the comparison of the runs that are named, or what there is to choose from."""
    runs = runs_of(site)
    names = [part for key, value in parameters if key in {"runs", "run"} for part in value.split(",") if part]
    names = list(dict.fromkeys(names))
    task = next((value for key, value in parameters if key == "task"), "")[:300]
    listed = tuple(run for run in runs.runs() if run.estimates)
    if len(names) < 2 or len(names) > MOST_RUNS:
        were = "run was" if len(names) == 1 else "runs were"
        problem = "" if not names else f"{len(names)} {were} chosen; choose two to {MOST_RUNS}"
        partners = _partners(runs.run(names[0]), listed) if len(names) == 1 else ()
        return ComparePage(None, (), None, task, listed, problem, partners)
    chosen = [runs.run(name) for name in names]
    try:
        comparison = runs.comparison([run.run_id for run in chosen])
    except UsageError as error:
        return ComparePage(None, (), None, task, listed, str(error), _partners(chosen[0], listed))
    pairs = []
    for run, pair in zip(chosen[1:], comparison.pairs, strict=True):
        flips = [flip for flip in pair.flips if not task or flip.task == task]
        rows: list[RowPair] = []
        if all(each.plan.model.kind in TARGETS for each in (chosen[0], run)):
            both = runs.row_pairs(chosen[0].run_id, run.run_id, pair, MOST_ROWS)
            rows = [row for row in both if not task or row.task == task]
        first_flips = tuple(flips[:SHOWN_FLIPS])
        questions = _questions(runs, chosen[0], first_flips)
        pairs.append(PairView(run, pair, first_flips, len(flips), questions, tuple(rows[:SHOWN_ROWS]), len(rows)))
    return ComparePage(chosen[0], tuple(pairs), comparison, task, listed, "")


def _partners(first: StoredRun, listed: Sequence[StoredRun]) -> tuple[tuple[StoredRun, StoredRun], ...]:
    """Return the runs that share a task with one, the latest first."""
    tasks = set(first.row.tasks)
    runs = [run for run in listed if run.run_id != first.run_id and tasks & set(run.row.tasks)]
    return tuple((first, run) for run in runs[:MOST_PARTNERS])


def _questions(runs: StoredRuns, run: StoredRun, flips: Sequence[Flip]) -> dict[tuple[str, int], str]:
    """Return the beginning of each flip's question in one line; none where the texts are withheld."""
    by_task: dict[str, list[int]] = defaultdict(list)
    for flip in flips:
        by_task[flip.task].append(flip.first_index)
    return {
        (task, record.request.sample_index): question_line(record)
        for task, indices in by_task.items()
        for record in runs.samples(run.run_id, task, sorted(set(indices)))
    }
