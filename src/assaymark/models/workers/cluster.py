"""Workers on the machines of a Ray cluster: joining it, the driver's side, and the actor.

Ray only places workers and transports messages; what they compute is decided by `workers`, so a run on a cluster equals
the run of one process. We join clusters and never start one: on one machine plain processes do the same at lower cost.

The driver's side has `WorkerLinks`' interface over calls of actors. Ray ends the actors of a driver that has ended in
any way. When a worker's process ends, Ray fails the pending call within seconds. It never reports a process that exists
but does not run (stopped, hung), and reports a machine without network only after about a minute. So replies are timed
here: the pending call returns every second.

`run_on_cluster` calls a function on the machines instead, for work other than a model's.

An actor finds the model on its machine and then works as a worker of a single machine does. The driver sends it orders
and fetches its messages; both calls return at once or within a moment, while the work runs in a thread.
"""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple
from urllib.parse import urlsplit

from assaymark.engine.options import EngineSettings
from assaymark.errors import AssaymarkError, MissingExtra, ModelUnavailable, UsageError
from assaymark.models.checkpoint.arguments import LocalArguments
from assaymark.models.checkpoint.identity import find_folders, identify
from assaymark.models.text.tokenizer import TokenizerSource
from assaymark.models.workers.links import POLL_SECONDS, START_SECONDS, RemoteWorker, WorkerMessage, WorkerOrder
from assaymark.models.workers.process import serve_orders
from assaymark.settings import VERSION
from assaymark.stopping import raise_if_requested

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LONG_POLL_SECONDS = 1.0


def _absolute(name: str) -> str:
    """Return the whole path of a folder or file; any other name, such as a Hub id, as it is."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else name


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """The model that every machine must have: the user's arguments, and its content on the driver's machine."""

    arguments: LocalArguments
    content_hash: str | None
    settings: EngineSettings
    tokenizer: TokenizerSource
    version: str = VERSION

    @classmethod
    def of(
        cls, arguments: LocalArguments, content_hash: str | None, settings: EngineSettings, tokenizer: TokenizerSource
    ) -> "PlacedModel":
        """Return the model with absolute folders, since other machines have other working directories."""
        full = replace(
            arguments,
            pretrained=_absolute(arguments.pretrained),
            tokenizer=None if arguments.tokenizer is None else _absolute(arguments.tokenizer),
            peft=None if arguments.peft is None else _absolute(arguments.peft),
            base=None if arguments.base is None else _absolute(arguments.base),
        )
        return cls(full, content_hash, settings, tokenizer)

    def order(self) -> WorkerOrder:
        """Return the order to load the model from its folder on this machine.

        Raises: ModelUnavailable if it is missing or differs.
        """
        if self.version != VERSION:
            raise ModelUnavailable(f"Assaymark {VERSION} is installed here, and the driver is {self.version}")
        try:
            folders = find_folders(self.arguments)
        except ModelUnavailable as error:
            raise ModelUnavailable(f"{error}; on a cluster it must be at the same path on every machine") from error
        own_hash = identify(self.arguments, folders).content_hash
        if own_hash != self.content_hash:
            raise ModelUnavailable(
                f"{folders.model} contains another model than on the driver: its content hash is {own_hash}, expected "
                f"{self.content_hash}; copy the driver's files here"
            )
        settings = replace(
            self.settings,
            peft=str(folders.adapter) if folders.adapter else None,
            checkpoint=folders.trained.checkpoint if folders.trained else None,
        )
        return "load", str(folders.model), settings, replace(self.tokenizer, folder=folders.tokenizer), 0


class ClusterWorker:
    """The actor: loads the model when it is created, then executes the orders it receives."""

    def __init__(self, model: PlacedModel) -> None:
        self._own, other = Pipe()
        threading.Thread(target=self._work, args=(other, model), name="worker", daemon=True).start()

    def _work(self, connection: "Connection[WorkerMessage, WorkerOrder]", model: PlacedModel) -> None:
        with connection:
            try:
                self._own.send(model.order())
            except AssaymarkError as error:
                connection.send(("failed", str(error)))
            serve_orders(connection)

    def post(self, order: WorkerOrder) -> None:
        """Pass an order to the working thread."""
        self._own.send(order)

    def poll(self) -> list[WorkerMessage]:
        """Return the messages since the last call; wait a moment for the first.

        Raises: EOFError if the working thread has ended.
        """
        said = []
        if self._own.poll(LONG_POLL_SECONDS):
            said.append(self._own.recv())
            while self._own.poll():
                said.append(self._own.recv())
        return said


REACH_SECONDS = 10.0  # time for an address to accept a connection
START = (
    "start one with `ray start --head --disable-usage-stats` on one machine and `ray start --address=HOST:6379` on the "
    "others, with the same Python, Ray and Assaymark on each"
)


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a cluster, and the resources that Ray may assign on it."""

    key: str  # Ray's own name for it
    address: str
    n_cpus: int
    n_gpus: int = 0


@dataclass(frozen=True, slots=True)
class Seat:
    """The resources of one worker: a share of a machine's processors, and a GPU or none."""

    node: Node
    n_cpus: int
    has_gpu: bool = False


def join(address: str) -> bool:
    """Connect this process to the cluster at `address`; return whether it was not connected before.

    Raises: MissingExtra without ray; UsageError for an invalid address; ModelUnavailable if there is no such cluster.
    """
    _check_address(address)
    needed = ("ray", "grpc") if "://" in address else ("ray",)
    if any(find_spec(name) is None for name in needed):
        raise MissingExtra(f"--cluster {address}", "cluster")
    import ray

    if ray.is_initialized():
        return False
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except Exception as error:  # Ray raises many kinds; each means that the cluster cannot be used
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if address == "auto" and isinstance(error, ConnectionError):
            reason = "this machine is part of no cluster, or of several: in that case give the address of one"
        raise ModelUnavailable(f"no Ray cluster was found at '{address}' ({reason}); {START}") from error
    _print_news(wanted=False)
    return True


def leave() -> None:
    """Disconnect this process from the cluster that it joined."""
    import ray

    ray.shutdown()
    _print_news(wanted=True)


def _print_news(*, wanted: bool) -> None:
    """Set whether Ray prints events of its machines: it would do so among our results, on standard output."""
    import ray

    ray._private.worker._worker_logs_enabled = wanted  # noqa: SLF001 - there is no public switch


def _check_address(address: str) -> None:
    """Check an address before Ray does: Ray misreads some, and waits minutes if nothing responds."""
    if address == "auto":
        return
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("", "ray") or not parts.hostname or port is None:
        raise UsageError(
            f"--cluster '{address}' is not an address; expected auto (the cluster this machine is part of), HOST:6379, "
            "or ray://HOST:10001 (from a machine outside); on one machine alone --workers N needs no cluster"
        )
    try:
        socket.create_connection((parts.hostname, port), timeout=REACH_SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelUnavailable(f"no Ray cluster was found at '{address}' ({reason}); {START}") from error


def nodes_of_cluster() -> list[Node]:
    """Return the machines of the cluster that are alive."""
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    return [
        Node(
            node["NodeID"],
            node["NodeManagerAddress"],
            int(node["Resources"].get("CPU", 0)),
            int(node["Resources"].get("GPU", 0)),
        )
        for node in alive
    ]


def seats(nodes: Sequence[Node], n_workers: int, device: str) -> list[Seat]:
    """Return a seat for each worker: a GPU each if the cluster has GPUs, else a share of a machine's processors.

    Raises: UsageError if the cluster has too few, or `device` names a device of one machine.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device='{device}' names a device of one machine; with --cluster use cuda, cpu or omit it")
    on_gpus = device == "cuda" or (device == "auto" and any(node.n_gpus for node in nodes))
    kind = "GPU" if on_gpus else "CPU"
    capacity = {node: node.n_gpus if on_gpus else node.n_cpus for node in nodes}
    if n_workers > sum(capacity.values()):
        has = ", ".join(f"{node.address}: {n}" for node, n in capacity.items())
        raise UsageError(
            f"--workers {n_workers}: each worker needs a {kind}, and the cluster has {sum(capacity.values())} ({has}); "
            "use fewer, or add machines with `ray start --address=HOST:6379`"
        )
    taken = dict.fromkeys(nodes, 0)
    for _ in range(n_workers):
        free = [node for node in nodes if taken[node] < capacity[node]]
        taken[max(free, key=lambda node: capacity[node] / (taken[node] + 1))] += 1
    return [Seat(node, node.n_cpus // n, on_gpus) for node, n in taken.items() for _ in range(n)]


SILENT_SECONDS = 30.0  # without a reply, after which a worker with a loaded model counts as lost
LONGEST_GAP = 1.0  # maximum counted as waiting between two polls, since the driver may have been busy


@dataclass(slots=True, eq=False, kw_only=True)
class _SeatedWorker(RemoteWorker):
    """A worker on a machine of the cluster, and the pending call that will return its messages."""

    actor: "ActorHandle"
    seat: Seat
    pending_poll: "ObjectRef"
    has_started: bool = False  # False until Ray has placed it
    inbox: deque[WorkerMessage] = field(default_factory=deque)
    silent_seconds: float = 0.0  # spent waiting since its last reply

    def send(self, message: WorkerOrder) -> None:
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

    def messages(self) -> Iterator[tuple[WorkerMessage | None, RemoteWorker]]:
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

    def _with_node(self, message: WorkerMessage, worker: _SeatedWorker) -> WorkerMessage:
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


def run_on_cluster(
    address: str, function: Callable[[*Ts], T], arguments: Sequence[tuple[*Ts]], n_at_once: int | None = None
) -> Generator[tuple[int, T | None, str]]:
    """Yield the number and the result of each call of a function on the cluster's machines, as they end.

    Args:
        function: of a module that every machine has; a call takes one processor.
        arguments: of each call; they are pickled.
        n_at_once: calls in progress at the same time; None: as many as the cluster has processors.

    Yields: the call's place in `arguments`, its result, and "". A call that raised, or whose process or machine was
        lost, has no result, and the reason; it is not tried again. What is in progress ends with the iterator.
    Raises: as `join`; KeyboardInterrupt after a signal.
    """
    is_ours = join(address)
    import ray

    running: dict[object, int] = {}
    try:
        remote = ray.remote(function).options(num_cpus=1, max_retries=0)
        most = n_at_once or max(1, sum(node.n_cpus for node in nodes_of_cluster()))
        waiting = deque(enumerate(arguments))
        while waiting or running:
            while waiting and len(running) < most:
                number, values = waiting.popleft()
                running[remote.remote(*values)] = number
            done, _ = ray.wait(list(running), timeout=LONG_POLL_SECONDS)
            raise_if_requested()
            for reference in done:
                number = running.pop(reference)
                try:
                    yield number, ray.get(reference), ""
                except ray.exceptions.RayError as error:
                    yield number, None, _last_line(error)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if is_ours:
            leave()


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
