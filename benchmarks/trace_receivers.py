"""Spans per second until they can be read: our receiver beside MLflow's and Phoenix's servers, in one run.

python benchmarks/trace_receivers.py [--spans 20000] [--batch 512] [--senders 1 2] [--peers FOLDER] [--install] [--all]

Each server is started as its users start it, on this machine, one after another: ours on SQLite and on PostgreSQL
(`fsync` on), `mlflow server` with SQLite and one worker, `phoenix serve` with its SQLite. All get the same requests
(protobuf, gzip, connections that stay open; spans of about 2 kB, ten to a trace; `benchmarks/traces.py` makes them).
The time runs from the first byte sent until all spans can be read over the server's own interface, whatever was
answered before that: Phoenix answers before it stores.

Peers are installed in environments of their own, FOLDER/mlflow and FOLDER/phoenix (default: .venv/peers), locked by
benchmarks/peers/*.txt; `--install` makes those that are missing. What is not installed is named and left out.

`--all` measures the rest of what traces promise too, each by its own program: lists, searches and trees in a store of
a million spans, the page of quality, and our own time for each row of an application.
"""

import argparse
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from assaymark.applications.traces.trace_log import TraceLog

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.postgres import empty_database, running_postgres  # noqa: E402

from assaymark.store import Store  # noqa: E402
from benchmarks.traces import AIM, SPANS_PER_TRACE, batches, receiver, run_senders  # noqa: E402

RATIO_AIM = 3.0  # times the faster peer
STARTS_WITHIN = 120.0  # seconds
READABLE_WITHIN = 900.0
ASKED_EVERY = 0.2  # seconds
WARM_UP_SPANS = 1000
REST = (
    ["benchmarks/traces.py", "--spans", "5000", "--senders", "1", "--stored", "1000000"],
    ["benchmarks/trace_quality.py"],
    ["benchmarks/application_speed.py"],
)


@dataclass(frozen=True)
class RunningServer:
    """A server that takes spans. is_readable: of (client, ids of the last traces, number of spans sent so far)."""

    url: str
    headers: Mapping[str, str]
    is_readable: Callable[[httpx.Client, Sequence[str], int], bool]


@dataclass(frozen=True)
class Load:
    """Packed requests for each sender, the last trace of each, and how many spans there are."""

    shares: list[list[bytes]]
    last: list[str]
    n_spans: int

    @classmethod
    def of(cls, n_spans: int, size: int, n_senders: int) -> "Load":
        """Make the requests of a measurement."""
        made = list(batches(n_spans, size))
        shares = [made[at::n_senders] for at in range(n_senders)]
        bodies = [[body for body, _, _ in share] for share in shares]
        return cls(bodies, [share[-1][1] for share in shares if share], sum(n for _, _, n in made))


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@contextmanager
def ours(place: str) -> Iterator[RunningServer]:
    """Run `assaymark serve --traces` on an empty store."""
    with Store.open(place) as store:
        token = TraceLog(store).add_project("bench")

    def is_readable(client: httpx.Client, last: Sequence[str], _n_spans: int) -> bool:
        pages = [client.get(f"/trace/{trace}.json") for trace in last]
        return all(page.is_success and page.json()["trace"]["spans"] == SPANS_PER_TRACE for page in pages)

    with receiver(place, token) as client:
        url = str(client.base_url).rstrip("/")
        yield RunningServer(url, {"authorization": f"Bearer {token}"}, is_readable)


@contextmanager
def peer_process(words: Sequence[str], folder: Path, port: int, more: Mapping[str, str]) -> Iterator[str]:
    """Run a peer's server with a home of its own, without telemetry, until it answers; give its address."""
    path = f"{Path(words[0]).parent}{os.pathsep}{os.defpath}"
    env = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "DO_NOT_TRACK": "true", **more}
    url = f"http://127.0.0.1:{port}"
    with (
        (folder / "log").open("w", encoding="utf-8") as log,
        subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            until = time.monotonic() + STARTS_WITHIN
            while True:
                try:
                    httpx.get(url, timeout=5)
                    break
                except httpx.HTTPError:
                    if process.poll() is not None or time.monotonic() > until:
                        said = (folder / "log").read_text(encoding="utf-8")[-1000:]
                        raise SystemExit(f"{words[0]} did not start:\n{said}") from None
                    time.sleep(0.5)
            yield url
        finally:
            os.killpg(process.pid, 15)  # its workers too


@contextmanager
def mlflow(peers: Path, folder: Path) -> Iterator[RunningServer]:
    """Run MLflow's tracking server."""
    port = free_port()
    words = [str(peers / "mlflow" / "bin" / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port),
             "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
             "--default-artifact-root", str(folder / "artifacts")]  # fmt: skip

    def is_readable(client: httpx.Client, last: Sequence[str], _n_spans: int) -> bool:
        pages = [client.get("/api/3.0/mlflow/traces/get", params={"trace_id": f"tr-{trace}"}) for trace in last]
        return all(page.is_success and page.text.count('"span_id"') == SPANS_PER_TRACE for page in pages)

    with peer_process(words, folder, port, {"MLFLOW_DISABLE_TELEMETRY": "true"}) as url:
        yield RunningServer(url, {"x-mlflow-experiment-id": "0"}, is_readable)


@contextmanager
def phoenix(peers: Path, folder: Path) -> Iterator[RunningServer]:
    """Run Phoenix."""
    port = free_port()
    more = {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(free_port()), "PHOENIX_TELEMETRY_ENABLED": "false"}  # fmt: skip
    question = {"query": "{projects{edges{node{recordCount}}}}"}

    def is_readable(client: httpx.Client, _last: Sequence[str], n_spans: int) -> bool:
        edges = client.post("/graphql", json=question).json()["data"]["projects"]["edges"]
        return bool(sum(edge["node"]["recordCount"] for edge in edges) >= n_spans)

    with peer_process([str(peers / "phoenix" / "bin" / "phoenix"), "serve"], folder, port, more) as url:
        yield RunningServer(url, {}, is_readable)


def send(
    url: str, headers: Mapping[str, str], bodies: list[bytes], started: "multiprocessing.synchronize.Event"
) -> None:
    """Send requests one after another, in a process of its own; those of a busy server again after a second."""
    kinds = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    with httpx.Client(base_url=url, headers={**kinds, **headers}, timeout=120) as client:
        started.wait()
        for body in bodies:
            while (answer := client.post("/v1/traces", content=body)).status_code in (429, 503):
                time.sleep(1)
            answer.raise_for_status()


def seconds_until_readable(server: RunningServer, load: Load, n_before: int) -> float:
    """Send a load, and return the seconds until all of it can be read."""
    started = multiprocessing.Event()
    senders = [
        multiprocessing.Process(target=send, args=(server.url, server.headers, share, started)) for share in load.shares
    ]
    began = run_senders(senders, started)
    with httpx.Client(base_url=server.url, headers=dict(server.headers), timeout=60) as client:
        while not server.is_readable(client, load.last, n_before + load.n_spans):
            if time.perf_counter() - began > READABLE_WITHIN:
                raise SystemExit(f"spans cannot be read after {READABLE_WITHIN:g} s")
            time.sleep(ASKED_EVERY)
        return time.perf_counter() - began


def install(peers: Path, name: str) -> None:
    """Make the environment of a peer."""
    subprocess.run([sys.executable, "-m", "venv", str(peers / name)], check=True)
    pip = [str(peers / name / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]
    subprocess.run([*pip, str(ROOT / "benchmarks" / "peers" / f"{name}.txt")], check=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=20_000)
    parser.add_argument("--batch", type=int, nargs="+", default=[512])
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv" / "peers")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    servers: dict[str, Callable[[Path], object]] = {"assaymark, SQLite": lambda folder: ours(f"{folder}/s.sqlite")}
    peers = options.peers.absolute()
    for name, program, run in (("mlflow", "mlflow", mlflow), ("phoenix", "phoenix", phoenix)):
        if options.install and not (peers / name).exists():
            install(peers, name)
        if (peers / name / "bin" / program).is_file():
            servers[name] = lambda folder, run=run: run(peers, folder)  # type: ignore[misc]
        else:
            print(f"{name} is not installed in {peers}: --install does it")
    rates: dict[str, dict[tuple[int, int], float]] = {}

    def measure(name: str, start: Callable[[Path], object]) -> None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, start(Path(folder)) as server:  # type: ignore[attr-defined]
            warm_up = Load.of(WARM_UP_SPANS, 512, 1)  # imports, prices of models, caches
            seconds_until_readable(server, warm_up, 0)
            n_before = warm_up.n_spans
            for size in options.batch:
                for n_senders in options.senders:
                    load = Load.of(options.spans, size, n_senders)
                    rate = load.n_spans / seconds_until_readable(server, load, n_before)
                    n_before += load.n_spans
                    rates.setdefault(name, {})[size, n_senders] = rate
                    print(f"{name:<22} batch {size:>5}, {n_senders} sender(s): {rate:8,.0f} spans per second until "
                          f"readable (load {os.getloadavg()[0]:.1f})", flush=True)  # fmt: skip

    for name, start in servers.items():
        measure(name, start)
    try:
        with running_postgres(fsync=True) as folder:
            measure("assaymark, PostgreSQL", lambda _: ours(empty_database(folder)))
    except pytest.skip.Exception as reason:
        print(f"not on PostgreSQL: {reason}")
    others = [rates[name] for name in ("mlflow", "phoenix") if name in rates]
    for name in (name for name in rates if name.startswith("assaymark")):
        for case, rate in rates[name].items():
            times = (
                f", {rate / max(each[case] for each in others):.1f}x the faster peer (aim {RATIO_AIM:g}x)"
                if others
                else ""
            )
            print(f"{name}, batch {case[0]}, {case[1]} sender(s): {rate:,.0f} (aim {AIM:,.0f}){times}")
    if options.all:
        for words in REST:
            print(f"\n$ python {' '.join(words)}", flush=True)
            env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
            subprocess.run([sys.executable, *words], cwd=ROOT, env=env, check=True)


if __name__ == "__main__":
    main()
