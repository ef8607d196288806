"""Score stored outputs again, with other filters or metrics. No model is loaded.

Earlier scores stay stored: a scoring is identified by the hash of what produced it, and tables show the latest one of
each filter and metric.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from assaymark.errors import LeaseLost, PlanError, RunBusy
from assaymark.records import JsonValue, Sample, Score, ScoreStatus, content_hash, rotations_of
from assaymark.runner.score_responses import SCORING_HASH, SCORING_VERSION, score_request
from assaymark.settings import environment
from assaymark.store import RunRow, SampleRecord, Store
from assaymark.tasks.rescoring import StoredScoring, refuse_inapplicable
from assaymark.tasks.task import Task

__all__ = ["RescoredTask", "rescore", "scoring_hash_of"]


@dataclass(slots=True)
class RescoredTask:
    """The result of rescoring one task's stored outputs."""

    task: Task
    scoring_hash: str
    n_scored: int = 0  # responses
    n_failed: int = 0  # of them: without an answer, so there is nothing to score
    n_incomplete: int = 0  # responses that lack an output; they are not scored
    names: dict[tuple[str, str], None] = field(default_factory=dict)  # (filter, metric) of the scores, in order


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
    for one in work:
        one.try_first()
    for one in work:
        one.score()
    last_finished = max((a.attempt_id for a in store.attempts(row.run_id) if a.status == "finished"), default=0)
    facts = {**environment(), "rescored": [task.name for task in tasks]}
    opened = store.open_run(row.plan, facts=facts, command=command, rescoring=True)
    results = [one.result for one in work]
    status = "finished" if last_finished else row.status  # the outputs did not change
    try:
        store.close_rescoring(opened, status, [one.scored for one in work], facts_of(results))
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
            self._refuse_missing(self._score(record))
            return
        raise PlanError(f"run {self.row.short_id} has no answers for task {self.task.name}; there is nothing to score")

    def _refuse_missing(self, scores: Sequence[Score]) -> None:
        made = {score.metric for score in scores}
        lacking = [metric.name for metric in self.task.metrics if metric.name not in made]
        if lacking:
            raise PlanError(
                f"task {self.task.name}: {', '.join(lacking)} cannot be computed from the stored answers; "
                f"they give {', '.join(sorted(made)) or 'no score'}"
            )

    def score(self) -> None:
        """Score every complete response, and collect the scores."""
        for record in self.store.samples(self.row.run_id, self.task.name):
            if not _is_complete(record):
                self.result.n_incomplete += 1
                continue
            scores = self._score(record)
            self.result.n_scored += 1
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
