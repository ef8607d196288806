"""How fast pages of leaderboards are: a real server on this machine, and clients in another process.

python benchmarks/web_speed.py [--v1 FILE.csv] [--v2 FILE.csv] [--rows 100000] [--requests 40] [--check]

Three boards are served: the published tables of the Open LLM Leaderboard (v2: 4,576 rows, v1: 7,169 rows), and one
table of simulated rows. A time is measured in the client, from sending a request to having read the response, with a
connection that stays open. `cached`: the page cache has it for this version of the table and this address. `cold`:
each request is another search, so its page is computed and rendered. Where the machine has two processors or more, the
server and the client each have one of their own.

Filters and rank sets are measured in one process without a server: rank sets at 1,000, 10,000 and 100,000 rows show
how the time grows. Each figure is printed beside its aim; `--check` ends with an error where one is missed.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.interval_ranks import interval_ranks
from assaymark.leaderboard.shown import show_table
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "arena" / "openllm"
SEED = 20260101
BENCHMARKS = ("Law", "Books", "Music", "Mathematics", "Physics", "Instructions")
QUESTIONS = 1000  # of each simulated benchmark
NAMES = ("llama", "mistral", "qwen", "gemma", "phi", "falcon", "yi", "olmo")
AIMS = {"cached": 15.0, "cold": 40.0, "bytes": 100_000.0}
FILTER_AIMS = ((10_000, 10.0), (100_000, 40.0))  # rows up to which the aim in ms applies
SEARCHES = (
    "llama",
    "mistral; qwen params:<8",
    "license:apache-2.0 type:chat",
    "average:>30 -merged:true",
    "params:7..13 x",
)


@dataclass
class Report:
    """Figures with their aims."""

    missed: list[str] = field(default_factory=list)

    def line(self, name: str, value: float, aim: float | None, unit: str, note: str = "") -> None:
        """Print one figure."""
        against = "" if aim is None else f"  aim {aim:,.0f} {unit}{'' if value <= aim else '  MISSED'}"
        print(f"  {name:<34} {value:>10,.2f} {unit}{note}{against}", flush=True)
        if aim is not None and value > aim:
            self.missed.append(name)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--v1", type=Path, default=DATA / "open_llm_v1_2024-07-13.csv")
    parser.add_argument("--v2", type=Path, default=DATA / "open_llm_v2_2025-03-21.csv")
    parser.add_argument("--rows", type=int, default=100_000, help="simulated rows")
    parser.add_argument("--requests", type=int, default=40, help="of each kind")
    parser.add_argument("--check", action="store_true", help="end with an error where an aim is missed")
    inputs = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        boards = list(write_boards(Path(name), inputs))
        print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors; {inputs.requests} requests of each kind")
        measure_pages(boards, inputs.requests, report)
        for path in boards:
            board = read_board(path)
            measure_filters(Site([board]).table(board), path.stem, report)
    measure_ranks(report)
    print(f"load {os.getloadavg()[0]:.2f} at the end; missed: {', '.join(report.missed) or 'none'}")
    if inputs.check and report.missed:
        sys.exit(1)


def write_boards(folder: Path, given: argparse.Namespace) -> Iterator[Path]:
    """Write the boards' files; a published table that is not there is left out, and reported."""
    for name, file in (("v2", given.v2), ("v1", given.v1)):
        if file.is_file():
            path = folder / f"{name}.yaml"
            path.write_text(f"title: {name}\ntable: {{file: {file.resolve()}, format: open-llm-{name}}}\n")
            yield path
        else:
            print(f"{file} is not here: its board is left out")
    write_simulated(folder / "simulated.csv", given.rows)
    columns = ", ".join(f"{each}: {each}" for each in BENCHMARKS)
    sizes = ", ".join(f"{item}: {QUESTIONS}" for item in BENCHMARKS)
    path = folder / "simulated.yaml"
    path.write_text(
        "title: simulated\ntable:\n  file: simulated.csv\n  format: csv\n"
        f"  columns: {{{columns}}}\n  sizes: {{{sizes}}}\n"
    )
    yield path


def write_simulated(path: Path, n_rows: int) -> None:
    """Write a table of models whose scores share one ability, with the facts that filters need."""
    draw = np.random.default_rng(SEED)
    ability = draw.normal(0.0, 1.0, n_rows)
    shares = 1.0 / (1.0 + np.exp(-(ability[:, None] + draw.normal(0.0, 0.3, (n_rows, len(BENCHMARKS))))))
    scores = 100.0 * draw.binomial(QUESTIONS, shares) / QUESTIONS
    sizes = np.round(np.exp(draw.normal(2.0, 1.0, n_rows)), 2)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["model", "params", "license", "type", "precision", "merged", "date", *BENCHMARKS])
        for at in range(n_rows):
            facts = ("mit", "apache-2.0", "llama3")[at % 3], ("chat", "base", "merge", "finetuned")[at % 4]
            kind = ("bfloat16", "float16")[at % 2], str(at % 4 == 2).lower(), f"2025-{1 + at % 12:02}-{1 + at % 28:02}"
            name = f"org{at % 997}/{NAMES[at % len(NAMES)]}-{at}"
            rows.writerow([name, sizes[at], *facts, *kind, *scores[at].tolist()])


@contextmanager
def server(boards: Sequence[Path]) -> Iterator[str]:
    """Run `assaymark serve` in a process of its own; yield its address."""
    command = [sys.executable, "-m", "assaymark", "serve", *map(str, boards), "--port", "0"]
    empty = {**os.environ, "ASSAYMARK_HOME": str(boards[0].parent / "home"), "ASSAYMARK_STORE": ""}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=empty)
    try:
        line = process.stdout.readline() if process.stdout else ""
        url = next((word for word in line.split() if word.startswith("http://")), None)
        if url is None:
            sys.exit(f"the server did not start: {line!r}")
        pin(process.pid, 0)
        pin(0, 1)
        yield url.rstrip("/")
    finally:
        process.terminate()
        process.wait(20)


def pin(process: int, place: int) -> None:
    """Give a process one processor of those it may use; nothing where that is not possible."""
    if not hasattr(os, "sched_setaffinity"):
        return
    usable = sorted(os.sched_getaffinity(process))
    if len(usable) > 1:
        os.sched_setaffinity(process, {usable[place % len(usable)]})


def measure_pages(boards: Sequence[Path], n: int, report: Report) -> None:
    """Print the times of each board's pages, cached and cold, and the size of its first page."""
    with server(boards) as url, httpx.Client(base_url=url, timeout=300, headers={"accept-encoding": "gzip"}) as client:
        for path in boards:
            started = time.perf_counter()
            client.get(f"/board/{path.stem}").raise_for_status()
            print(f"{path.stem}: first request, which reads the table: {time.perf_counter() - started:.1f} s")
        for path in boards:
            name = path.stem
            report.line(f"{name} first page, compressed", _compressed(client, f"/board/{name}"), AIMS["bytes"], "B")
            cached = [_timed(client, f"/board/{name}?q=llama") for _ in range(n + 1)][1:]
            _quantiles(f"{name} page, cached", cached, AIMS["cached"], report)
            searches = [f"{SEARCHES[at % len(SEARCHES)]} params:<{100 + at}" for at in range(n)]
            cold = [_timed(client, f"/board/{name}?q={_quoted(search)}") for search in searches]
            _quantiles(f"{name} search, cold", cold, AIMS["cold"], report)
            pages = [_timed(client, f"/board/{name}?page={at + 2}") for at in range(min(n, 40))]
            _quantiles(f"{name} next pages, cold", pages, AIMS["cold"], report)
            models = client.get(f"/board/{name}.json").json()["rows"]
            names = [row["model"] for row in models if row["origin"] != "baseline"][: min(n, 10)]
            _quantiles(
                f"{name} model pages", [_timed(client, f"/model/{each}") for each in names], AIMS["cold"], report
            )
            charts = [_timed(client, f"/board/{name}/charts?q={_quoted(item)}") for item in searches]
            _quantiles(f"{name} charts of a search, cold", charts, AIMS["cold"], report)
            report.line(f"{name} charts of all rows, once", _timed(client, f"/board/{name}/charts"), AIMS["cold"], "ms")
            _quantiles(
                f"{name} about", [_timed(client, f"/board/{name}/about") for _ in range(min(n, 10))], None, report
            )


def _quoted(text: str) -> str:
    return str(httpx.QueryParams({"q": text}))[2:]


def _timed(client: httpx.Client, path: str) -> float:
    """Return how long a response took, in ms."""
    started = time.perf_counter()
    response = client.get(path)
    taken = time.perf_counter() - started
    response.raise_for_status()
    return 1e3 * taken


def _compressed(client: httpx.Client, path: str) -> float:
    with client.stream("GET", path) as response:
        return float(sum(len(part) for part in response.iter_raw()))


def _quantiles(name: str, times: Sequence[float], aim: float | None, report: Report) -> None:
    middle, high = np.quantile(times, [0.5, 0.95])
    report.line(name, float(middle), aim, "ms", f"  (p95 {high:,.2f})")


def _best(function: Callable[[], object], repeats: int = 7) -> float:
    """Return the median time of a call, in ms."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(1e3 * (time.perf_counter() - started))
    return float(np.median(times))


def measure_filters(table: BoardTable, name: str, report: Report) -> None:
    """Print how long a search, with order and ranks, takes on a table that is in memory."""
    aim = next((ms for rows, ms in FILTER_AIMS if len(table.rows) <= rows * 1.01), None)
    print(f"{name}: filters over {len(table.rows):,} rows, without rendering")
    show_table(table, View(), ())
    times = {text: _best(lambda text=text: show_table(table, View(q=text), ())) for text in SEARCHES}  # type: ignore[misc]
    for text, taken in times.items():
        report.line(f"{name} {text}"[:34], taken, aim, "ms")
    report.line(f"{name} order by name", _best(lambda: show_table(table, View(sort="model"), ())), aim, "ms")
    report.line(
        f"{name} ranks of those shown",
        _best(lambda: show_table(table, View(q="llama", rank="filtered"), ())),
        aim,
        "ms",
    )


def measure_ranks(report: Report) -> None:
    """Print how long rank sets take, and by which power of the number of rows that grows."""
    print("rank sets, computed once for each version of a table")
    draw = np.random.default_rng(SEED)
    sizes = (1_000, 10_000, 100_000)
    times = []
    for n in sizes:
        values = draw.normal(0.5, 0.1, n)
        half = draw.uniform(0.005, 0.03, n)
        times.append(_best(lambda v=values, h=half: interval_ranks(v, v - h, v + h)))  # type: ignore[misc]
        report.line(f"{n:,} rows", times[-1], None, "ms")
    power = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"  time grows with the power {power:.2f} of the number of rows (n log n: about 1.1; n squared: 2)")


if __name__ == "__main__":
    main()
