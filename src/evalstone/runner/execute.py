"""The heart: answer what is not answered yet, store every answer as it comes, score what is complete.

Resuming is running again: what is stored is not requested again. A kill loses what was under way and what was not yet
flushed (under a second of it), and that is requested again; a first signal to end waits for it instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

from evalstone.models.model import Model
from evalstone.records import JsonValue, Progress, Request
from evalstone.runner.attempt import Attempt
from evalstone.runner.chunks import Chunk, chunks_of, rendered, turns_of
from evalstone.runner.opening import RunOpener, no_notice
from evalstone.runner.plan import PreparedRun, render_of
from evalstone.runner.score_responses import ChunkScorer
from evalstone.settings import environment
from evalstone.store import OpenRun, Store

__all__ = ["Observer", "RunProgress", "RunResult", "execute"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of one attempt at a run."""

    run_id: str
    attempt_id: int
    status: str  # finished | incomplete
    was_stored: bool  # everything had been answered before
    n_requests: int
    n_answered_now: int
    n_failed: int  # in this attempt; of a run that was stored already: in all
    stop_reason: str | None = None  # why the rest was not answered in this attempt, and how to go on


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where a run stands: which chunk of tasks, and how far the model is with what is left of it.

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
    """Answer and score whatever of the plan is not in the store yet.

    While another process is writing the same run its progress is followed, unless `wait` is False; see `opening`.

    Raises: ModelUnavailable if the model cannot be loaded; StoreError if the store cannot be written, RunBusy where
        another process is writing the run and `wait` is False. Whatever ends the attempt early, outputs received
        until then are kept.
    """
    opener = RunOpener(store, prepared.plan, wait, notify, _followed(prepared, observe))
    opened = _open(opener, prepared, model, command)
    if opened.is_complete:
        return _stored_result(prepared, store, opened)
    chunks, render = chunks_of(prepared.bound, prepared.options.n_workers), render_of(model)
    with Attempt(store, model, opened) as attempt:
        for number, chunk in enumerate(rendered(chunks, render), start=1):  # the next is rendered meanwhile
            for turn in turns_of(chunk, attempt.stored, render):  # one, but of conversations
                pending = attempt.unanswered(turn.requests, turn.samples_of_requests)
                scorer = ChunkScorer(store, opened.run_id, turn, pending)
                for output in attempt.answer(pending, _watched(observe, turn, pending, (number, len(chunks)))):
                    scorer.take(output)  # stored by now; what is under way is lost by a kill
                scorer.finish()
    counts = (_n_requests(prepared), attempt.n_answered, attempt.n_failed)
    return RunResult(opened.run_id, opened.attempt_id, attempt.status, False, *counts, attempt.stop_reason)


def _open(opener: RunOpener, prepared: PreparedRun, model: Model, command: str | None) -> OpenRun:
    """Open the run, once no other process is writing it; a model that has something to do is checked before."""
    opener.until_free()
    if not opener.store.is_complete(prepared.plan):
        model.check()
    own: dict[str, JsonValue] = {
        one.task.name: str(one.task.source) for one in prepared.bound if one.task.origin == "user"
    }
    task_files = {"task_files": own} if own else {}  # for carrying the run out again; no part of the run's key
    return opener.open(facts={**environment(), **task_files}, command=command)


def _stored_result(prepared: PreparedRun, store: Store, opened: OpenRun) -> RunResult:
    """Return what is stored of a run that is complete."""
    store.close_run(opened.run_id, opened.attempt_id, "finished")
    n_failed = store.run(opened.run_id).n_failed
    return RunResult(opened.run_id, opened.attempt_id, "finished", True, _n_requests(prepared), 0, n_failed)


def _n_requests(prepared: PreparedRun) -> int:
    return sum(task.n_samples for task in prepared.plan.tasks)


def _followed(prepared: PreparedRun, observe: Observer | None) -> Callable[[Progress], None] | None:
    """Return what reports the progress of another process that is writing the run."""
    names = tuple(task.name for task in prepared.plan.tasks)
    return None if observe is None else lambda progress: observe(RunProgress(names, 1, 1, progress))


def _watched(
    observe: Observer | None, chunk: Chunk, pending: list[Request], place: tuple[int, int]
) -> Callable[[Progress], None]:
    """Return what reports the model's progress with what is pending of a chunk; `place` is its number and how many."""
    n_stored = sum(request.n_outputs for request in chunk.requests) - sum(request.n_outputs for request in pending)

    def report(progress: Progress) -> None:
        if observe is not None:
            observe(RunProgress(chunk.names, *place, progress, n_stored))

    return report
