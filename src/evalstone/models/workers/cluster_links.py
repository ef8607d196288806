"""The driver's side of workers on the machines of a Ray cluster: the face of `WorkerLinks`, carried by actors' calls.

Ray ends the actors of a driver that is gone, however it went. When a worker's process ends, Ray fails the call that is
pending on it within seconds. It never reports a process that exists but does not run (stopped, hung), and a machine
that is cut off from the network only after about a minute. So replies are timed here: the pending call returns every
second.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from evalstone.errors import ModelUnavailable
from evalstone.models.workers.cluster import Seat, join, leave, nodes_of_cluster, seats
from evalstone.models.workers.cluster_worker import ClusterWorker, PlacedModel
from evalstone.models.workers.links import POLL_SECONDS, START_SECONDS, Worker

__all__ = ["ClusterLinks"]

SILENT_SECONDS = 30.0  # without a reply, after which a worker that has loaded its model is given up
LONGEST_GAP = 1.0  # what counts at most as waiting between two polls: the driver may have been busy elsewhere


@dataclass(slots=True, eq=False, kw_only=True)
class _SeatedWorker(Worker):
    """A worker on a machine of the cluster, and the call under way that will return what it says."""

    actor: Any
    seat: Seat
    hearing: Any
    has_started: bool = False  # else Ray has not given it its place yet
    heard: deque[tuple[Any, ...]] = field(default_factory=deque)
    silent_seconds: float = 0.0  # spent waiting since its last reply

    def send(self, message: tuple[Any, ...]) -> None:
        """Tell it something; one that is gone does not hear it, and the next hearing says so."""
        self.actor.tell.remote(message)


class ClusterLinks:
    """Places workers on a cluster, waits until each has loaded the model, and carries messages."""

    def __init__(self, address: str, model: PlacedModel, n_workers: int) -> None:
        self.n_workers = n_workers
        self._name = model.arguments.pretrained
        self._last_words = ""
        self.workers: list[_SeatedWorker] = []
        self._gone: list[_SeatedWorker] = []
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
        """Return once every worker is ready; one that has started may take its time, to fetch the model perhaps.

        Raises: ModelUnavailable if a worker cannot load the model, dies, or does not come.
        """
        deadline = time.monotonic() + START_SECONDS
        while any(worker.info is None for worker in self.workers):
            for message, worker in self.messages():
                if message is None:
                    raise self.lost("a worker ended while it loaded the model")
                worker.note_loaded(message)
            n_started = sum(worker.has_started for worker in self.workers)
            if n_started < self.n_workers and time.monotonic() > deadline:
                raise self.lost(f"only {n_started} of {self.n_workers} workers got a place; others may use the cluster")

    def messages(self) -> Iterator[tuple[Any, Worker]]:
        """Yield what workers say within a moment; None from one that is gone.

        What was fetched and not yielded, as the caller had enough, is yielded by the next call.
        """
        self._fetch()
        while self._gone:
            yield None, self._gone.pop()
        for worker in list(self.workers):
            while worker.heard:
                yield self._signed(worker.heard.popleft(), worker), worker

    def _fetch(self) -> None:
        """Take what workers have said, and part with those that are gone."""
        import ray
        from ray.exceptions import RayError

        by_call = {worker.hearing: worker for worker in self.workers}
        calls = list(by_call)
        seconds = 0 if self._gone or any(worker.heard for worker in self.workers) else POLL_SECONDS
        if not calls:
            time.sleep(seconds)
        elif ray.wait(calls, num_returns=1, timeout=seconds)[0]:
            for call in ray.wait(calls, num_returns=len(calls), timeout=0)[0]:
                worker = by_call[call]
                try:
                    worker.heard.extend(ray.get(call))
                except RayError as error:
                    self._part_with(worker, _last_line(error))
                else:
                    worker.has_started = True
                    worker.silent_seconds = 0.0
                    worker.hearing = worker.actor.hear.remote()
        self._part_with_silent()

    def _part_with_silent(self) -> None:
        """Part with workers that have not replied for too long.

        While a worker loads, imports may keep its other threads from running, so it gets as long as it has to start.
        """
        now = time.monotonic()
        waited = min(now - self._polled_at, LONGEST_GAP)
        self._polled_at = now
        for worker in list(self.workers):
            worker.silent_seconds += waited
            limit = START_SECONDS if worker.info is None else SILENT_SECONDS
            if worker.has_started and worker.silent_seconds > limit:
                self._part_with(worker, f"no reply for {limit:.0f} s: the process is stopped or the machine cut off")

    def _signed(self, message: tuple[Any, ...], worker: _SeatedWorker) -> tuple[Any, ...]:
        """Return a message with the name of the machine in it, where something failed there."""
        if message[0] != "failed":
            return message
        return "failed", f"on node {worker.seat.node.address}: {message[1]}"

    def _part_with(self, worker: _SeatedWorker, reason: str) -> None:
        import ray

        self.workers.remove(worker)
        self._gone.append(worker)
        self._last_words = f"on node {worker.seat.node.address}: {reason}"
        ray.kill(worker.actor)  # one that only cannot be reached must not work on

    def lost(self, what: str) -> ModelUnavailable:
        """Return the error that says so, with the last words of the worker that was lost last."""
        told = f"; {self._last_words}" if self._last_words else ""
        return ModelUnavailable(
            f"{what} (model '{self._name}'){told}; see `ray status`, and run with fewer --workers or more memory"
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
    """Return the last line of what Ray says of a failed call, which names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _placed(model: PlacedModel, seat: Seat) -> _SeatedWorker:
    """Return a worker in this seat, which starts to load the model."""
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
            max_concurrency=2,  # orders are told while the next hearing waits
            scheduling_strategy=NodeAffinitySchedulingStrategy(seat.node.key, soft=False),
        )
        .remote(replace(model, settings=settings))
    )
    return _SeatedWorker(actor=actor, seat=seat, hearing=actor.hear.remote())
