"""Carry out a plan: answer unanswered requests, store each output as it arrives, score complete responses.

Running again resumes: no stored response is requested again. After a kill, requests that were in progress or not yet
flushed (under a second of work) are sent again; a first signal to stop waits for them instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

from assaymark.models.model import Model
from assaymark.records import JsonValue, Progress, Request
from assaymark.runs.attempt import Attempt, ChunkScorer
from assaymark.runs.chunks import Chunk, chunks_of, rendered, turns_of
from assaymark.runs.opening import RunOpener, no_notice
from assaymark.runs.plan import PreparedRun, render_of
from assaymark.settings import environment
from assaymark.store import OpenRun, Store


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one attempt at a run."""

    run_id: str
    attempt_id: int
    status: str  # finished | incomplete
    was_stored: bool  # everything was already stored
    n_requests: int
    n_answered_now: int
    n_failed: int  # in this attempt; where `was_stored`: of the whole run
    stop_reason: str | None = None  # why the rest was not answered in this attempt, and how to continue


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run: the current chunk of tasks, and the model's progress with the rest of it.

    n_stored: outputs of this chunk that an earlier attempt had stored.
    """

    tasks: tuple[str, ...]
    chunk: int  # from 1
    n_chunks: int
    model: Progress
    n_stored: int = 0


Observer = Callable[[RunProgress], None]


def execute(
    prepared: PreparedRun,
    model: Model,
    store: Store,
    *,
    observe: Observer | None = None,
    command: str | None = None,
    wait: bool = True,
    notify: Callable[[str], None] = no_notice,
) -> RunResult:
    """Answer and score everything in the plan that is not in the store yet, as far as the bill's limit allows.

    While another process is writing the same run, its progress is followed unless `wait` is False; see `opening`.

    Raises: ModelUnavailable if the model cannot be loaded; StoreError if the store cannot be written, RunBusy where
        another process is writing the run and `wait` is False. Outputs received before an error stay stored.
    """
    opener = RunOpener(store, prepared.plan, wait, notify, _followed(prepared, observe), prepared.bound)
    opened = open_checked(opener, prepared, model, command)
    if opened.is_complete:
        store.close_run(opened.run_id, opened.attempt_id, "finished")
        n_failed = store.run(opened.run_id).n_failed
        return RunResult(opened.run_id, opened.attempt_id, "finished", True, _n_requests(prepared), 0, n_failed)
    chunks, render = chunks_of(prepared.bound, prepared.options.n_workers), render_of(model)
    with Attempt(store, model, opened, prepared.options.bill) as attempt:
        attempt.charge_stored([task.name for task in prepared.plan.tasks])
        for number, chunk in enumerate(rendered(chunks, render), start=1):  # the next one is rendered meanwhile
            for turn in turns_of(chunk, attempt.stored, render):  # only conversations have more than one
                pending = attempt.unanswered(turn.requests, turn.samples_of_requests)
                scorer = ChunkScorer(store, opened.run_id, turn, pending, may_fail=prepared.options.predict_only)
                for output in attempt.answer(pending, _watched(observe, turn, pending, (number, len(chunks)))):
                    scorer.take(output)  # already stored
                scorer.finish()
    counts = (_n_requests(prepared), attempt.n_answered, attempt.n_failed)
    return RunResult(opened.run_id, opened.attempt_id, attempt.status, False, *counts, attempt.stop_reason)


def open_checked(opener: RunOpener, prepared: PreparedRun, model: Model, command: str | None) -> OpenRun:
    """Open the run once no other process is writing it; the model is checked first, unless all is stored."""
    opener.until_free()
    if not opener.store.is_complete(prepared.plan):
        model.check()
    own: dict[str, JsonValue] = {
        task.task.name: str(task.task.source) for task in prepared.bound if task.task.origin == "user"
    }
    task_files = {"task_files": own} if own else {}  # needed to run again; no part of the run key
    return opener.open(facts={**environment(), **task_files}, command=command)


def _n_requests(prepared: PreparedRun) -> int:
    return sum(task.n_samples for task in prepared.plan.tasks)


def _followed(prepared: PreparedRun, observe: Observer | None) -> Callable[[Progress], None] | None:
    """Return a callback that reports the progress of another process writing the run."""
    names = tuple(task.name for task in prepared.plan.tasks)
    return None if observe is None else lambda progress: observe(RunProgress(names, 1, 1, progress))


def _watched(
    observe: Observer | None, chunk: Chunk, pending: list[Request], position: tuple[int, int]
) -> Callable[[Progress], None]:
    """Return a callback that reports the model's progress on a chunk; `position` is (its number, number of chunks)."""
    n_stored = sum(request.n_outputs for request in chunk.requests) - sum(request.n_outputs for request in pending)

    def report(progress: Progress) -> None:
        if observe is not None:
            observe(RunProgress(chunk.names, *position, progress, n_stored))

    return report
