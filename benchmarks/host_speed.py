"""Tokens per second of `assaymark host` at 1, 8 and 32 users, beside `transformers serve` on the same model.

Each user sends chat requests one after another, greedily, with prompts of their own; the servers are processes, run one
after the other with the same threads. With --peer also transformers' server, with and without continuous batching,
which needs the packages of `transformers[serving]`; another folder for them can be named in PYTHONPATH. Tokens are
those that each server counts in `usage`.

With --turns N one user alone is measured: all servers run, one works at a time, and they take turns N times, so that
what else the machine does meets each alike; printed are medians, and the median of the ratios of each turn. With
--stream answers are streamed; where the stream ends without `usage` a chunk counts as a token.

Usage: python benchmarks/host_speed.py [--model DIR] [--users 1,8,32] [--tokens 64] [--rounds 2] [--peer]
       python benchmarks/host_speed.py --peer --turns 15 [--stream] [--model DIR]
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
WORDS = ("the", "road", "was", "long", "rope", "old", "door", "church", "evening", "came", "boat", "key")
STARTED_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One server at one number of users. Units: seconds of the clock; tokens that were generated."""

    n_tokens: int
    seconds: float
    waits: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Tokens per second over all users."""
        return self.n_tokens / self.seconds


def make_model(folder: Path) -> Path:
    """Return a random model of 25 million parameters with a chat template, made once."""
    result = folder / "m25-chat"
    if not result.is_dir():
        if not (folder / "m25").is_dir():
            tool = SHARED / "tools" / "make_bench_model.py"
            if not tool.is_file():
                sys.exit(f"no {tool}; name a model with --model")
            subprocess.run([sys.executable, str(tool), str(folder), "m25"], check=True)
        shutil.copytree(folder / "m25", result)
        (result / "chat_template.jinja").write_text(TEMPLATE)
    return result


def prompt_of(user: int, turn: int) -> list[dict[str, str]]:
    """Return a conversation of about 60 tokens that no other user has."""
    words = [WORDS[(user * 7 + turn * 3 + i * (1 + user % 5)) % len(WORDS)] for i in range(40)]
    return [{"role": "user", "content": f"Story {user} {turn}: {' '.join(words)}"}]


@contextmanager
def running(command: list[str], url: str) -> Any:
    """Run a server until the block ends."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until = time.monotonic() + STARTED_SECONDS
            while True:
                try:
                    httpx.get(url + "/health", timeout=2)
                    break
                except httpx.TransportError:
                    if process.poll() is not None or time.monotonic() > until:
                        log.seek(0)
                        raise RuntimeError(log.read().decode()[-600:]) from None
                    time.sleep(0.2)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def measure(url: str, model: str, n_users: int, n_tokens: int, n_turns: int) -> Measured:
    """Return what `n_users` at once get, each sending `n_turns` requests one after another."""
    counts: list[int] = []
    waits: list[float] = []

    def user(number: int) -> None:
        with httpx.Client(timeout=600) as client:
            for turn in range(n_turns):
                body = {"model": model, "messages": prompt_of(number, turn), "max_tokens": n_tokens, "temperature": 0}
                began = time.perf_counter()
                result = client.post(url + "/v1/chat/completions", json=body).raise_for_status().json()
                waits.append(time.perf_counter() - began)
                counts.append(int(result["usage"]["completion_tokens"]))

    threads = [threading.Thread(target=user, args=(number,)) for number in range(n_users)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    if len(counts) != n_users * n_turns:
        raise RuntimeError(f"{n_users * n_turns - len(counts)} requests failed")
    return Measured(sum(counts), seconds, tuple(waits))


def processor_seconds(pid: int) -> float:
    """Return what a process has used of the processors, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def take_turns(commands: dict[str, tuple[list[str], str, int]], n_turns: int, n_tokens: int, streams: bool) -> None:
    """Print a row for each server: what one user gets, while the others are idle."""
    rates: dict[str, list[float]] = {name: [] for name in commands}
    used: dict[str, list[float]] = {name: [] for name in commands}
    with ExitStack() as stack, httpx.Client(timeout=600) as client:
        pids = {
            name: stack.enter_context(running(command, f"http://127.0.0.1:{port}"))
            for name, (command, _, port) in commands.items()
        }
        for turn in range(-1, n_turns):  # the first one loads and warms up
            for name, (_, offered, port) in commands.items():
                body: dict[str, Any] = {"model": offered, "messages": prompt_of(0, turn), "max_tokens": n_tokens}
                before, began = processor_seconds(pids[name]), time.perf_counter()
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                n = ask(client, url, body | {"temperature": 0, "stream": streams})
                seconds = time.perf_counter() - began
                if turn >= 0:
                    rates[name].append(n / seconds)
                    used[name].append(1000 * (processor_seconds(pids[name]) - before) / n)
    first = next(iter(rates))
    print(f"{'server':<42} {'tokens/s':>9} {'ours / its':>11} {'processor ms a token':>21}")
    for name, values in rates.items():
        ratios = [ours / its for ours, its in zip(rates[first], values, strict=True)]
        print(f"{name:<42} {statistics.median(values):>9.1f} {statistics.median(ratios):>10.2f}x "
              f"{statistics.median(used[name]):>21.2f}")  # fmt: skip


def ask(client: httpx.Client, url: str, body: dict[str, Any]) -> int:
    """Send a request, read its whole answer and return how many tokens it has."""
    if not body["stream"]:
        return int(client.post(url, json=body).raise_for_status().json()["usage"]["completion_tokens"])
    n_chunks, n_tokens = 0, None
    with client.stream("POST", url, json=body | {"stream_options": {"include_usage": True}}) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                choices, usage = chunk["choices"], chunk.get("usage")
                n_chunks += bool(choices and choices[0]["delta"].get("content"))
                n_tokens = int(usage["completion_tokens"]) if usage else n_tokens
    return n_chunks if n_tokens is None else n_tokens


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as result:
        return int(result.getsockname()[1])


def servers(model: Path, peer: bool) -> dict[str, tuple[list[str], str, int]]:
    """Return each server's command, the model's name there, and its port."""
    ports = [free_port() for _ in range(3)]
    ours = [sys.executable, "-m", "assaymark", "host", str(model), "--port", str(ports[0]),
            "--model_args", "dtype=float32"]  # fmt: skip
    results = {"assaymark host": (ours, model.name, ports[0])}
    if peer:
        start = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"
        base = [sys.executable, "-c", start, "serve", str(model), "--dtype", "float32", "--device", "cpu", "--host",
                "127.0.0.1", "--port"]  # fmt: skip
        results["transformers serve"] = ([*base, str(ports[1])], str(model), ports[1])
        batched = [*base, str(ports[2]), "--continuous-batching", "--cb-num-blocks", "64"]
        results["transformers serve --continuous-batching"] = (batched, str(model), ports[2])
    return results


def main() -> int:
    """Print a row for each server and number of users."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "bench_models")
    parser.add_argument("--users", default="1,8,32")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2, help="requests of each user")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--turns", type=int, help="one user, the servers in turn")
    parser.add_argument("--stream", action="store_true", help="with --turns")
    arguments = parser.parse_args()
    model = arguments.model or make_model(arguments.models)
    print(f"{model}, {arguments.tokens} tokens each, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    if arguments.turns:
        take_turns(servers(model, arguments.peer), arguments.turns, arguments.tokens, arguments.stream)
        return 0
    print(f"{'server':<42} {'users':>5} {'tokens/s':>9} {'median wait':>12}")
    for name, (command, offered, port) in servers(model, arguments.peer).items():
        url = f"http://127.0.0.1:{port}"
        try:
            with running(command, url):
                measure(url, offered, 1, 4, 1)  # loads and warms up
                for n_users in map(int, arguments.users.split(",")):
                    result = measure(url, offered, n_users, arguments.tokens, arguments.rounds)
                    wait = statistics.median(result.waits)
                    print(f"{name:<42} {n_users:>5} {result.rate:>9.1f} {wait:>10.2f} s", flush=True)
        except (RuntimeError, httpx.HTTPError) as error:
            print(f"{name:<42} cannot be measured: {str(error).strip().splitlines()[-1][:200]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
