"""Rescoring: score the stored outputs of a run with other filters or metrics, or by its current task files.

No model is loaded. Earlier scores stay stored: a scoring is identified by the hash of its settings and code, and tables
show the latest one of each filter and metric.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assaymark.errors import HashMismatch, LeaseLost, PlanError, RunBusy, UnknownName, UsageError
from assaymark.records import Estimate, JsonValue, Sample, Score, ScoreStatus, content_hash, rotations_of
from assaymark.records.json_values import json_of
from assaymark.records.result_facts import ResultFacts
from assaymark.registry import meant, nearest
from assaymark.runs.attempt import SCORING_HASH, SCORING_VERSION, score_request
from assaymark.runs.prepare import split_names
from assaymark.runs.run import Run
from assaymark.runs.stored import existing_store, run_in
from assaymark.runs.targets import refuse_target
from assaymark.scoring.metrics import is_graded_by_model
from assaymark.settings import data_folder, environment
from assaymark.store import RunRow, SampleRecord, Store
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.eval_yaml import PREFIX
from assaymark.tasks.own_rows import OwnData, is_rows_file
from assaymark.tasks.rescoring import StoredScoring, read_item, refuse_inapplicable, with_scoring
from assaymark.tasks.styled_tasks import find_prompt_style, styled_task
from assaymark.tasks.task import Task


@dataclass(slots=True)
class RescoredTask:
    """The result of rescoring one task's stored outputs."""

    task: Task
    scoring_hash: str
    n_scored: int = 0  # responses
    n_failed: int = 0  # of these: without an answer, so there is nothing to score
    n_incomplete: int = 0  # responses that lack an output; they are not scored
    names: dict[tuple[str, str], None] = field(default_factory=dict)  # (filter, metric) of the scores, in order

    json_keys = "task=task.name scoring_hash scores=names n_scored n_failed n_incomplete"


def scoring_hash_of(task: Task, planned_spec_hash: str) -> str:
    """Return the hash of a scoring: the run's own where the task is the one that was run, else one of the task."""
    if task.spec_hash == planned_spec_hash:
        return SCORING_HASH
    return content_hash({"scoring": SCORING_VERSION, "task": task.spec_hash})


def rescore(
    store: Store,
    row: RunRow,
    tasks: Sequence[Task],
    facts_of: Callable[[Sequence[RescoredTask]], Mapping[str, JsonValue]],
    *,
    unsafe_code: bool = False,
    command: str | None = None,
) -> list[RescoredTask]:
    """Score a run's stored outputs for these tasks, with the tasks' present filters and metrics.

    Everything is scored before anything is stored, in one transaction with what `facts_of` returns for
    `RunRow.extra`. So an error, a signal or a kill leaves the run as it was, and tables never show a partial scoring.

    Raises: PlanError where a metric or filter cannot be computed from the stored outputs; RunBusy while another
        process is writing the run; StoreError.
    """
    if (writer := store.writer(row.plan)) is not None:
        raise RunBusy(f"run {row.short_id} is being written by {writer}; wait until that has ended, then rescore it")
    hashes = {task.name: task.spec_hash for task in row.plan.tasks}
    work = [_Rescoring(store, row, task, scoring_hash_of(task, hashes[task.name]), unsafe_code) for task in tasks]
    for rescoring in work:
        rescoring.try_first()
    for rescoring in work:
        rescoring.score()
    last_finished = max((a.attempt_id for a in store.attempts(row.run_id) if a.status == "finished"), default=0)
    facts = {**environment(), "rescored": [task.name for task in tasks]}
    opened = store.open_run(row.plan, facts=facts, command=command, rescoring=True)
    results = [rescoring.result for rescoring in work]
    status = "finished" if last_finished else row.status  # the outputs did not change
    try:
        store.close_rescoring(opened, status, [rescoring.scored for rescoring in work], facts_of(results))
    except LeaseLost:
        store.abandon_run(row.run_id)
        raise
    except BaseException:
        store.close_run(row.run_id, opened.attempt_id, status)
        raise
    return results


class _Rescoring:
    """One task's stored outputs and their new scores."""

    def __init__(self, store: Store, row: RunRow, task: Task, scoring_hash: str, unsafe_code: bool) -> None:
        self.store, self.row, self.task = store, row, task
        self.unsafe_code = unsafe_code
        self.result = RescoredTask(task, scoring_hash)
        self._scoring: StoredScoring | None = None
        self._scores: list[Score] = []

    def try_first(self) -> None:
        """Score the first response that can be scored, without storing its scores.

        Raises: PlanError if there is none, or one of the task's metrics gets no score.
        """
        for record in self.store.samples(self.row.run_id, self.task.name):
            if not _is_complete(record) or any(output.error for output in record.outputs):
                continue
            refuse_inapplicable(self.task, record.request)
            if scores := self._score(record):  # none for an earlier answer of a conversation
                self._refuse_missing(scores)
                return
        raise PlanError(f"run {self.row.short_id} has no answers for task {self.task.name}; there is nothing to score")

    def _refuse_missing(self, scores: Sequence[Score]) -> None:
        scored = {score.metric for score in scores}
        lacking = [metric.name for metric in self.task.metrics if metric.name not in scored]
        if lacking:
            raise PlanError(
                f"task {self.task.name}: {', '.join(lacking)} cannot be computed from the stored answers; "
                f"they give {', '.join(sorted(scored)) or 'no score'}"
            )

    def score(self) -> None:
        """Score every complete response, and collect the scores."""
        for record in self.store.samples(self.row.run_id, self.task.name):
            if not _is_complete(record):
                self.result.n_incomplete += 1
                continue
            scores = self._score(record)
            self.result.n_scored += bool(scores)
            self.result.n_failed += any(score.status is ScoreStatus.FAILED for score in scores)
            self.result.names.update(dict.fromkeys((score.filter, score.metric) for score in scores))
            self._scores += scores

    @property
    def scored(self) -> tuple[list[Score], str]:
        """The scores, and the hash of the scoring that made them."""
        return self._scores, self.result.scoring_hash

    def _score(self, record: SampleRecord) -> tuple[Score, ...]:
        sample = self._sample_of(record)
        if self._scoring is None:
            circular = bool(rotations_of(record.request))
            self._scoring = StoredScoring(self.task, sample.row, unsafe_code=self.unsafe_code, circular=circular)
        return score_request(self._scoring, record.request, sample, record.outputs)

    def _sample_of(self, record: SampleRecord) -> Sample:
        if record.sample is None:
            raise PlanError(
                f"run {self.row.short_id} does not store the rows of task {self.task.name}, so there is no reference "
                "to score its answers against; run the task here instead"
            )
        return record.sample


def _is_complete(record: SampleRecord) -> bool:
    return len(record.outputs) == record.request.n_outputs


@dataclass(frozen=True, slots=True)
class RescoreOptions:
    """The samples to rescore, and how. Filters and metrics are names, YAML text or YAML files."""

    task_names: Sequence[str] = ()  # among the run's tasks; empty: all
    filters: Sequence[str] = ()
    metrics: Sequence[str] = ()
    task_files: Sequence[str] = ()  # changed task files, whose tasks are scored; empty: those of the catalogue
    include_path: Sequence[str | Path] = ()
    unsafe_code: bool = False
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Rescored:
    """A run after it was scored again."""

    run: Run
    tasks: Sequence[RescoredTask]
    before: tuple[Estimate, ...] = field(default=(), repr=False)

    def lines(self) -> list[str]:
        """Return the counts of each task, and each changed value with the one it replaced."""
        earlier = {(previous.task, previous.filter, previous.metric): previous.value for previous in self.before}
        lines: list[str] = []
        for task in self.tasks:
            parts = [f"{task.task.name}: {task.n_scored:,} stored responses scored again, no request was sent"]
            parts += [f"{task.n_failed:,} failed and have no score"] if task.n_failed else []
            parts += [f"{task.n_incomplete:,} have no response yet"] if task.n_incomplete else []
            lines.append("; ".join(parts))
            for estimate in self.run.estimates:
                key = (estimate.task, estimate.filter, estimate.metric)
                if (
                    estimate.task == task.task.name
                    and key[1:] in task.names
                    and earlier.get(key, estimate.value) != estimate.value
                ):
                    before, after = _value_text(earlier[key]), _value_text(estimate.value)
                    lines.append(f"  {estimate.metric} ({estimate.filter}) was {before}, is {after}")
        return lines

    def to_json(self) -> dict[str, JsonValue]:
        """Return the run and the rescored tasks with stable names."""
        return {**self.run.to_json(), "scored_again": json_of(self.tasks)}


def _value_text(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def rescore_stored(store: str | None, name: str, options: RescoreOptions) -> Rescored:
    """Rescore a stored run by its name; see `rescore_run`."""
    opened = existing_store(store)
    return rescore_run(run_in(opened, name, rescoring=True), options)


def rescore_run(run: Run, options: RescoreOptions) -> Rescored:
    """Score a run's stored outputs again, without sending anything to the model; its earlier scores stay stored.

    Raises: UnknownName for an unknown task, filter or metric; PlanError if the stored outputs lack what a metric
        needs, or belong to other questions than those of the current task file.
    """
    from assaymark.results.evidence.from_store import SUMMARY_DUE, save_summary_of
    from assaymark.results.evidence.rescoring import add_rescored, rescored_entry
    from assaymark.results.evidence.task_facts import lacking_aggregations, own_aggregations

    row = run.row
    refuse_target(row, "scored again without it")
    known = _known_tasks(row, options)
    tasks = [_changed(task, row, options) for task in _wanted_tasks(row, options, known)]
    own = own_aggregations([*known.values(), *tasks])
    if lacking := lacking_aggregations(row.extra, own):
        raise UsageError(
            f"task {lacking[0][0]} aggregates {lacking[0][1]} by a function in its file, which is not known here; "
            f"give the folder of {row.extra['tasks'][lacking[0][0]].get('source')} with --include_path"
        )
    try:
        before = run.estimates
        names = {task.name: [(e.filter, e.metric) for e in before if e.task == task.name] for task in tasks}
    except HashMismatch:  # of estimates that are damaged, which are computed again here
        before = ()
        names = {task.name: run.store.score_names(run.id, task.name) for task in tasks}

    def facts_of(results: Sequence[RescoredTask]) -> ResultFacts:
        entries = [
            rescored_entry(result.task, result.scoring_hash, result.names, names[result.task.name])
            for result in results
        ]
        return {**add_rescored(row.extra, entries, SCORING_HASH), SUMMARY_DUE: True}

    results = rescore(run.store, row, tasks, facts_of, unsafe_code=options.unsafe_code, command=options.command)
    save_summary_of(run.store, run.id, run.row.extra, own)
    return Rescored(run, results, before)


def _changed(task: Task, row: RunRow, options: RescoreOptions) -> Task:
    """Return the task with the wanted filters and metrics, after checking that its questions are those of the run."""
    from assaymark.results.evidence.rescoring import changed_prompt_keys

    plan = next(task_plan for task_plan in row.plan.tasks if task_plan.name == task.name)
    stored = row.extra["tasks"][task.name]["spec"]
    if task.spec_hash != plan.spec_hash and (keys := changed_prompt_keys(stored, task, plan.num_fewshot)):
        raise PlanError(
            f"task {task.name}: {task.source} has another {', '.join(keys)} than run {row.short_id} was evaluated "
            "with, so the stored outputs belong to other questions; run the task again, or give a file that differs "
            "in filters and metrics only with --tasks"
        )
    filters = [read_item(text, "--filter") for text in options.filters]
    changed = with_scoring(task, filters, [read_item(text, "--metric") for text in options.metrics])
    own = tuple(metric for metric in changed.metrics if not is_graded_by_model(metric.name))  # grades stay as they are
    if not own:
        raise PlanError(
            f"task {task.name} is scored by a grader alone; the same `assaymark run` with another --judge asks it "
            "about the stored answers"
        )
    changed = replace(changed, metrics=own)
    return replace(changed, name=task.name)  # perturbed copies have another name than their file's task


def _known_tasks(row: RunRow, options: RescoreOptions) -> dict[str, Task]:
    """Return the run's tasks, read from the files given, else from the catalogue; unknown ones are omitted."""
    if (imported := row.extra.get("imported")) is not None:
        raise UsageError(
            f"run {row.short_id} was imported from {imported['tool']} without the task files that its scores need; "
            "score it again with that tool and import the result, or run the tasks here: assaymark run --tasks"
        )
    if any(name not in row.extra.get("tasks", {}) for name in row.tasks):
        why = f"was never summarised (it is {row.status}), so its task files are not known here"
        raise UsageError(f"run {row.short_id} {why}; run the tasks again")
    catalog, own = _catalog(options), _own_data(row)
    tasks_by_name: dict[str, Task] = {}
    for name in _selected_names(row.extra):
        fact = row.extra["tasks"].get(name)
        source = str((None if fact is None else fact.get("source")) or "")
        if is_rows_file(Path(source)):
            continue  # `sub/nums`, made of sub/nums.csv, has the form of a data set's id
        selected = source if source.startswith(PREFIX) else name
        try:
            tasks_by_name.update({task.name: task for task in catalog.select([selected], own=own).tasks})
        except UnknownName:
            continue  # the task was read from a file given by its path
    tasks_by_name.update({task.name: task for task in _named_tasks(row, options)})
    known = [tasks_by_name[name] for name in row.tasks if name in tasks_by_name]
    if prompt_style := row.plan.prompt_style:
        known = [styled_task(task, find_prompt_style(prompt_style)) for task in known]
    tasks = {task.name: task for task in known}
    originals = {each.name: each.perturbed["of"] for each in row.plan.tasks if each.perturbed is not None}
    copies = {name: replace(tasks[of], name=name) for name, of in originals.items() if of in tasks}
    return {name: (tasks | copies)[name] for name in row.tasks if name in tasks | copies}


def _catalog(options: RescoreOptions) -> Catalog:
    return Catalog.open([Path(folder).expanduser() for folder in options.include_path])


def _named_tasks(row: RunRow, options: RescoreOptions) -> list[Task]:
    """Return the run's tasks that are in the files given."""
    if not options.task_files:
        return []
    named = _catalog(options).select(split_names(options.task_files), own=_own_data(row)).tasks
    tasks = [task for task in named if task.name in row.tasks]
    if not tasks:
        raise UsageError(
            f"none of the tasks in {', '.join(options.task_files)} is in run {row.short_id}, "
            f"which has {', '.join(row.tasks[:10])}"
        )
    return tasks


def _own_data(row: RunRow) -> OwnData:
    return OwnData(data_folder(None), row.plan.skip_bad_rows, row.plan.answers)


def _wanted_tasks(row: RunRow, options: RescoreOptions, known: Mapping[str, Task]) -> list[Task]:
    """Return the tasks to score: those named, else those of the files given, else all of the run's."""
    named = [meant(name, row.tasks) for name in options.task_names]
    for name in named:
        if name not in row.tasks:
            remedy = f"it has: {', '.join(row.tasks[:10])}"
            raise UnknownName("task in this run", name, nearest(name, row.tasks), remedy)
    of_files = {task.name for task in _named_tasks(row, options)}
    with_copies = [
        each.name
        for each in row.plan.tasks
        if ({each.name} if each.perturbed is None else {each.name, each.perturbed["of"]}) & of_files
    ]
    wanted = named or with_copies or row.tasks
    for name in wanted:
        if name not in known:
            source = row.extra["tasks"][name].get("source")
            raise UnknownName(
                "task", name, (), f"run {row.short_id} read it from {source}; give its file with --tasks FILE"
            )
    return [known[name] for name in wanted]


def _selected_names(facts: ResultFacts) -> list[str]:
    """Return names that select a run's tasks: its outermost groups, which may change their tasks, and the rest."""
    groups = {group["name"]: set(group["members"]) for group in facts.get("groups", ())}
    inside = set().union(*groups.values()) if groups else set()
    originals = [name for name, task in facts["tasks"].items() if "perturbed" not in task]
    return [name for name in groups if name not in inside] + [name for name in originals if name not in inside]
