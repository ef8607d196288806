"""The driver's side of workers on the machines of a Ray cluster: `WorkerLinks`' interface over calls of actors.

Ray ends the actors of a driver that has ended in any way. When a worker's process ends, Ray fails the pending call
within seconds. It never reports a process that exists but does not run (stopped, hung), and reports a machine without
network only after about a minute. So replies are timed here: the pending call returns every second.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from assaymark.errors import ModelUnavailable
from assaymark.models.workers.cluster import Seat, join, leave, nodes_of_cluster, seats
from assaymark.models.workers.cluster_worker import ClusterWorker, PlacedModel
from assaymark.models.workers.links import POLL_SECONDS, START_SECONDS, Worker

__all__ = ["ClusterLinks"]

SILENT_SECONDS = 30.0  # without a reply, after which a worker with a loaded model counts as lost
LONGEST_GAP = 1.0  # maximum counted as waiting between two polls, since the driver may have been busy


@dataclass(slots=True, eq=False, kw_only=True)
class _SeatedWorker(Worker):
    """A worker on a machine of the cluster, and the pending call that will return its messages."""

    actor: Any
    seat: Seat
    pending_poll: Any
    has_started: bool = False  # False until Ray has placed it
    inbox: deque[tuple[Any, ...]] = field(default_factory=deque)
    silent_seconds: float = 0.0  # spent waiting since its last reply

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a message; if the worker has ended, the next poll reports it."""
        self.actor.post.remote(message)


class ClusterLinks:
    """Places workers on a cluster, waits until each has loaded the model, and transports messages."""

    def __init__(self, address: str, model: PlacedModel, n_workers: int) -> None:
        self.n_workers = n_workers
        self._name = model.arguments.pretrained
        self._last_reason = ""
        self.workers: list[_SeatedWorker] = []
        self._ended: list[_SeatedWorker] = []
        self._polled_at = time.monotonic()
        self._is_ours = join(address)
        try:
            for seat in seats(nodes_of_cluster(), n_workers, model.settings.device):
                self.workers.append(_placed(model, seat))
            self._wait_for_all()
        except BaseException:
            self.close()
            raise

    def _wait_for_all(self) -> None:
        """Return once every worker is ready; a started one may take its time, for instance to download the model.

        Raises: ModelUnavailable if a worker cannot load the model, ends, or does not start in time.
        """
        deadline = time.monotonic() + START_SECONDS
        while any(worker.info is None for worker in self.workers):
            for message, worker in self.messages():
                if message is None:
                    raise self.lost("a worker ended while it loaded the model")
                worker.note_loaded(message)
            n_started = sum(worker.has_started for worker in self.workers)
            if n_started < self.n_workers and time.monotonic() > deadline:
                raise self.lost(f"only {n_started} of {self.n_workers} workers were placed; others may use the cluster")

    def messages(self) -> Iterator[tuple[Any, Worker]]:
        """Yield messages that arrive within a moment; None from a worker that has ended.

        Messages that were fetched but not consumed are yielded by the next call.
        """
        self._fetch()
        while self._ended:
            yield None, self._ended.pop()
        for worker in list(self.workers):
            while worker.inbox:
                yield self._with_node(worker.inbox.popleft(), worker), worker

    def _fetch(self) -> None:
        """Fetch the messages of workers, and remove those that have ended."""
        import ray
        from ray.exceptions import RayError

        by_call = {worker.pending_poll: worker for worker in self.workers}
        calls = list(by_call)
        seconds = 0 if self._ended or any(worker.inbox for worker in self.workers) else POLL_SECONDS
        if not calls:
            time.sleep(seconds)
        elif ray.wait(calls, num_returns=1, timeout=seconds)[0]:
            for call in ray.wait(calls, num_returns=len(calls), timeout=0)[0]:
                worker = by_call[call]
                try:
                    worker.inbox.extend(ray.get(call))
                except RayError as error:
                    self._remove(worker, _last_line(error))
                else:
                    worker.has_started = True
                    worker.silent_seconds = 0.0
                    worker.pending_poll = worker.actor.poll.remote()
        self._remove_silent()

    def _remove_silent(self) -> None:
        """Remove workers that have not replied for too long.

        While a worker loads, imports may block its other threads, so it gets the whole starting time.
        """
        now = time.monotonic()
        waited = min(now - self._polled_at, LONGEST_GAP)
        self._polled_at = now
        for worker in list(self.workers):
            worker.silent_seconds += waited
            limit = START_SECONDS if worker.info is None else SILENT_SECONDS
            if worker.has_started and worker.silent_seconds > limit:
                self._remove(worker, f"no reply for {limit:.0f} s: the process is stopped or the network is down")

    def _with_node(self, message: tuple[Any, ...], worker: _SeatedWorker) -> tuple[Any, ...]:
        """Return a message with the name of the machine added if it reports a failure."""
        if message[0] != "failed":
            return message
        return "failed", f"on node {worker.seat.node.address}: {message[1]}"

    def _remove(self, worker: _SeatedWorker, reason: str) -> None:
        import ray

        self.workers.remove(worker)
        self._ended.append(worker)
        self._last_reason = f"on node {worker.seat.node.address}: {reason}"
        ray.kill(worker.actor)  # one that is only unreachable must not continue

    def lost(self, what: str) -> ModelUnavailable:
        """Return the error `what`, with the reason for the last lost worker."""
        details = f"; {self._last_reason}" if self._last_reason else ""
        return ModelUnavailable(
            f"{what} (model '{self._name}'){details}; see `ray status`, and run with fewer --workers or more memory"
        )

    def close(self) -> None:
        """End all workers, and leave the cluster if it was joined for them."""
        import ray

        for worker in self.workers:
            ray.kill(worker.actor)
        self.workers.clear()
        if self._is_ours:
            leave()
            self._is_ours = False


def _last_line(error: Exception) -> str:
    """Return the last line of Ray's message on a failed call, which names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _placed(model: PlacedModel, seat: Seat) -> _SeatedWorker:
    """Create the worker of a seat; it starts to load the model."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    device = "cuda" if seat.has_gpu else "cpu"
    n_threads = model.settings.n_threads or max(1, seat.n_cpus)
    settings = replace(model.settings, device=device, n_threads=n_threads)
    actor = (
        ray.remote(ClusterWorker)
        .options(
            num_cpus=seat.n_cpus,
            num_gpus=int(seat.has_gpu),
            max_concurrency=2,  # orders arrive while the next poll waits
            scheduling_strategy=NodeAffinitySchedulingStrategy(seat.node.key, soft=False),
        )
        .remote(replace(model, settings=settings))
    )
    return _SeatedWorker(actor=actor, seat=seat, pending_poll=actor.poll.remote())
