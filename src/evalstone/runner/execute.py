"""The heart: ask what is not yet answered, write every answer as it comes, score what is complete.

Resuming is running again: an answer that is stored is not asked for again. A kill loses what was in flight and what
was not yet flushed (under a second of it), and that is asked for again; a first signal to end waits for it instead.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from evalstone.models.model import Model
from evalstone.records import (
    GenerateQuery,
    JsonValue,
    Output,
    Progress,
    Request,
    Sample,
    Score,
    ScoreStatus,
    content_hash,
)
from evalstone.runner.asking import Asking, attempted
from evalstone.runner.opening import RunOpener, no_notice
from evalstone.runner.plan import PreparedRun, chunks_of, render_of
from evalstone.settings import environment
from evalstone.store import Store
from evalstone.tasks.bound import BoundTask
from evalstone.tasks.task import MetricSpec, Task

SCORING_VERSION = 1  # raise it when the same outputs would get another score
SCORING_HASH = content_hash({"scoring": SCORING_VERSION})


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
    stop_reason: str | None = None  # why the rest was not asked in this attempt, and how to go on


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


@dataclass(slots=True)
class _Chunk:
    """One chunk's work, rendered."""

    bound: tuple[BoundTask, ...]
    requests: list[Request]
    samples: dict[str, Sample]  # by request id


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
    names = tuple(task.name for task in prepared.plan.tasks)
    followed = None if observe is None else lambda progress: observe(RunProgress(names, 1, 1, progress))
    opener = RunOpener(store, prepared.plan, wait, notify, followed)
    opener.until_free()
    if not store.is_complete(prepared.plan):
        model.check()
    opened = opener.open(facts={**environment(), **_task_files(prepared)}, command=command)
    n_requests = sum(task.n_samples for task in prepared.plan.tasks)
    if opened.is_complete:
        store.close_run(opened.run_id, opened.attempt_id, "finished")
        n_failed = store.run(opened.run_id).n_failed
        return RunResult(opened.run_id, opened.attempt_id, "finished", True, n_requests, 0, n_failed)
    asking = Asking(store, model, opened)
    with attempted(asking):
        _Execution(prepared, asking, observe).run()
    counts = (n_requests, asking.n_answered, asking.n_failed)
    return RunResult(opened.run_id, opened.attempt_id, asking.status, False, *counts, asking.stop_reason)


class _Execution:
    """One attempt under way: holds what its steps share."""

    def __init__(self, prepared: PreparedRun, asking: Asking, observe: Observer | None) -> None:
        self.asking = asking
        self.model, self.store, self.run_id = asking.model, asking.store, asking.run_id
        self.observe = observe or _unobserved
        self.put = render_of(asking.model)  # tasks that are put as plain text do not ask for it
        self.chunks = chunks_of(prepared.bound, prepared.options.n_workers)

    def run(self) -> None:
        """Go through the chunks; the next is rendered while the model answers the present one."""
        for number, chunk in enumerate(self._rendered(), start=1):
            turn: _Chunk | None = chunk
            while turn is not None:
                self._answer(turn, number)
                turn = self._next_turn(turn)

    def _rendered(self) -> Iterator[_Chunk]:
        if len(self.chunks) == 1:  # nothing to run ahead of
            yield self._render(self.chunks[0])
            return
        with ThreadPoolExecutor(1, thread_name_prefix="render") as pool:
            ahead = pool.submit(self._render, self.chunks[0])
            for following in [*self.chunks[1:], None]:
                ready = ahead.result()
                if following is not None:
                    ahead = pool.submit(self._render, following)
                yield ready

    def _render(self, bound: tuple[BoundTask, ...]) -> _Chunk:
        requests: list[Request] = []
        samples: dict[str, Sample] = {}
        for one in bound:
            made = list(one.requests(self.put))
            requests += made
            by_index = {sample.index: sample for sample in one.samples()}
            samples |= {request.id: by_index[request.sample_index] for request in made}
        return _Chunk(bound, requests, samples)

    def _next_turn(self, chunk: _Chunk) -> _Chunk | None:
        """Return what follows the answers to a chunk: the next turns of its conversations; None where there are none.

        All answers are in the store by now, those of earlier attempts too.
        """
        tasks = {one.plan.name: one for one in chunk.bound if one.is_conversation}
        asked = [request for request in chunk.requests if request.task in tasks]
        if not asked:
            return None
        answers = self.store.outputs_of(self.run_id, [request.id for request in asked])
        requests: list[Request] = []
        samples: dict[str, Sample] = {}
        for request in asked:
            sample = chunk.samples[request.id]
            following = tasks[request.task].next(request, sample, answers.get(request.id, ()), self.put)
            if following is not None:
                requests.append(following)
                samples[following.id] = sample
        return _Chunk(tuple(tasks.values()), requests, samples) if requests else None

    def _answer(self, chunk: _Chunk, number: int) -> None:
        """Ask what is missing, write and score as it comes."""
        pending = self.asking.put(chunk.requests, [chunk.samples[request.id] for request in chunk.requests])
        names = tuple(one.plan.name for one in chunk.bound)
        n_stored = _n_outputs(chunk.requests) - _n_outputs(pending)

        def told(progress: Progress) -> None:
            self.observe(RunProgress(names, number, len(self.chunks), progress, n_stored))

        scorer = _Scorer(self.store, self.run_id, chunk)
        scorer.expect(pending)
        for output in self.asking.ask(pending, told):
            scorer.take(output)
        scorer.finish()
        self.store.flush()


class _Scorer:
    """Collects a chunk's outputs until each request has all of its own, then scores it."""

    def __init__(self, store: Store, run_id: str, chunk: _Chunk) -> None:
        self.store, self.run_id = store, run_id
        self.tasks = {one.plan.name: one for one in chunk.bound}
        self.samples = chunk.samples
        self.requests = {request.id: request for request in chunk.requests}
        self.missing: dict[str, int] = {}
        self.outputs: dict[str, list[Output]] = {}

    def expect(self, pending: Sequence[Request]) -> None:
        """Note how many outputs each pending request still lacks, and fetch those it has.

        What is asked again (a failure that is worth another try) is not among those it has.
        """
        partly: dict[str, set[int]] = {}
        for request in pending:
            self.missing[request.id] = _n_outputs([request])
            if len(request.queries) < len(self.requests[request.id].queries):
                partly[request.id] = {query.index for query in request.queries}
        stored = self.store.outputs_of(self.run_id, list(partly)) if partly else {}
        for request_id, outputs in stored.items():
            self.outputs[request_id] = [each for each in outputs if each.ask_index not in partly[request_id]]

    def take(self, output: Output) -> None:
        """Add one output; score its request if it was the last."""
        held = self.outputs.setdefault(output.request_id, [])
        held.append(output)
        self.missing[output.request_id] -= 1
        if self.missing[output.request_id] == 0:
            self._score(output.request_id, self.outputs.pop(output.request_id))

    def finish(self) -> None:
        """Score what an earlier attempt had answered but, killed in between, not scored."""
        unscored = self.store.unscored(self.run_id, SCORING_HASH)
        ours = [request_id for request_id in unscored if request_id in self.requests]
        if not ours:
            return
        for request_id, outputs in self.store.outputs_of(self.run_id, ours).items():
            self._score(request_id, outputs)

    def _score(self, request_id: str, outputs: list[Output]) -> None:
        request = self.requests[request_id]
        task = self.tasks[request.task]
        scores = score_request(task, request, self.samples[request_id], outputs)
        self.store.add_scores(self.run_id, scores, SCORING_HASH)


class Scoring(Protocol):
    """What scores a task's samples: the bound task of a run, or a stored one's."""

    @property
    def task(self) -> Task:
        """The task, with its filters."""
        ...

    @property
    def metrics(self) -> tuple[MetricSpec, ...]:
        """What is scored."""
        ...

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return one score per filter and metric."""
        ...


def _task_files(prepared: PreparedRun) -> dict[str, JsonValue]:
    """Return where the user's own tasks lie, for carrying the run out again; no part of the run's key."""
    own: dict[str, JsonValue] = {
        one.task.name: str(one.task.source) for one in prepared.bound if one.task.origin == "user"
    }
    return {"task_files": own} if own else {}


def score_request(task: Scoring, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
    """Return the scores of one complete request; where an output failed, every metric is failed, never wrong."""
    errors = [output.error for output in outputs if output.error is not None]
    ordered = sorted(outputs, key=lambda output: (output.ask_index, output.repeat))
    if not errors:
        return task.score(request, sample, ordered)
    return tuple(
        Score(request.id, metric.name, None, each.name, ScoreStatus.FAILED, detail={"error": errors[0]})
        for metric in task.metrics
        for each in task.task.filters
    )


def _repeats(query: object) -> int:
    return query.settings.repeats if isinstance(query, GenerateQuery) else 1


def _n_outputs(requests: Sequence[Request]) -> int:
    """Return how many outputs answer these requests."""
    return sum(_repeats(query) for request in requests for query in request.queries)


def _unobserved(progress: RunProgress) -> None:
    """Stand in where nobody watches."""
