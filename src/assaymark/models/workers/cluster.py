"""Join a Ray cluster that computes one run, and assign its machines to workers.

Ray only places workers and transports messages; what they compute is decided by `workers`, so a run on a cluster equals
the run of one process. We join clusters and never start one: on one machine plain processes do the same at lower cost.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from assaymark.errors import MissingExtra, ModelUnavailable, UsageError

__all__ = ["Node", "Seat", "join", "leave", "nodes_of_cluster", "seats"]

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

    found: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]
    return [
        Node(
            node["NodeID"],
            node["NodeManagerAddress"],
            int(node["Resources"].get("CPU", 0)),
            int(node["Resources"].get("GPU", 0)),
        )
        for node in found
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
