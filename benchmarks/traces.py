"""How fast traces are stored and read: a real receiver in a process of its own, senders in another.

python benchmarks/traces.py [--spans 20000] [--batch 512] [--senders 1 2 4] [--store URL] [--stored 200000]

`until readable`: senders post batches of protobuf, gzip, over connections that stay open; the time runs from the first
byte sent until the last span sent is in the JSON twin of its trace's page. Each trace has 10 spans of about 2 kB: an
agent, searches, calls of tools and of a model with messages, in the GenAI conventions. An answer of 200 means that the
batch is on the disk, so each batch costs one flush of it.

`list`, `search`, `tree`: with `--stored` spans in the store, the time in the client for the first page, for a search of
a rare and of a common word, for a filter that few traces pass, and for a trace of 5,000 spans; median of 20.

`--store URL`: of an empty PostgreSQL database; without it a SQLite file in a temporary folder.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.store import Store

SPANS_PER_TRACE = 10
WORDS = (
    *("the", "model", "retrieves", "documents", "about", "cities", "rivers", "mountains"),
    *("and", "answers", "in", "two", "short", "sentences", "with", "sources"),
)
AIM = 2000.0  # spans per second


def add_span(scope: object, trace: bytes, number: int, parent: bytes | None, start: int) -> bytes:
    """Add a span to a scope; return its id."""
    made = scope.spans.add()  # type: ignore[attr-defined]
    made.trace_id, made.span_id = trace, secrets.token_bytes(8)
    if parent is not None:
        made.parent_span_id = parent
    made.start_time_unix_nano, made.end_time_unix_nano = start + number * 10**7, start + number * 10**7 + 8 * 10**6
    kind = ("invoke_agent", "retrieval", "chat", "execute_tool")[0 if number == 0 else 1 + number % 3]
    made.name = f"{kind} step"
    text = " ".join(WORDS[(number + at) % len(WORDS)] for at in range(120))
    values: dict[str, str | int] = {"gen_ai.operation.name": kind}
    values |= {"session.id": trace.hex()[:3], "user.id": trace.hex()[3:6]}
    if kind == "chat":
        messages = [{"role": "user", "parts": [{"type": "text", "content": f"{text} {trace.hex()}"}]}]
        values |= {"gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 900, "gen_ai.usage.output_tokens": 80,
                   "gen_ai.input.messages": json.dumps(messages),
                   "gen_ai.output.messages": json.dumps([{**messages[0], "role": "assistant"}])}  # fmt: skip
    else:
        values |= {"input.value": text, "output.value": text}
    for key, value in values.items():
        pair = made.attributes.add()
        pair.key = key
        if isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.string_value = value
    return bytes(made.span_id)


def batches(n_spans: int, size: int) -> Iterator[tuple[bytes, str, int]]:
    """Yield packed requests of at most `size` spans, each with the id of its last trace and its number of spans."""
    made = 0
    while made < n_spans:
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        pair = resource.resource.attributes.add()
        pair.key, pair.value.string_value = "service.name", "bench"
        scope = resource.scope_spans.add()
        trace = b""
        n = 0
        while n + SPANS_PER_TRACE <= max(size, SPANS_PER_TRACE) and made < n_spans:
            trace, start = secrets.token_bytes(16), time.time_ns()
            root = add_span(scope, trace, 0, None, start)
            for number in range(1, SPANS_PER_TRACE):
                add_span(scope, trace, number, root, start)
            n, made = n + SPANS_PER_TRACE, made + SPANS_PER_TRACE
        yield gzip.compress(request.SerializeToString(), 1), trace.hex(), n


@contextmanager
def receiver(place: str, token: str) -> Iterator[httpx.Client]:
    """Run `assaymark serve --traces` on a store that has a project; give a client with the project's token."""
    command = [sys.executable, "-m", "assaymark", "serve", "--traces", "--port", "0", "--store", place]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            line = ""
            while "http://" not in line:
                line = process.stdout.readline() if process.stdout is not None else ""
                if not line:
                    raise SystemExit("the server did not start")
            url = "http://" + line.partition("http://")[2].split()[0].rstrip("/")
            with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60) as client:
                yield client
        finally:
            process.terminate()


def send(url: str, token: str, bodies: list[bytes], started: "multiprocessing.synchronize.Event") -> None:
    """Send requests one after another, in a process of its own."""
    headers = {"authorization": f"Bearer {token}", "content-type": "application/x-protobuf", "content-encoding": "gzip"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        started.wait()
        for body in bodies:
            while (answer := client.post("/v1/traces", content=body)).status_code == 503:
                time.sleep(1)
            answer.raise_for_status()


def run_senders(senders: "Sequence[multiprocessing.Process]", started: "multiprocessing.synchronize.Event") -> float:
    """Start processes, let them send at once, and wait for their ends; return when they began, by `perf_counter`."""
    for sender in senders:
        sender.start()
    time.sleep(1)  # until they are all there
    began = time.perf_counter()
    started.set()
    for sender in senders:
        sender.join()
        if sender.exitcode:
            raise SystemExit("a sender failed")
    return began


def until_readable(client: httpx.Client, token: str, n_spans: int, size: int, n_senders: int) -> tuple[float, int]:
    """Return the seconds until all spans can be read, and the number of spans."""
    made = list(batches(n_spans, size))
    started = multiprocessing.Event()
    url = str(client.base_url).rstrip("/")
    shares = [[body for body, _, _ in made[at::n_senders]] for at in range(n_senders)]
    senders = [multiprocessing.Process(target=send, args=(url, token, share, started)) for share in shares]
    began = run_senders(senders, started)
    for _, trace, _ in made[-n_senders:]:
        page = client.get(f"/trace/{trace}.json").json()
        if page["trace"]["spans"] != SPANS_PER_TRACE:
            raise SystemExit(f"trace {trace} has {page['trace']['spans']} spans")
    return time.perf_counter() - began, sum(n for _, _, n in made)


def reading(client: httpx.Client, trace: str) -> None:
    """Print the times of pages."""
    common, rare = "mountains", trace
    pages = {
        "list": "/traces",
        "search, rare word": f"/traces?q={rare}",
        "search, common word": f"/traces?q={common}",
        "filter that few pass": "/traces?dearer=1000",
        "sessions": "/traces/sessions",
    }
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    large = secrets.token_bytes(16)
    ids: list[bytes] = []
    for number in range(5000):
        ids.append(add_span(scope, large, number, ids[number // 10] if number else None, time.time_ns()))
    headers = {"content-type": "application/x-protobuf"}
    client.post("/v1/traces", content=request.SerializeToString(), headers=headers).raise_for_status()
    for name, path in {**pages, "tree of 5,000": f"/trace/{large.hex()}"}.items():
        times = []
        for _ in range(20):
            began = time.perf_counter()
            client.get(path).raise_for_status()
            times.append(1000 * (time.perf_counter() - began))
        print(f"{name:<24} {statistics.median(times):8.1f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=20_000)
    parser.add_argument("--batch", type=int, nargs="+", default=[512])
    parser.add_argument("--senders", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--store")
    parser.add_argument("--stored", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = options.store or str(Path(folder) / "traces.sqlite")
        with Store.open(place) as store:
            token = TraceLog(store).add_project(f"bench {secrets.token_hex(4)}")
        with receiver(place, token) as client:
            for size in options.batch:
                for n_senders in options.senders:
                    seconds, n = until_readable(client, token, options.spans, size, n_senders)
                    print(f"batch {size:>5}, {n_senders} sender(s): {n:,} spans readable after {seconds:6.2f} s: "
                          f"{n / seconds:8,.0f} per second (aim {AIM:,.0f})", flush=True)  # fmt: skip
            if options.stored:
                seconds, n = until_readable(client, token, options.stored, 5000, 2)
                print(f"{n:,} spans more, in batches of 5,000: {n / seconds:,.0f} per second", flush=True)
                body, trace, _ = next(batches(10, 10))
                headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
                client.post("/v1/traces", content=body, headers=headers).raise_for_status()
                reading(client, trace)


if __name__ == "__main__":
    main()
