"""A Ray cluster of two nodes with one processor each, on this machine, for a test that runs it as a process.

It prints the address, takes the second node away at the first line of its standard input, and ends with that input.
"""

import os
import signal
import socket
import sys
from typing import Any

TRIES = 2
TOO_BUSY = 75  # exit code
START_SECONDS = 130  # for both nodes: Ray's own limits do not hold for all that it waits for


def free_ports(n: int) -> list[int]:
    """Return ports that nobody listens at."""
    sockets = [socket.socket() for _ in range(n)]
    for each in sockets:
        each.bind(("", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def node_options() -> dict[str, Any]:
    """Return a small node; its agents' ports are named, as a busy machine may start them too late to be asked."""
    names = ("metrics_agent_port", "dashboard_agent_listen_port", "runtime_env_agent_port", "metrics_export_port")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    return {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 * 2**20, "include_log_monitor": False, **ports}


def added(cluster: Any, options: dict[str, Any]) -> Any:
    """Return a new node; Ray gives one 30 s to start, which a machine with other work may need more than once."""
    for _ in range(TRIES):
        try:
            return cluster.add_node(**node_options(), **options)
        except Exception as error:  # noqa: BLE001 - Ray raises no narrower one
            print(error, file=sys.stderr)  # noqa: T201
    raise SystemExit(TOO_BUSY)


def main() -> None:
    """Start the cluster, and keep it until standard input ends."""
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_enable_metrics_collection="0")
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(TOO_BUSY))
    signal.alarm(START_SECONDS)
    try:
        added(cluster, {"include_dashboard": False, "no_monitor": True, "temp_dir": sys.argv[1]})
        second = added(cluster, {})
        signal.alarm(0)
        print(cluster.address, flush=True)  # noqa: T201 - the test reads it
        if sys.stdin.readline():
            cluster.remove_node(second, allow_graceful=False)
            sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
