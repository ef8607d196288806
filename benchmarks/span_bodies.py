"""Measure what bodies of spans cost the receiver: processor time, memory, and how long another page waits meanwhile.

Each body goes to a server of its own, `assaymark serve --traces`. Linux. Run: python -m benchmarks.span_bodies
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from tests.applications.traces.secret_examples import secret_spans
from tests.applications.traces.sending import request, span

from assaymark.applications.traces.otlp import JSON, LARGEST_BODY, MOST_SPANS, PROTOBUF, traces_request

WORDS = "the model reads a question about rivers and answers with three short sentences in plain English".split(" ")  # noqa: SIM905
SIZE = LARGEST_BODY - (1 << 17)


def bodies() -> Iterator[tuple[str, bytes, str]]:
    """Yield name, body and encoding of bodies as large as are accepted."""
    draw = random.Random(50)
    prose = " ".join(draw.choices(WORDS, k=SIZE // 5))
    chat = json.dumps([{"role": "user", "content": prose[:20_000], "n_tokens": 4_000}])
    secrets = "\n".join(part["value"].get("stringValue", "") for _, s, _ in secret_spans() for part in s["attributes"])
    texts: dict[str, Callable[[], list[Any]]] = {
        "harmless text": lambda: _of(prose[:200_000], SIZE),
        "messages of chats": lambda: _of(chat, SIZE),
        "200 secrets, repeated": lambda: _of(secrets * (200_000 // len(secrets)), SIZE),
        "passwords alone": lambda: _of('{"password": "hunter2xyz"}, ' * 7_000, SIZE),
        "the word key alone": lambda: _of("key " * 50_000, SIZE),
        "spans without attributes": lambda: [_numbered(n) for n in range(MOST_SPANS)],
        "spans of 20 short texts": lambda: [
            _numbered(n, attributes={f"attribute.{at}": prose[at * 30 :][:30] for at in range(20)})
            for n in range(1_300)
        ],
    }
    for name, make in texts.items():
        for kind in (PROTOBUF, JSON):
            body = json.dumps(request(*make()), ensure_ascii=False).encode()
            yield name, body if kind == JSON else bytes(traces_request(body, JSON).SerializeToString()), kind


def _of(text: str, size: int) -> list[Any]:
    n = int(size / len(json.dumps(text)) * 0.97)
    return [_numbered(number, attributes={"input.value": text}) for number in range(n)]


def _numbered(number: int, **more: Any) -> Any:
    return span(number + 1, trace=f"{number // 20 + 1:032x}", **more)


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _megabytes(process: int, name: str) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def measure(body: bytes, kind: str) -> tuple[int, float, float, float]:
    """Return status, processor seconds (the page's too), MiB above those at rest, and the page's longest wait."""
    with tempfile.TemporaryDirectory() as folder:
        place = ["--store", f"{folder}/store.sqlite"]
        command = [sys.executable, "-m", "assaymark"]
        made = subprocess.run([*command, "traces", "project", "add", "p", "--json", *place], capture_output=True,
                              check=True)  # fmt: skip
        headers = {"authorization": f"Bearer {json.loads(made.stdout)['token']}", "content-type": kind}
        served = [*command, "serve", "--traces", "--port", "0", *place]
        with subprocess.Popen(served, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                assert server.stdout is not None
                line = next(line for line in server.stdout if "http://" in line)
                url = f"http://{line.split('http://')[1].split()[0].rstrip('/.,')}"
                threading.Thread(target=server.stdout.read, daemon=True).start()
                with httpx.Client(base_url=url, headers=headers, timeout=120) as client:
                    first = json.dumps(request(span(1))).encode()
                    client.post("/v1/traces", content=first, headers={"content-type": JSON}).raise_for_status()
                    client.get("/traces").raise_for_status()
                    waits: list[float] = []
                    is_over = threading.Event()

                    def look() -> None:
                        with httpx.Client(base_url=url, headers=headers, timeout=120) as other:
                            while not is_over.is_set():
                                began = time.monotonic()
                                other.get("/traces").raise_for_status()
                                waits.append(time.monotonic() - began)
                                time.sleep(0.1)

                    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
                    rest, seconds = _megabytes(server.pid, "VmRSS"), _processor_seconds(server.pid)
                    looking = threading.Thread(target=look)
                    looking.start()
                    status = client.post("/v1/traces", content=body).status_code
                    is_over.set()
                    looking.join()
                    spent = _processor_seconds(server.pid) - seconds
                    return status, spent, _megabytes(server.pid, "VmHWM") - rest, max(waits, default=0.0)
            finally:
                server.kill()


if __name__ == "__main__":
    print("body | encoding | MiB | status | processor s | MiB more | longest wait s")
    for name, body, kind in bodies():
        status, seconds, more, wait = measure(body, kind)
        encoding = kind.rpartition("-")[2].rpartition("/")[2]
        size = len(body) / (1 << 20)
        print(f"{name} | {encoding} | {size:.1f} | {status} | {seconds:.2f} | {more:.0f} | {wait:.2f}", flush=True)
