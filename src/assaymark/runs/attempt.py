"""One attempt at a plan: requests without a stored response are answered, and each output is stored as it arrives.

Runs and audits both work this way, so both are resumed by the same command and lose no stored output. Responses are
scored one request at a time, with all of its outputs, by the task's own scoring.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from assaymark import stopping
from assaymark.errors import AssaymarkError, LeaseLost, MalformedSample, Retryable, StoreError, names_under
from assaymark.limits.characters import exception_text
from assaymark.models.cost.bill import Bill
from assaymark.models.model import Model
from assaymark.models.text.reasoning import unremoved_mark
from assaymark.platforms import peak_memory_bytes
from assaymark.records import JsonValue, Output, Progress, Request, Sample, Score, ScoreStatus, content_hash
from assaymark.runs.chunks import Chunk
from assaymark.store import OpenRun, Store
from assaymark.tasks.task import MetricSpec, Task

SCORING_VERSION = 1  # raise it when the same outputs would get another score
SCORING_HASH = content_hash({"scoring": SCORING_VERSION})


class Scoring(Protocol):
    """Scores a task's samples: the bound task of a run, or `StoredScoring`."""

    @property
    def task(self) -> Task:
        """The task, with its filters."""

    @property
    def metrics(self) -> tuple[MetricSpec, ...]:
        """The metrics of its scores."""

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return one score per filter and metric."""


def score_request(task: Scoring, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
    """Return the scores of one complete request; where an output failed, every metric is FAILED, never wrong."""
    errors = [output.error for output in outputs if output.error is not None]
    ordered = sorted(outputs, key=lambda output: (output.ask_index, output.repeat))
    if not errors:
        return task.score(request, sample, ordered)
    return _failed(task, request, {"error": errors[0]})


def _failed(task: Scoring, request: Request, detail: JsonValue) -> tuple[Score, ...]:
    return tuple(
        Score(request.id, metric.name, None, each.name, ScoreStatus.FAILED, detail=detail)
        for metric in task.metrics
        for each in task.task.filters
    )


class ChunkScorer:
    """Collects a chunk's outputs, and scores each request, and stores its scores, once all its outputs are there.

    `pending` are the requests without the queries that already have a stored output. A query that failed and is retried
    is pending again, so its stored output does not count. may_fail: store a sample that cannot be scored as failed.
    """

    def __init__(
        self, store: Store, run_id: str, chunk: Chunk, pending: Sequence[Request], *, may_fail: bool = False
    ) -> None:
        self._store, self._run_id, self._may_fail = store, run_id, may_fail
        self._tasks = {task.plan.name: task for task in chunk.bound}
        self._samples = chunk.samples
        self._requests = {request.id: request for request in chunk.requests}
        self._missing = {request.id: request.n_outputs for request in pending}
        self._outputs = self._stored(pending)

    def _stored(self, pending: Sequence[Request]) -> dict[str, list[Output]]:
        """Return the outputs that earlier attempts stored for partly answered requests."""
        partly = {
            request.id: {query.index for query in request.queries}
            for request in pending
            if len(request.queries) < len(self._requests[request.id].queries)
        }
        stored = self._store.outputs_of(self._run_id, list(partly)) if partly else {}
        return {
            request_id: [each for each in outputs if each.ask_index not in partly[request_id]]
            for request_id, outputs in stored.items()
        }

    def take(self, output: Output) -> None:
        """Add one output; score its request if it was the last one missing."""
        self._outputs.setdefault(output.request_id, []).append(output)
        self._missing[output.request_id] -= 1
        if self._missing[output.request_id] == 0:
            self._score(output.request_id, self._outputs.pop(output.request_id))

    def finish(self) -> None:
        """Score requests that a killed attempt answered but did not score; then flush everything."""
        answered_before = self._requests.keys() - self._missing.keys()
        if answered_before:
            unscored = self._store.unscored(self._run_id, SCORING_HASH)
            ours = [request_id for request_id in unscored if request_id in answered_before]
            for request_id, outputs in self._store.outputs_of(self._run_id, ours).items() if ours else ():
                self._score(request_id, outputs)
        self._store.flush()

    def _score(self, request_id: str, outputs: Sequence[Output]) -> None:
        request = self._requests[request_id]
        task = self._tasks[request.task]
        try:
            scores = score_request(task, request, self._samples[request_id], outputs)
        except MalformedSample as error:
            if not self._may_fail:
                raise
            scores = _failed(task, request, {"error": str(error), "in_scoring": True})
        self._store.add_scores(self._run_id, scores, SCORING_HASH)


RETRIED_KINDS = names_under(Retryable) | {"ModelError"}


class Attempt:
    """An attempt in progress: its model, its store and its run, and counts of outputs.

    As a context manager it closes the attempt at the end: as finished, incomplete, or with the error that ended it.
    With a bill each output is charged; one with a limit sends only requests that cannot pass it.
    """

    def __init__(self, store: Store, model: Model, opened: OpenRun, bill: Bill | None = None) -> None:
        self.store, self.model, self.bill = store, model, bill
        self.run_id, self.attempt_id = opened.run_id, opened.attempt_id
        self._is_new = opened.is_new
        self.n_answered = self.n_failed = self.n_to_retry = 0
        self.n_tokens = 0
        self.unremoved: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of `unremoved_mark`: answers with it
        self.seconds = 0.0  # of `answer`, which loads the weights first
        self.stop_reason: str | None = None  # why no more requests were sent, and how to go on
        self._is_spent = False

    @property
    def status(self) -> str:
        """The final status of an attempt that was not ended early."""
        return "incomplete" if self.n_to_retry else "finished"

    def unanswered(self, requests: Sequence[Request], samples: Sequence[Sample] = ()) -> list[Request]:
        """Store the requests that lack outputs, and return them without the queries that are already answered.

        `samples` are those of the requests, in the same order; without them the rows are not stored.
        """
        pending = self.store.unanswered(self.run_id, requests)
        waiting = {request.id for request in pending}
        indices = [index for index, request in enumerate(requests) if request.id in waiting]
        self.store.add_requests(
            self.run_id, [requests[index] for index in indices], [samples[index] for index in indices if samples]
        )
        return pending

    def stored(self, request_ids: Sequence[str]) -> Mapping[str, Sequence[Output]]:
        """Return the stored outputs of requests, by request id, including those of earlier attempts."""
        return self.store.outputs_of(self.run_id, list(request_ids))

    def answer(self, pending: Sequence[Request], observe: Callable[[Progress], None] | None = None) -> Iterator[Output]:
        """Yield the model's outputs, each stored before the next; without pending requests the model is not called.

        Requests that the bill's limit does not allow are left for a later attempt; nothing is sent after them.

        Raises: what the model raises; what a signal requested, once the outputs in progress are stored.
        """
        if self.bill is None:
            yield from self._answer(pending, observe)
            return
        requests = {request.id: request for request in pending}
        n_all, left = sum(request.n_outputs for request in pending), pending
        while left and not self._is_spent and (n := self.bill.affordable(left)):
            n_done = n_all - sum(request.n_outputs for request in left)
            answering = self._answer(left[:n], _after(n_done, n_all, observe))
            for output in answering:
                self.bill.charge(requests[output.request_id], [output])
                yield output
                if self.bill.is_passed:  # the server reports more tokens than a request can have: send nothing more
                    answering.close()
                    break
            left = self._left_of(left) if self.bill.is_passed else left[n:]
        if left:
            self._is_spent = True
            self.n_to_retry += len(left)
            self.stop_reason = self.stop_reason or self.bill.why_stopped(left)

    def _left_of(self, requests: Sequence[Request]) -> list[Request]:
        """Return the requests without a stored output; those in progress when the limit was passed are among them."""
        self.store.flush()
        return self.store.unanswered(self.run_id, requests)

    def charge_stored(self, tasks: Sequence[str]) -> None:
        """Charge the outputs of these tasks that earlier attempts stored."""
        if self.bill is not None:
            for task in tasks:
                for record in self.store.samples(self.run_id, task):
                    self.bill.charge(record.request, record.outputs)

    def _answer(
        self, pending: Sequence[Request], observe: Callable[[Progress], None] | None
    ) -> Generator[Output, None, None]:
        if not pending:
            return
        before = time.monotonic()
        for output in self.model.answer(pending, cache=self.store, observe=observe):
            self.n_answered += 1
            if not output.from_cache:
                self.n_tokens += output.n_context_tokens + output.n_tokens
            if output.error is not None:
                self.n_failed += 1
                self.n_to_retry += output.error_kind in RETRIED_KINDS
            elif output.text and (mark := unremoved_mark(output.text)) is not None:
                self.unremoved[mark[0]][mark[1]] += 1
            self.store.add(self.run_id, self.attempt_id, [output])
            yield output
            self.seconds += time.monotonic() - before
            before = time.monotonic()
        stopping.raise_if_requested()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, LeaseLost):  # another process writes the run: the attempt is not ours to close
            self.store.abandon_run(self.run_id)
        elif _is_of_the_set_up(error) and self._is_new and not self.n_answered:
            self.store.remove(self.run_id)  # the command cannot run: there is nothing to show or to continue
        elif error is not None:
            status = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed"
            self._close(status, {"error": exception_text(error), **self._cost()})
        else:
            described = dict(self.model.describe())
            self.stop_reason = str(described["given_up"]) if described.get("given_up") else self.stop_reason
            unremoved: Mapping[str, JsonValue] = {kind: dict(counts) for kind, counts in self.unremoved.items()}
            self._close(self.status, {"model": described, **self._work(), **self._cost(), **unremoved})

    def _cost(self) -> Mapping[str, JsonValue]:
        return {} if self.bill is None else {"cost": self.bill.record()}

    def _work(self) -> Mapping[str, JsonValue]:
        """Return tokens, seconds and peak memory of this process; an attempt without work keeps the last one's."""
        if not self.n_answered:
            earlier = self.store.run(self.run_id).summary.get("work")
            return {} if earlier is None else {"work": earlier}
        return {"work": {"n_tokens": self.n_tokens, "seconds": self.seconds, "peak_bytes": peak_memory_bytes()}}

    def _close(self, status: str, summary: Mapping[str, JsonValue]) -> None:
        """Flush and close the attempt; where that fails, release the run for others to take over."""
        try:
            self.store.close_run(self.run_id, self.attempt_id, status, summary)
        except BaseException:
            self.store.abandon_run(self.run_id)
            raise


def _is_of_the_set_up(error: BaseException | None) -> bool:
    """Return whether an error before the first answer says what is wrong with the command, its model or its data."""
    return isinstance(error, AssaymarkError) and not isinstance(error, StoreError)


def _after(n_done: int, n_all: int, observe: Callable[[Progress], None] | None) -> Callable[[Progress], None] | None:
    """Return a callback that reports the progress of one part of the requests as that of all of them."""
    if observe is None:
        return None
    return lambda part: observe(replace(part, n_outputs_done=n_done + part.n_outputs_done, n_outputs=n_all))
