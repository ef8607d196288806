"""Chunks: tasks whose requests are answered together, rendered one chunk ahead of the model, turn by turn.

Tasks on the same data and small tasks are combined, so that the engine shares more between their prompts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assaymark.models.read_ahead import read_ahead
from assaymark.records import Output, Render, Request, Sample
from assaymark.tasks.bound import BoundTask

CHUNK_SAMPLES = 2000  # enough to fill many windows, few enough that rendering runs ahead of scoring
MOST_CHUNKS = 8  # of these are combined for several workers, which are idle at a chunk's end: bounds memory


@dataclass(frozen=True, slots=True)
class Chunk:
    """The requests of several tasks, at one turn."""

    bound: tuple[BoundTask, ...]
    requests: Sequence[Request]
    samples: Mapping[str, Sample]  # by request id

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its tasks."""
        return tuple(task.plan.name for task in self.bound)

    @property
    def samples_of_requests(self) -> list[Sample]:
        """The sample of each request."""
        return [self.samples[request.id] for request in self.requests]


def chunks_of(bound: Sequence[BoundTask], n_workers: int = 1) -> list[tuple[BoundTask, ...]]:
    """Return the tasks in the order given, grouped so that work shared between neighbours is done once.

    Tasks on the same data stay together (TruthfulQA's mc1 and mc2 have the same questions); small ones are combined,
    more of them where there are several workers.
    """
    most = CHUNK_SAMPLES * min(n_workers, MOST_CHUNKS)
    chunks: list[list[BoundTask]] = []
    for task in bound:
        last = chunks[-1] if chunks else None
        if last is not None and (
            last[-1].plan.dataset_hash == task.plan.dataset_hash
            or sum(b.plan.n_samples for b in last) + task.plan.n_samples <= most
        ):
            last.append(task)
        else:
            chunks.append([task])
    return [tuple(chunk) for chunk in chunks]


def rendered(chunks: Sequence[tuple[BoundTask, ...]], render: Render | None) -> Iterator[Chunk]:
    """Yield the chunks with their requests; the next one is rendered while the caller works on the current one.

    `render` renders conversations as text; see `BoundTask.requests`.
    """

    def make(bound: tuple[BoundTask, ...]) -> Chunk:
        requests: list[Request] = []
        samples: dict[str, Sample] = {}
        for task in bound:
            task_requests = list(task.requests(render))
            by_index = {sample.index: sample for sample in task.samples()}
            samples |= {request.id: by_index[request.sample_index] for request in task_requests}
            requests += task_requests
        return Chunk(bound, requests, samples)

    return read_ahead(make, chunks, "render")


def turns_of(
    chunk: Chunk, stored: Callable[[Sequence[str]], Mapping[str, Sequence[Output]]], render: Render | None
) -> Iterator[Chunk]:
    """Yield a chunk and then, once its outputs are stored, the next turn of its conversations, until none is left.

    `stored` returns the stored outputs of requests by request id, including those of earlier attempts.
    """
    turn: Chunk | None = chunk
    while turn is not None:
        yield turn
        turn = _next_turn(turn, stored, render)


def _next_turn(
    chunk: Chunk, stored: Callable[[Sequence[str]], Mapping[str, Sequence[Output]]], render: Render | None
) -> Chunk | None:
    tasks = {task.plan.name: task for task in chunk.bound if task.is_conversation}
    answered = [request for request in chunk.requests if request.task in tasks]
    if not answered:
        return None
    answers = stored([request.id for request in answered])
    requests: list[Request] = []
    samples: dict[str, Sample] = {}
    for request in answered:
        sample = chunk.samples[request.id]
        following = tasks[request.task].next(request, sample, answers.get(request.id, ()), render)
        if following is not None:
            requests.append(following)
            samples[following.id] = sample
    return Chunk(tuple(tasks.values()), requests, samples) if requests else None
