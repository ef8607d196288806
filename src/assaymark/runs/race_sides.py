"""The sides of a race: a model whose answers become a run, or a stored run.

Questions come in a random order that follows from the benchmark's data and a seed; evidence counts only in this order.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from assaymark.errors import PlanError, UsageError
from assaymark.models.cost.bill import bill_for
from assaymark.models.model import Model
from assaymark.records import ScoreStatus
from assaymark.results.evidence.task_facts import facts_of, tasks_from
from assaymark.runs.attempt import Attempt, ChunkScorer
from assaymark.runs.chunks import Chunk, turns_of
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.execute import open_checked
from assaymark.runs.opening import RunOpener
from assaymark.runs.plan import PreparedRun, TaskRegister, prepare, render_of
from assaymark.runs.prepare import choose_tasks, model_of, run_options
from assaymark.runs.run import Run
from assaymark.runs.stored import run_in
from assaymark.scoring.metrics import is_graded_by_model, may_be_share
from assaymark.statistics.aggregate import traits_of
from assaymark.store import Store
from assaymark.tasks.question_order import question_order

FIRST_BLOCK = 50  # questions before the first look
LEAST_BLOCK = 16  # questions between two looks
GROWTH = 0.1  # of the questions seen, between two looks: larger blocks share more, smaller ones stop sooner
LARGEST_GROWTH = 0.5  # the same, while a verdict is far away: half of the questions that would still decide
RUN_ID = re.compile(r"last(~\d+)?|[0-9a-f]{6,64}")
Place = tuple[str, int]  # a task and the index of one of its samples


class Measured(NamedTuple):
    """What a task's questions are scored by."""

    metric: str
    filter: str
    higher_is_better: bool


Metrics = Mapping[str, Measured]  # by task


class Side(Protocol):
    """One model of a race."""

    run_id: str

    def values(self, places: Sequence[Place]) -> dict[Place, float | None]:
        """Return the scores at these places, after answering those without a stored score; None for a failed one."""


class _StoredRun:
    """A run that is stored in full: nothing is asked."""

    def __init__(self, run: Run, metrics: Metrics) -> None:
        self.run_id = run.id
        self._values = stored_values(run.store, run.id, metrics)

    def values(self, places: Sequence[Place]) -> dict[Place, float | None]:
        """Return the stored scores at these places. Raises: PlanError where one is missing."""
        missing = [place for place in places if place not in self._values]
        if missing:
            task, index = missing[0]
            where = f"run {self.run_id[:8]} has no score of {task}, sample {index}"
            raise PlanError(f"{where}; name a run of all its samples")
        return {place: self._values[place] for place in places}


class Answering:
    """A model that answers blocks of questions, stored as one run of all of them."""

    def __init__(
        self, model: Model, prepared: PreparedRun, store: Store, metrics: Metrics,
        command: str | None, notify: Callable[[str], None], rule: str = "the rule of a race",
    ) -> None:  # fmt: skip
        self._rule = rule
        self._model, self._prepared, self._store, self._metrics = model, prepared, store, metrics
        opener = RunOpener(store, prepared.plan, True, notify, bound=prepared.bound)
        opened = open_checked(opener, prepared, model, command)
        self.run_id = opened.run_id
        self._attempt = Attempt(store, model, opened, prepared.options.bill)
        self._bound = {bound.plan.name: bound for bound in prepared.bound}
        self._positions = {
            name: {index: position for position, index in enumerate(bound.indices)}
            for name, bound in self._bound.items()
        }
        self._render = render_of(model)
        self._seen: set[Place] = set()

    def __enter__(self) -> Self:
        self._attempt.__enter__()
        self._attempt.charge_stored(list(self._bound))  # a bill, and its limit, is one of the whole run
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        n_left = sum(map(len, self._positions.values())) - len(self._seen)
        if error is None and n_left:
            self._attempt.n_to_retry += n_left
            self._attempt.stop_reason = self._attempt.stop_reason or f"stopped by {self._rule}"
        self._attempt.__exit__(kind, error, traceback)

    def stored_scores(self, metrics: Metrics) -> dict[Place, float | None]:
        """Return all stored scores of these tasks by the metrics named; None for a request that failed."""
        return stored_values(self._store, self.run_id, metrics)

    @property
    def stop_reason(self) -> str | None:
        """Why nothing more can be sent: the limit of the cost; None while more can."""
        return self._attempt.stop_reason

    def values(self, places: Sequence[Place]) -> dict[Place, float | None]:
        """Return the scores at these places, after answering those without a stored score; None for a failed one."""
        by_task: dict[str, list[int]] = {}
        for task, index in places:
            by_task.setdefault(task, []).append(index)
        for task, indices in by_task.items():
            bound = self._bound[task]
            # a limit of the cost is reached in the order in which evidence counts
            is_limited = self._attempt.bill is not None and self._attempt.bill.most is not None
            own = bound.samples()
            samples = [own[self._positions[task][index]] for index in (indices if is_limited else sorted(indices))]
            requests = [bound.request(sample, self._render) for sample in samples]
            of_request = {request.id: sample for request, sample in zip(requests, samples, strict=True)}
            chunk = Chunk((bound,), requests, of_request)
            for turn in turns_of(chunk, self._attempt.stored, self._render):
                pending = self._attempt.unanswered(turn.requests, turn.samples_of_requests)
                scorer = ChunkScorer(self._store, self.run_id, turn, pending)
                for output in self._attempt.answer(pending):
                    scorer.take(output)
                scorer.finish()
        self._seen.update(places)
        stored = stored_values(self._store, self.run_id, {task: self._metrics[task] for task in by_task}, by_task)
        return {place: stored.get(place) for place in places}


class RacedTasks:
    """The parts that the models of a race share: the tasks, chosen and bound to their data once, and the options.

    Raises: UsageError for a limit of the cost, which would leave the race undecided with one model ahead; as
        `choose_tasks`.
    """

    def __init__(self, tasks: str | Sequence[str], options: EvaluateOptions) -> None:
        if options.get("max_cost") is not None:
            raise UsageError("a race has no limit of its cost; omit max_cost, or limit the questions (--budget N)")
        self._selection, self._options = choose_tasks(tasks, options)
        self._register = TaskRegister()

    def prepare(self, model: object, model_args: str | Mapping[str, object]) -> tuple[Model, PreparedRun]:
        """Return a model and its plan, with a bill where its price is known. Raises: as `prepare_run`."""
        options: EvaluateOptions = {**self._options, "model_args": model_args}
        opened = model_of(model, options)
        bill = bill_for(opened, options.get("price"), options.get("prices"), None)
        return opened, prepare(self._selection, opened, replace(run_options(options), bill=bill), self._register)


def places_of(prepared: PreparedRun, seed: int, *, macro: bool = False) -> list[Place]:
    """Return all questions in the order of a race, which depends on the benchmark's data and the seed alone.

    macro: whether each task counts the same.
    """
    return question_order(
        {bound.plan.name: bound.indices for bound in prepared.bound},
        {bound.plan.name: bound.plan.dataset_hash for bound in prepared.bound},
        seed,
        macro=macro,
    )


def weighting_notes(prepared: PreparedRun, *, macro: bool) -> list[str]:
    """Return a line for each chosen group whose own score weights its tasks differently from the questions drawn.

    A group of tasks of equal size has none, since both means are equal.

    macro: whether each task counts the same in the draw.
    """
    sizes = {bound.plan.name: len(bound.indices) for bound in prepared.bound}
    groups = {group.name: group for group in prepared.selection.groups}

    def tasks_of(name: str) -> set[str]:
        children = groups[name].children if name in groups else ()
        return {name} & sizes.keys() | {task for child in children for task in tasks_of(child)}

    notes = []
    for name in prepared.selection.names:
        group = groups.get(name)
        if group is None or not group.metrics or len({sizes[task] for task in tasks_of(name)}) < 2:
            continue
        if any(metric.weight_by_size == macro for metric in group.metrics):
            own = "over all of its questions" if macro else "of its parts' means (a macro average)"
            here = "each task counts the same here (--macro)" if macro else "all questions count the same here"
            remedy = "omit --macro" if macro else "use --macro"
            notes.append(f"note: the score of {name} is the mean {own}, and {here}; {remedy} to draw for that one")
    return notes


def block_size(n_seen: int, n_more: int | None = None) -> int:
    """Return how many questions to ask until the next look; `n_more`: about how many would decide, where it is known.

    A rule that is valid at any time is also valid at looks that depend on the earlier evidence.
    """
    if not n_seen:
        return FIRST_BLOCK
    return max(LEAST_BLOCK, int(GROWTH * n_seen), min((n_more or 0) // 2, int(LARGEST_GROWTH * n_seen)))


def main_metrics(prepared: PreparedRun, what: str = "a race") -> dict[str, Measured]:
    """Return what measures each task. Raises: UsageError for a metric that is not the mean of shares."""
    metrics: dict[str, Measured] = {}
    for task in tasks_from(facts_of(prepared.selection, prepared.bound)):
        name, name_of_filter = task.primary or ("nothing", "")
        own = next((metric for metric in task.metrics if metric.name == name), None)
        is_mean = own is not None and traits_of(own.aggregation).is_mean
        if own is None or not is_mean or not may_be_share(name) or is_graded_by_model(name):
            raise UsageError(
                f"task {task.name} is measured by {name}{'' if is_mean or own is None else ', which is not a mean'}, "
                f"and {what} needs scores from 0 to 1 of each answer at once, such as acc or exact_match"
            )
        metrics[task.name] = Measured(name, name_of_filter, own.higher_is_better)
    return metrics


def stored_side(store: Store, name: object, prepared: PreparedRun, metrics: Metrics) -> Side | None:
    """Return the side of a stored run; None for anything that names a model. Raises: PlanError for other questions."""
    stored = _stored_run(store, name)
    if stored is None:
        return None
    _refuse_other_questions(stored, prepared)
    return _StoredRun(stored, metrics)


def _stored_run(store: Store, name: object) -> Run | None:
    """Return the stored run of an id, the beginning of one, or `last`; None for anything else, which names a model."""
    if isinstance(name, Run):
        return name
    if not isinstance(name, str) or not RUN_ID.fullmatch(name) or Path(name).exists():
        return None
    return run_in(store, name)


def _refuse_other_questions(run: Run, prepared: PreparedRun) -> None:
    stored = {task.name: task for task in run.row.plan.tasks}
    for task in prepared.plan.tasks:
        own = stored.get(task.name)
        if own is None or own.dataset_hash != task.dataset_hash:
            what = "has no task" if own is None else "has other questions of task"
            raise PlanError(f"run {run.row.short_id} {what} {task.name}; name a run of the same tasks")


def stored_values(
    store: Store, run_id: str, metrics: Metrics, indices: Mapping[str, Sequence[int]] | None = None
) -> dict[Place, float | None]:
    """Return the stored scores of each task by the metric named for it; None for a request that failed.

    indices: of the samples of each task; None: all that are stored.

    Raises: PlanError for a score that is undefined or outside of 0 to 1, for which the bounds do not hold.
    """
    values: dict[Place, float | None] = {}
    for task, wanted in metrics.items():
        for score in store.scores(run_id, task, details=False, indices=None if indices is None else indices[task]):
            if (score.metric, score.filter) == wanted[:2]:
                failed = score.status is ScoreStatus.FAILED
                values[task, score.sample_index] = value = None if failed else score.value
                if not failed and (value is None or not 0 <= value <= 1):
                    raise PlanError(
                        f"{score.metric} of {task}, sample {score.sample_index}, is "
                        f"{'undefined' if value is None else f'{value:g}'}; questions in a random "
                        "order need scores from 0 to 1: let the task's function return a share, or evaluate all "
                        "questions (assaymark run) and use assaymark compare"
                    )
    return values
