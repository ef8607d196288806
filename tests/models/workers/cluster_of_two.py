"""A Ray cluster of two nodes with one processor each, on this machine, for a test that runs it as a process.

It prints the address, removes the second node at the first line of its standard input, and ends with that input.
"""

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

TRIES = 2
TOO_BUSY = 75  # exit code
START_SECONDS = 130  # for both nodes: Ray's own limits do not hold for all that it waits for


def free_ports(n: int) -> list[int]:
    """Return ports on which nothing listens."""
    sockets = [socket.socket() for _ in range(n)]
    for each in sockets:
        each.bind(("", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def node_options() -> dict[str, Any]:
    """Return a small node; its agents' ports are fixed, as a busy machine may start them too late to be queried."""
    names = ("metrics_agent_port", "dashboard_agent_listen_port", "runtime_env_agent_port", "metrics_export_port")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    return {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 * 2**20, "include_log_monitor": False, **ports}


def started(folder: str) -> tuple[Any, Any]:
    """Return a cluster of exactly two nodes, and the second one.

    Ray gives a node 30 s to start, which may not be enough on a busy machine. An attempt that fails is given up as a
    whole: Ray raises after the node's processes are running, so retrying that node alone would add a third one.
    """
    from ray.cluster_utils import Cluster

    for _ in range(TRIES):
        cluster = Cluster()
        try:
            cluster.add_node(include_dashboard=False, no_monitor=True, temp_dir=folder, **node_options())
            second = cluster.add_node(**node_options())
            n_nodes = sum(node["Alive"] for node in cluster.global_state.node_table())
            if n_nodes != 2:
                raise RuntimeError(f"the cluster has {n_nodes} nodes, expected 2")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - Ray raises no narrower one
            print(error, file=sys.stderr)  # noqa: T201
            cluster.shutdown()
        else:
            return cluster, second
    raise SystemExit(TOO_BUSY)


def main() -> None:
    """Start the cluster, and keep it until standard input ends."""
    folder = sys.argv[1]
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_enable_metrics_collection="0", RAY_TMPDIR=folder)
    (Path(folder) / "ray").mkdir()  # Ray writes the cluster's address there, and does not create the folder
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(TOO_BUSY))
    signal.alarm(START_SECONDS)
    cluster, second = started(folder)
    signal.alarm(0)
    try:
        print(cluster.address, flush=True)  # noqa: T201 - the test reads it
        if sys.stdin.readline():
            cluster.remove_node(second, allow_graceful=False)
            sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
