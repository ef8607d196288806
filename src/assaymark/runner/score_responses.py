"""Score responses: one request with all of its outputs at a time, by its task's own scoring."""

from collections.abc import Sequence
from typing import Protocol

from assaymark.records import Output, Request, Sample, Score, ScoreStatus, content_hash
from assaymark.runner.chunks import Chunk
from assaymark.store import Store
from assaymark.tasks.task import MetricSpec, Task

__all__ = ["SCORING_HASH", "SCORING_VERSION", "ChunkScorer", "Scoring", "score_request"]

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
    return tuple(
        Score(request.id, metric.name, None, each.name, ScoreStatus.FAILED, detail={"error": errors[0]})
        for metric in task.metrics
        for each in task.task.filters
    )


class ChunkScorer:
    """Collects a chunk's outputs, and scores each request, and stores its scores, once all its outputs are there.

    `pending` are the requests without the queries that already have a stored output. A query that failed and is retried
    is pending again, so its stored output does not count.
    """

    def __init__(self, store: Store, run_id: str, chunk: Chunk, pending: Sequence[Request]) -> None:
        self._store, self._run_id = store, run_id
        self._tasks = {one.plan.name: one for one in chunk.bound}
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
        unscored = self._store.unscored(self._run_id, SCORING_HASH)
        ours = [request_id for request_id in unscored if request_id in self._requests]
        for request_id, outputs in self._store.outputs_of(self._run_id, ours).items() if ours else ():
            self._score(request_id, outputs)
        self._store.flush()

    def _score(self, request_id: str, outputs: Sequence[Output]) -> None:
        request = self._requests[request_id]
        scores = score_request(self._tasks[request.task], request, self._samples[request_id], outputs)
        self._store.add_scores(self._run_id, scores, SCORING_HASH)
