"""Two or more runs compared: differences in the setup, paired tests, and the samples that changed."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

from markupsafe import Markup

from assaymark.documents.blocks import Block, Figure
from assaymark.documents.numbers import NOTHING, shown_value
from assaymark.errors import UsageError
from assaymark.leaderboard.evidence import benchmarks
from assaymark.leaderboard.own_rows import setup_of
from assaymark.leaderboard.pages.run import runs_of
from assaymark.leaderboard.pages.sample import question_line
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun, StoredRuns
from assaymark.limits.shown_paths import without_folders
from assaymark.records import Estimate, JsonValue
from assaymark.results.comparison.document import difference_points, ordered_lines, pair_blocks
from assaymark.results.comparison.records import Comparison, Flip, PairComparison
from assaymark.results.comparison.row_pairs import RowPair
from assaymark.runs.targets import TARGETS
from assaymark.web.render import plain, plain_fields
from assaymark.web.svg import PlottedValue, on_screens, spans

MOST_RUNS = 4
SHOWN_FLIPS = 30
SHOWN_ROWS = 100
MOST_ROWS = 5000  # of a run whose rows are read for a page
MOST_LISTED = 200  # runs to choose from
CHANGES = {"": "all", "gained": "became right", "lost": "became wrong"}
MARKS = {"better": "up", "worse": "down"}  # classes of the style sheet


@dataclass(frozen=True)
class PairView:
    """One run against the first."""

    run: StoredRun
    pair: PairComparison
    flips: tuple[Flip, ...]  # on this page
    n_flips: int  # that the filters leave
    page: int
    tasks: Mapping[str, int]  # with answers that changed -> their number
    questions: Mapping[tuple[str, int], str]  # task, index in the first run -> the beginning of the question
    rows: tuple[RowPair, ...] = ()  # of applications, those that got worse first
    n_rows: int = 0

    @property
    def n_pages(self) -> int:
        """Pages of the answers that changed."""
        return max(1, -(-self.n_flips // SHOWN_FLIPS))

    @property
    def blocks(self) -> list[Block]:
        """The differences, and what limits them, as reports have them."""
        return [block for block in pair_blocks(self.pair, 1, unfold=True) if not isinstance(block, Figure)]

    @property
    def chart(self) -> Markup | None:
        """The differences with their intervals, in points; to the right the second run is better."""
        values = [
            PlottedValue(
                point.task, 100 * point.gain, 100 * point.low, 100 * point.high, mark=MARKS.get(point.verdict, "even")
            )
            for point in difference_points(ordered_lines(self.pair))
        ]
        label = "Differences in points, with 95% intervals"
        return on_screens(partial(spans, values, label, are_differences=True)) if len(values) > 1 else None


@dataclass(frozen=True)
class Candidate:
    """A run to choose for a comparison."""

    run: StoredRun
    scores: tuple[tuple[str, str], ...]  # a group or a task -> its score, in words
    n_shared: int  # tasks that it shares with the run that is chosen already
    setup: str  # its precision, limit and prompts, in words


@dataclass(frozen=True)
class ComparePage:
    """Runs side by side."""

    first: StoredRun | None
    pairs: tuple[PairView, ...]
    comparison: Comparison | None
    task: str  # the task whose changed answers are shown; "" for all
    change: str  # of CHANGES
    candidates: tuple[Candidate, ...]  # runs to choose from
    n_runs: int  # that could be chosen
    q: str  # words in the names of the runs to choose from
    problem: str

    changes = CHANGES

    def order(self, baseline: str = "") -> str:
        """Return the ids of the runs, the baseline first, as an address names them."""
        ids = [run.run_id for run in (self.first, *(view.run for view in self.pairs)) if run is not None]
        return ",".join(sorted(ids, key=lambda run_id: run_id != baseline))

    def address(self, *, task: str | None = None, change: str | None = None, page: int = 1) -> str:
        """Return the address of these runs with other answers that changed."""
        pairs = {"runs": self.order(), "task": self.task if task is None else task,
                 "change": self.change if change is None else change, "page": "" if page == 1 else page}  # fmt: skip
        return f"/compare?{urlencode({key: value for key, value in pairs.items() if value})}#changed"

    def at_page(self, page: int) -> str:
        """Return the address of a page of the answers that changed."""
        return self.address(page=page)

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        comparison = None if self.comparison is None else _public(self.comparison)
        rows = {view.run.run_id: plain(view.rows) for view in self.pairs if view.rows}
        return {"problem": self.problem or None, "comparison": comparison, **({"rows": rows} if rows else {})}


def _public(comparison: Comparison) -> dict[str, JsonValue]:
    """Return a comparison without the folders of files; models' answers stay, since a slash in them is no path."""
    pairs = [
        {key: value if key == "flips" else without_folders(value) for key, value in plain_fields(pair).items()}
        for pair in comparison.pairs
    ]
    of_all = plain_fields(replace(comparison, pairs=()))
    return {key: pairs if key == "pairs" else without_folders(value) for key, value in of_all.items()}


def compare_page(site: Site, parameters: Sequence[tuple[str, str]], *, with_texts: bool = False) -> ComparePage:
    """Return the comparison of the named runs, or the runs to choose from.

    Args:
        parameters: `runs` in their order, the first one the baseline, or `run` of each, the oldest the baseline;
            `task`, `change` and `page` of the answers that changed; `q`, words of the runs to choose from.
        with_texts: of all answers that changed, for JSON, and not only of those on the page.
    """
    runs = runs_of(site)
    found = {key: value[:300] for key, value in parameters}
    task, change, q = found.get("task", ""), found.get("change", ""), found.get("q", "")
    change = change if change in CHANGES else ""
    names = [part for key, value in parameters if key in {"runs", "run"} for part in value.split(",") if part]
    chosen = [runs.run(name) for name in dict.fromkeys(names)] if len(set(names)) <= MOST_RUNS else []
    if "run" in found:
        chosen.sort(key=lambda run: run.row.updated_at)
    listed = [run for run in runs.runs() if run.estimates]
    problem = "" if len(set(names)) <= MOST_RUNS else f"{len(set(names))} runs were chosen; choose two to {MOST_RUNS}"
    if len(chosen) > 1:
        try:
            comparison = runs.comparison([run.run_id for run in chosen])
        except UsageError as error:
            problem = str(error)
        else:
            number = int(page) if (page := found.get("page", "")).isascii() and page.isdigit() else 1
            views = [
                _pair_view(runs, chosen[0], run, pair, task, change, number)
                for run, pair in zip(chosen[1:], comparison.pairs, strict=True)
            ]
            if with_texts:
                pairs = [
                    replace(pair, flips=runs.answered(chosen[0].run_id, run.run_id, pair, pair.flips))
                    for run, pair in zip(chosen[1:], comparison.pairs, strict=True)
                ]
                comparison = replace(comparison, pairs=tuple(pairs))
            return ComparePage(chosen[0], tuple(views), comparison, task, change, (), len(listed), "", "")
    first = chosen[0] if chosen else None
    candidates = _candidates(first, listed, q)
    return ComparePage(first, (), None, task, change, candidates, len(listed), q, problem)


def _pair_view(
    runs: StoredRuns, first: StoredRun, run: StoredRun, pair: PairComparison, task: str, change: str, number: int
) -> PairView:
    """Return one pair, with the changed answers that the filters leave."""
    of_change = [flip for flip in pair.flips if not change or flip.is_better == (change == "gained")]
    flips = [flip for flip in of_change if not task or flip.task == task]
    rows: list[RowPair] = []
    if all(each.plan.model.kind in TARGETS for each in (first, run)):
        both = runs.row_pairs(first.run_id, run.run_id, pair, MOST_ROWS)
        rows = [row for row in both if not task or row.task == task]
    n_pages = max(1, -(-len(flips) // SHOWN_FLIPS))
    number = min(max(number, 1), n_pages)
    of_page = flips[(number - 1) * SHOWN_FLIPS : number * SHOWN_FLIPS]
    shown_flips = runs.answered(first.run_id, run.run_id, pair, of_page)
    questions = _questions(runs, first, shown_flips)
    public = replace(
        pair,
        labels=(without_folders(pair.labels[0]), without_folders(pair.labels[1])),
        verdict=without_folders(pair.verdict),
        set_up=tuple(map(without_folders, pair.set_up)),
        notes=tuple(map(without_folders, pair.notes)),
    )
    by_task = dict(sorted(Counter(flip.task for flip in of_change).items()))
    return PairView(
        run, public, shown_flips, len(flips), number, by_task, questions, tuple(rows[:SHOWN_ROWS]), len(rows)
    )


def _candidates(first: StoredRun | None, listed: Sequence[StoredRun], q: str) -> tuple[Candidate, ...]:
    """Return the runs with each word of a search in model, id, setup or tasks; of a chosen run, those that share tasks.

    The runs that share most tasks come first, or the latest if none is chosen.
    """
    words = q.lower().split()
    tasks = set(first.row.tasks) if first is not None else set()
    found = []
    for run in listed:
        n_shared = len(tasks & set(run.row.tasks))
        groups = {name for estimate in run.estimates for name in estimate.details.get("path", ())}
        setup = setup_of(run.plan)
        text = " ".join([run.model, run.run_id, setup, *run.row.tasks, *groups]).lower()
        is_other = first is None or (n_shared and run.run_id != first.run_id)
        if is_other and all(word in text for word in words):
            found.append(Candidate(run, _scores(run), n_shared, setup))
    found.sort(key=lambda candidate: -candidate.n_shared)
    return tuple(found[:MOST_LISTED])


def _scores(run: StoredRun) -> tuple[tuple[str, str], ...]:
    """Return the score of each benchmark of a run: of its group if that has one."""
    by_name: dict[str, list[Estimate]] = defaultdict(list)
    for name, estimate in benchmarks(run):
        by_name[name].append(estimate)
    scores = []
    for name, of_name in by_name.items():
        group = next((each for each in run.estimates if each.task == name and each.value is not None), None)
        one = of_name[0] if len(of_name) == 1 else group
        is_share = one is not None and one.details.get("unit") == "proportion"
        scores.append((name, NOTHING if one is None else shown_value(one.value, proportion=is_share)))
    return tuple(scores)


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
