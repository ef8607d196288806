"""Stored runs for the pages of leaderboards: the only module of the leaderboard that reads the store.

Lists of runs, samples and categories are read from columns. Plans and whole estimates, whose details have groups,
composites and baselines, are read once for each state of a run and cached; a single sample is read when its page is
shown. Audits are not read.

The store is read through `store.public_store`, which hides the texts of tasks that are sealed or that a board calls
private, and those of gated data sets unless the host allows them, since these are distributed under terms (GPQA's
authors ask that its questions are not published in plain text). Scores are shown; questions and answers are neither
shown nor searched.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Lock

from assaymark.arena.rating_boards import Ratings
from assaymark.errors import HashMismatch, UnknownName, UsageError
from assaymark.interop.export_tables import model_index_results
from assaymark.leaderboard.about import task_card
from assaymark.leaderboard.comparisons import Comparisons, answered
from assaymark.leaderboard.prompt_spreads import PromptSpreads, model_key
from assaymark.leaderboard.queue import UPLOADED, Marks, RunMark, read_marks
from assaymark.leaderboard.rows import BoardRow, Origin
from assaymark.leaderboard.table import BoardTable
from assaymark.records import Estimate, JsonValue, RunPlan, content_hash
from assaymark.results.comparison.records import Comparison, Difference, Flip, PairComparison
from assaymark.results.comparison.row_pairs import RowPair, row_pairs
from assaymark.results.comparison.stopped_runs import estimates_at_any_time
from assaymark.results.evidence.from_store import (
    choice_queries,
    deciding_score,
    is_wrong,
    score_rows,
    stopped_by_rule,
    verdict_of,
)
from assaymark.results.evidence.questions import Questions, questions_in
from assaymark.results.evidence.records import ScoreRow, StoppedByRule
from assaymark.results.evidence.task_facts import with_declared_chance
from assaymark.store import AttemptRow, RunFacts, RunRow, SampleFacts, SampleRecord, Store
from assaymark.store.public_store import PublicStore, WhyWithheld, public_store
from assaymark.store.rows import DAMAGED, EstimateRow
from assaymark.store.sample_facts import category_of, question_of, snippet_of
from assaymark.store.sealed_tasks import SealedTask
from assaymark.store.search import phrases_of

GATED = "the data set is gated"


class TextsWithheld(UsageError):
    """The texts of the requested sample are not shown."""


@lru_cache(maxsize=10_000)
def is_gated(task: str) -> bool:
    """Return whether a task's data set is gated, by its card."""
    return bool(task_card(task).get("gated"))


KEPT_LISTS = 8  # tasks whose numbers of samples are cached
MOST_SINGLE = 3  # runs that are read one by one; more are read together
UNSETTLED = timedelta(hours=1)  # after a run ended, while its estimates may still be saved without changing its row
MOST_ANSWERS = 40  # runs that are looked at for other answers to a sample
READ_AHEAD = 20  # samples of held runs that are read at once
MOST_SEARCHED = 5000  # samples of a task whose texts are read for a search without an index
MOST_KEPT = 10_000_000  # characters of a task's texts that are kept for the next search
LISTED = 50  # samples that are searched for one that is also found by its number
LONGEST_NUMBER = 9  # digits of a sample's number


def _state_of(run: RunRow, task: str) -> tuple[str, str, str]:
    """Return a key of a run's samples of a task that changes when they do."""
    return run.run_id, task, f"{run.updated_at} {run.status} {run.n_outputs} {run.n_scores}"


def model_label(name: str) -> str:
    """Return a model's name as pages show it: the last two parts of a folder, since the rest is private."""
    labels = []
    for part in name.split("+"):
        parts = [component for component in part.split("/") if component not in {"", ".", "..", "~"}]
        is_path = part.startswith(("/", ".", "~")) or len(parts) > 2
        labels.append("/".join(parts[-2:]) if is_path and parts else part)
    return "+".join(labels)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with its estimates."""

    row: RunRow
    estimates: tuple[Estimate, ...]
    source: str = ""  # the file it was read from; empty for a run of the store
    state: str = ""  # changes when the run, its estimates or its mark do
    mark: RunMark | None = None  # of a run that was submitted
    notes: tuple[str, ...] = ()  # what could not be read of the files, where these are read for the board
    spreads: Mapping[str, float] = field(default_factory=dict)  # over wordings of the prompts, by task, in points

    json_keys = "run=run_id status=row.status updated_at=row.updated_at tasks=row.tasks"

    @property
    def model(self) -> str:
        """The model's name as pages show it."""
        return self.mark.name if self.mark is not None else model_label(self.row.model)

    @property
    def is_upload(self) -> bool:
        """Whether a visitor reported its numbers, which were neither computed here nor stated by the board's host."""
        return self.row.command == UPLOADED

    @property
    def origin(self) -> Origin:
        """Whether it was evaluated here; if it comes from files, whether these hold answers.

        What a visitor sends is a report, whatever it holds.
        """
        if not self.source and self.plan.model.kind != "imported":
            return "measured"
        return "imported" if self.row.has_answers and not self.is_upload else "reported"

    @property
    def is_hub_report(self) -> bool:
        """Whether its numbers are those that a model's repository states, of which nothing else is known."""
        return self.origin == "reported" and any("reported" in estimate.details for estimate in self.estimates)

    @property
    def is_damaged(self) -> bool:
        """Whether its estimates are not as they were saved; it then has none."""
        return self.row.status == DAMAGED

    @property
    def stopped(self) -> StoppedByRule | None:
        """Its progress, if a rule stopped it: its estimates then have wider intervals, or none."""
        return stopped_by_rule(self.row)

    def valued_groups(self) -> set[str]:
        """Return the groups that have a number of their own."""
        of_groups = (each for each in self.estimates if each.details.get("kind") == "group")
        return {each.task for each in of_groups if each.value is not None}

    @property
    def run_id(self) -> str:
        """Its id."""
        return self.row.run_id

    @property
    def plan(self) -> RunPlan:
        """Its plan."""
        return self.row.plan


@dataclass(frozen=True, slots=True)
class SampleLine:
    """One sample of a list."""

    index: int
    turn: int
    snippet: str  # the beginning of its question, in one line
    category: str  # empty: none
    metric: str | None
    score: float | None
    status: str | None  # scored, unparsed or failed; None: not scored
    verdict: str  # right, wrong, unparsed, failed, scored or not scored
    wrong: bool
    n_cut_tokens: int


@dataclass(frozen=True, slots=True)
class TaskSamples:
    """Some of a task's samples."""

    lines: tuple[SampleLine, ...]
    n_matching: int
    n_total: int
    n_wrong: int
    categories: tuple[tuple[str, int], ...]  # with their number of samples


@dataclass(frozen=True, slots=True)
class _Known:
    """A run that was read, and the columns that show whether it changed since."""

    run: StoredRun
    columns: tuple[EstimateRow, ...] | None  # None: the run was read when nothing could change without its row


@dataclass(frozen=True, slots=True)
class _Counts:
    """Numbers of a task's samples."""

    n_total: int
    n_wrong: int
    categories: tuple[tuple[str, int], ...]


class StoredRuns:
    """A store's runs, as pages need them. May be used by several threads."""

    def __init__(
        self,
        store: Store,
        *,
        show_gated: bool = False,
        private: Collection[str] = (),
        shows: Callable[[StoredRun], bool] | None = None,
    ) -> None:
        """Show a store's runs.

        Args:
            show_gated: whether texts of gated data sets may be shown.
            private: names of tasks and groups whose texts are withheld, besides those that are sealed in the store.
            shows: whether a run may be shown; other runs do not exist for any page. None: all runs.
        """

        def why_private(task: str) -> str:
            return GATED if not show_gated and is_gated(task) else ""

        self._opened = public_store(store, private=private, why_private=why_private)
        self._shows = shows
        self._visibility: dict[str, tuple[str, bool]] = {}  # by id: the state that was judged, and whether it is shown
        self._lock = Lock()
        self._known: dict[str, _Known] = {}
        self._marks = Marks()
        self._votes: Ratings | None = None
        self._counts: dict[tuple[str, str, str], _Counts] = {}
        self._texts: tuple[tuple[str, str, str], list[tuple[str, SampleLine]]] = (("", "", ""), [])
        self._comparisons = Comparisons()
        self._spreads = PromptSpreads()
        self._seals: list[SealedTask] = []
        self._questions: dict[str, tuple[str, Questions]] = {}
        self._held: list[StoredRun] | None = None
        self._ahead: dict[tuple[str, str, int], dict[int, list[SampleRecord]]] = {}  # by run, task, and part of it

    @property
    def _store(self) -> PublicStore:
        """The store that is at its path now: opened again where its file was replaced.

        Raises: StoreError while there is none, or none that can be read.
        """
        if self._opened.is_in_place():
            return self._opened
        with self._lock:
            if not self._opened.is_in_place():
                self._opened = self._opened.open_again()  # the old one stays open: other threads may be reading it
                self._known, self._counts, self._comparisons, self._marks = {}, {}, Comparisons(), Marks()
                self._texts = (("", "", ""), [])
            return self._opened

    @property
    def url(self) -> str:
        """Where the store is, without a password."""
        return self._opened.url

    def votes(self) -> Ratings:
        """Return the ratings from the arena's published votes in the store, each computed once."""
        store = self._store
        with self._lock:
            if self._votes is None or self._votes.store is not store:
                self._votes = Ratings(store)
            return self._votes

    def runs(self) -> list[StoredRun]:
        """Return every run, the latest first. Only runs that changed since the last call are read whole."""
        if self._held is not None:
            return self._held
        self._forget_if_seals_changed()
        listed = [run.run for run in self._store.estimates_of_runs(tasks=())]
        recent = [facts.run_id for facts in listed if _is_unsettled(facts)]
        found_columns = self._store.estimates_of_runs(recent) if recent else []
        columns = {column.run.run_id: column.estimates for column in found_columns}
        with self._lock:
            known = dict(self._known)
        changed = [facts.run_id for facts in listed
                   if not _is_same(known.get(facts.run_id), facts, columns.get(facts.run_id))]  # fmt: skip
        for row in self._rows(changed):
            known[row.run_id] = _Known(self._with_estimates(row), columns.get(row.run_id))
        current = {facts.run_id: known[facts.run_id] for facts in listed if facts.run_id in known}
        with self._lock:
            self._known = current
        return self._visible(self._with_spreads([entry.run for entry in current.values()]))

    def hold(self) -> None:
        """Show from now on the runs that there are now, so that the pages of an export agree with one another."""
        self._held = self.runs()

    def _forget_if_seals_changed(self) -> None:
        """Read runs again after a task was sealed or revealed, since cached ones show the former state."""
        seals = self._store.seals.all()
        with self._lock:
            if seals != self._seals:
                self._seals, self._known, self._comparisons, self._questions = seals, {}, Comparisons(), {}

    def _with_spreads(self, runs: list[StoredRun]) -> list[StoredRun]:
        """Return the runs, with the spreads over prompts where their model was audited."""
        known = self._spreads.read(self._store)
        if not known:
            return runs
        spreads = [known.get(model_key(run.plan), {}) for run in runs]
        return [replace(run, spreads=own, state=f"{run.state} {sorted(own.items())}") if own else run
                for run, own in zip(runs, spreads, strict=True)]  # fmt: skip

    def marks(self) -> Marks:
        """Return the queue's and moderators' present facts about runs and models."""
        marks = read_marks(self._store, self._marks)
        with self._lock:
            self._marks = marks
        return marks

    def _visible(self, runs: Sequence[StoredRun]) -> list[StoredRun]:
        """Return the runs that visitors may see, with their marks."""
        marked = self._marked(runs)
        if self._shows is None:
            return marked
        with self._lock:
            known = self._visibility
        judged = {
            run.run_id: before if (before := known.get(run.run_id, ("", False)))[0] == run.state
            else (run.state, self._shows(run))
            for run in marked
        }  # fmt: skip
        with self._lock:
            self._visibility = {**self._visibility, **judged}
        return [run for run in marked if judged[run.run_id][1]]

    def _marked(self, runs: Sequence[StoredRun]) -> list[StoredRun]:
        """Return the runs that are shown, with their marks, under the present names of their models."""
        marks = self.marks()
        marked = []
        for run in runs:
            mark = marks.runs.get(run.run_id)
            if mark is None and run.row.command == UPLOADED:
                continue
            if mark is None:
                present = marks.names.get(run.model)
                mark = None if present is None else RunMark(present, "")
            if mark is None:
                marked.append(run)
            elif not mark.is_hidden:
                marked.append(replace(run, mark=mark, state=f"{run.state} {mark.name} {mark.note}"))
        return marked

    def _rows(self, run_ids: Sequence[str]) -> list[RunRow]:
        """Return the rows of runs; one that was removed meanwhile is omitted."""
        if len(run_ids) > MOST_SINGLE:
            wanted = set(run_ids)
            return [row for row in self._store.runs() if row.run_id in wanted]
        rows = []
        for run_id in run_ids:
            try:
                rows.append(self._store.run(run_id))
            except UnknownName:
                continue
        return rows

    def run(self, name: str) -> StoredRun:
        """Return one run by its id or the beginning of it.

        Raises: UnknownName, also for a run that was withdrawn or may not be shown.
        """
        if not re.fullmatch(r"[0-9A-Za-z._-]{4,64}", name):
            raise UnknownName("run", name[:80], remedy="a run's id has at least four letters and digits")
        if self._shows is None and self._held is None:
            runs = self._visible([self._with_estimates(self._store.run(name))])
        else:  # names of runs that are not shown must not be among the suggestions
            runs = [run for run in self.runs() if run.run_id.startswith(name)]
            runs = [run for run in runs if run.run_id == name] or runs
        if len(runs) != 1:
            remedy = f"{len(runs)} runs begin with it; give more digits" if runs else "it may have been withdrawn"
            raise UnknownName("run", name, remedy=remedy)
        return runs[0]

    def attempts(self, run_id: str) -> Sequence[AttemptRow]:
        """Return when, where and with which versions a run was worked on."""
        return self._store.attempts(run_id)

    def model_index(self, run: StoredRun) -> list[dict[str, JsonValue]]:
        """Return a run's results as the Hub's model cards state them, with the intervals that are shown."""
        return model_index_results(run.row, run.estimates)

    def questions(self, task: str) -> Questions:
        """Return a task's questions over the best run of each model that is shown; computed again when runs change.

        Raises: as `questions_in`.
        """
        runs = [run for run in self.runs() if task in run.row.tasks and not run.is_upload]
        state = content_hash([[run.run_id, run.state] for run in runs])
        with self._lock:
            cached = self._questions.get(task)
        if cached is None or cached[0] != state:
            cached = (state, questions_in(self._store, [run.row for run in runs], task))
            with self._lock:
                self._questions[task] = cached
        return cached[1]

    def comparison(self, run_ids: Sequence[str]) -> Comparison:
        """Return the paired comparison of stored runs, the first one the reference; `answered` has the answers' texts.

        Raises: UsageError where they have no task in common.
        """
        store = self._store
        comparison = self._comparisons.whole(store, [store.run(run_id) for run_id in run_ids])
        return self._without_withheld(comparison, run_ids)

    def answered(self, first: str, second: str, pair: PairComparison, flips: Sequence[Flip]) -> tuple[Flip, ...]:
        """Return answers of two compared runs that changed, with their texts."""
        return answered(self._store, (first, second), pair, flips) if flips else ()

    def row_pairs(self, first: str, second: str, pair: PairComparison, most: int) -> list[RowPair]:
        """Return the rows of two compared runs, those that got worse first, without withheld ones.

        most: rows of a run; none are returned for a larger one.
        """
        tasks = tuple(task for task in pair.tasks if not self._are_withheld((first, second), task.name))
        if sum(task.n + task.n_missing for task in tasks) > most:
            return []
        store = self._store
        return row_pairs((store, first), (store, second), replace(pair, tasks=tasks))

    def difference(self, first: StoredRun, second: StoredRun) -> PairComparison:
        """Return the paired comparison of two runs without the answers that changed.

        Raises: UsageError where they have no task in common.
        """
        return self._comparisons.numbers(self._store, first.row, second.row)

    def _without_withheld(self, comparison: Comparison, run_ids: Sequence[str]) -> Comparison:
        """Return a comparison without the answers to withheld questions."""
        tasks = {flip.task for pair in comparison.pairs for flip in pair.flips}
        withheld = {task for task in tasks if self._are_withheld(run_ids, task)}
        pairs = [
            replace(pair, flips=tuple(flip for flip in pair.flips if flip.task not in withheld))
            for pair in comparison.pairs
        ]
        return replace(comparison, pairs=tuple(pairs))

    def _are_withheld(self, run_ids: Sequence[str], task: str) -> bool:
        return any(self.why_withheld(run_id, task) is not None for run_id in run_ids)

    def _with_estimates(self, row: RunRow) -> StoredRun:
        store = self._store
        try:
            stated = with_declared_chance(store.estimates(row.run_id), row.extra)
        except HashMismatch:  # one damaged run must not take the others' pages with it
            return StoredRun(replace(row, status=DAMAGED), (), state=f"{row.updated_at} {DAMAGED}")
        estimates = estimates_at_any_time(row, stated, lambda task: store.scores(row.run_id, task, details=False))
        numbers = [
            [estimate.task, estimate.metric, estimate.filter, estimate.value, estimate.low, estimate.high, estimate.n]
            for estimate in estimates
        ]
        return StoredRun(row, estimates, state=f"{row.updated_at} {row.status} {content_hash(numbers)}")

    # -------------------------------------------------------------------------------------- samples

    def why_withheld(self, run_id: str, task: str) -> WhyWithheld | None:
        """Return how a task's questions and answers are withheld; None where they are shown."""
        return self._store.why_withheld(run_id, task)

    def seals(self) -> list[SealedTask]:
        """Return the sealed tasks of the store, revealed ones too."""
        return self._store.seals.all()

    def parts_of(self, run_id: str, estimate: Estimate) -> tuple[list[float], list[float]] | None:
        """Return the scores behind an estimate in two parts, the task's preview and the rest; None without a preview.

        Failed requests have no score. The last turn of a conversation counts.
        """
        public = self._store.preview_of(run_id, estimate.task)
        if public is None:
            return None
        values: dict[int, float] = {}
        for score in self._store.scores(run_id, estimate.task, details=False):
            if (score.metric, score.filter) == (estimate.metric, estimate.filter) and score.value is not None:
                values[score.sample_index] = score.value
        of_public = [value for index, value in values.items() if index in public]
        return of_public, [value for index, value in values.items() if index not in public]

    def scores_of(self, run_id: str, task: str) -> list[list[ScoreRow]]:
        """Return a task's scores in a run, by metric and filter; empty if the run does not have the task."""
        if task not in self.run(run_id).row.tasks:
            return []
        by_metric: dict[tuple[str, str], list[ScoreRow]] = {}
        for row in score_rows(self._store, run_id, task):
            by_metric.setdefault((row.metric, row.filter), []).append(row)
        return list(by_metric.values())

    def sample_page(
        self,
        run: RunRow,
        task: str,
        *,
        text: str = "",
        wrong_only: bool = False,
        category: str = "",
        offset: int = 0,
        limit: int = 50,
    ) -> TaskSamples:
        """Return some of a task's samples, and their number; withheld ones have no text, and searches do not find them.

        Raises: UnknownName for a task that the run does not have.
        """
        counts = self._counts_of(run, task)
        numbered = [line for line in self._numbered(run.run_id, task, text)
                    if (line.wrong or not wrong_only) and category in {"", line.category}]  # fmt: skip
        first = numbered[offset : offset + limit]
        page = self._store.sample_list(
            run.run_id,
            task,
            query=text,
            wrong_only=wrong_only,
            category=category or None,
            offset=max(0, offset - len(numbered)),
            limit=max(1, limit - len(first)),
        )
        lines = (*first, *(_line(facts) for facts in page.samples))[:limit]
        n_matching = page.total + len(numbered)
        if text and not page.is_indexed and counts.n_total <= MOST_SEARCHED:  # the store has searched snippets only
            found = [
                line
                for line in self._with_words(run, task, text)
                if (line.wrong or not wrong_only) and category in {"", line.category}
            ]
            lines, n_matching = tuple(found[offset : offset + limit]), len(found)
        return TaskSamples(lines, n_matching, counts.n_total, counts.n_wrong, counts.categories)

    def _with_words(self, run: RunRow, task: str, text: str) -> Iterator[SampleLine]:
        """Yield the samples whose question, choices, answer or target have all words of a search, or its number."""
        words = [phrase.lower() for phrase in phrases_of(text)] or [text.lower()]
        for whole, line in self._texts_of(run, task):
            if text == str(line.index) or all(word in whole for word in words):
                yield line

    def _texts_of(self, run: RunRow, task: str) -> list[tuple[str, SampleLine]]:
        """Return the searched text of each sample that is not withheld; kept while a visitor types."""
        key, (known, texts) = _state_of(run, task), self._texts
        if known == key and not self.seals():  # a seal may end with a day
            return texts
        texts = []
        for record in self._store.samples(run.run_id, task):
            said = [query.continuation for query in choice_queries(record)]
            said += [output.text for output in record.outputs if output.text is not None]
            whole = "\n".join([*record.request.segments[-1:], record.request.target, *said]).lower()
            if not record.is_withheld:
                texts.append((whole, _line_of_record(record)))
        if sum(len(whole) for whole, _ in texts) <= MOST_KEPT:
            self._texts = key, texts
        return texts

    def _counts_of(self, run: RunRow, task: str) -> _Counts:
        key = _state_of(run, task)
        with self._lock:
            known = self._counts.get(key)
        if known is None:
            counts = self._store.categories(run.run_id, task)
            names = sorted((count.category or "", count.n_samples) for count in counts)
            known = _Counts(
                sum(count.n_samples for count in counts),
                sum(count.n_wrong for count in counts),
                tuple(names) if len(names) > 1 else (),
            )
            with self._lock:
                self._counts[key] = known
                while len(self._counts) > KEPT_LISTS:
                    self._counts.pop(next(iter(self._counts)))
        return known

    def _numbered(self, run_id: str, task: str, text: str) -> list[SampleLine]:
        """Return the sample with the number that was searched for, unless the text search finds it too."""
        if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER):
            return []
        by_text = self._store.sample_list(run_id, task, query=text, limit=LISTED)
        records = self._store.samples(run_id, task, indices=[int(text)])
        lines = [_line_of_record(record) for record in records if not record.is_withheld]
        if by_text.is_indexed:
            listed = {facts.sample_index for facts in by_text.samples}
            return [line for line in lines if line.index not in listed]
        return [line for line in lines if text not in line.snippet]

    def sample(self, run_id: str, task: str, index: int) -> list[SampleRecord]:
        """Return all turns of one sample.

        Raises: UnknownName for a task or a sample that the run does not have; TextsWithheld.
        """
        records = self._of_sample(run_id, task, index)
        if not records:
            raise UnknownName("sample", f"{task} {index}", remedy="the run did not evaluate it")
        if any(record.is_withheld for record in records):
            raise TextsWithheld(
                f"the data set of {task} is gated: its questions are not shown unless the host allows it (--show_gated)"
                if is_gated(task)
                else f"{task} is sealed: its rows are not shown, its scores are"
            )
        return records

    def _of_sample(self, run_id: str, task: str, index: int) -> list[SampleRecord]:
        """Return all turns of one sample; of held runs, whose samples are all asked for, many are read at once."""
        if self._held is None:
            return list(self._store.samples(run_id, task, indices=[index]))
        key = (run_id, task, index // READ_AHEAD)
        if key not in self._ahead:
            first = key[2] * READ_AHEAD
            by_index: dict[int, list[SampleRecord]] = {}
            for record in self._store.samples(run_id, task, indices=range(first, first + READ_AHEAD)):
                by_index.setdefault(record.request.sample_index, []).append(record)
            while len(self._ahead) > MOST_ANSWERS:  # this run's, and those of the runs beside it
                self._ahead.pop(next(iter(self._ahead)))
            self._ahead[key] = by_index
        return self._ahead[key].get(index, [])

    def samples(self, run_id: str, task: str, indices: Sequence[int]) -> list[SampleRecord]:
        """Return all turns of some samples, in order, without those that are withheld."""
        return [record for record in self._store.samples(run_id, task, indices=indices) if not record.is_withheld]

    def same_sample(self, of: SampleRecord, besides: str) -> Iterator[tuple[RunRow, SampleRecord]]:
        """Yield the same sample, by its hash, as other runs answered it, the latest run first."""
        request = of.request
        runs = [run.row for run in self.runs() if run.run_id != besides and request.task in run.row.tasks]
        for row in runs[:MOST_ANSWERS]:
            for record in self._of_sample(row.run_id, request.task, request.sample_index):
                is_same = record.request.sample_sha256 == request.sample_sha256
                if is_same and record.request.turn == request.turn and not record.is_withheld:
                    yield row, record


def _is_unsettled(facts: RunFacts) -> bool:
    """Return whether a run's estimates may change while its row does not."""
    if facts.status == "running":
        return True
    try:
        ended = datetime.fromisoformat(facts.updated_at)
    except ValueError:
        return True
    if ended.tzinfo is None:
        ended = ended.replace(tzinfo=UTC)
    return datetime.now(UTC) - ended < UNSETTLED


def _is_same(known: _Known | None, facts: RunFacts, columns: tuple[EstimateRow, ...] | None) -> bool:
    if known is None:
        return False
    row = known.run.row
    is_row = (row.updated_at, row.status) == (facts.updated_at, facts.status)
    return is_row and (columns is None or columns == known.columns)


def _line(facts: SampleFacts) -> SampleLine:
    return SampleLine(
        index=facts.sample_index,
        turn=facts.turn,
        snippet=facts.snippet,
        category=facts.category or "",
        metric=facts.metric if facts.status is not None else None,
        score=facts.score,
        status=facts.status,
        verdict=_verdict(facts),
        wrong=facts.is_wrong,
        n_cut_tokens=facts.n_truncated_tokens,
    )


def _verdict(facts: SampleFacts) -> str:
    """Return a sample's verdict, as `verdict_of` does of a whole record."""
    if facts.status is None:
        return "not scored"
    if facts.status != "scored":
        return facts.status
    return "scored" if facts.correct is None else "wrong" if facts.is_wrong else "right"


def _line_of_record(record: SampleRecord) -> SampleLine:
    request = record.request
    score = deciding_score(record)
    row = record.sample.row if record.sample is not None else {}
    own = [segment for segment in request.segments if segment.strip()]
    return SampleLine(
        index=request.sample_index,
        turn=request.turn,
        snippet=snippet_of(question_of(row) or (own[-1] if own else request.prompt)),
        category=category_of(row) or "",
        metric=None if score is None else score.metric,
        score=None if score is None else score.value,
        status=None if score is None else str(score.status),
        verdict=verdict_of(record),
        wrong=is_wrong(record),
        n_cut_tokens=max((output.n_cut_tokens for output in record.outputs), default=0),
    )


SAMPLES_COMPARED = 30_000  # of both runs of all pairs on one page: some seconds when it is first shown


@dataclass(frozen=True, slots=True)
class Relative:
    """Two related models' latest runs, compared question by question; the difference is derived model minus base."""

    base_run: str
    derived_run: str
    difference: Difference | None  # None where it was not computed, or they share no task that can be averaged


@dataclass(frozen=True, slots=True)
class RankInType:
    """Where a row stands among the complete rows of its type and setup, by the average."""

    type: str
    rank: int
    n: int


class Relatives:
    """Compares a page's model with its relatives, up to a number of samples, so that the page stays fast."""

    def __init__(self, runs: StoredRuns | None) -> None:
        self._runs = runs
        self._n_left = SAMPLES_COMPARED

    def compare(self, base: Sequence[StoredRun], derived: Sequence[StoredRun]) -> Relative | None:
        """Return the paired comparison of two models; None where one of them has no finished run.

        Of several runs the pair with the most tasks in common counts, then the latest.
        """
        pairs = [(run, other) for run in base for other in derived if run.estimates and other.estimates]
        if self._runs is None or not pairs:
            return None
        first, second = max(pairs, key=lambda pair: len(set(pair[0].row.tasks) & set(pair[1].row.tasks)))
        n_samples = first.row.n_samples + second.row.n_samples
        difference = None
        if n_samples <= self._n_left:
            self._n_left -= n_samples
            with suppress(UsageError):  # no task in common: there is only the link to both
                difference = self._runs.difference(first, second).overall
        return Relative(first.run_id, second.run_id, difference)


def rank_in_type(table: BoardTable, row: BoardRow) -> RankInType | None:
    """Return a row's rank within its type; None for a row without a type, or without a rank.

    Rows of other prompt setups are left out where the board ranks them apart.
    """
    index, at = table.index, table.places[row.id]
    kind = row.facts.get("type")
    if kind in {None, "", "unknown"} or not (index.is_complete & index.may_rank)[at]:
        return None
    known = index.texts("type")
    of_type = known.codes == known.codes[at]
    among = of_type & index.is_complete & index.may_rank & (index.rank_groups == index.rank_groups[at])
    values = index.scores("average").values
    return RankInType(str(kind), 1 + int((among & (values > values[at])).sum()), int(among.sum()))
