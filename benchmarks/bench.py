"""`make bench`: our time beside lm-evaluation-harness's, in one run on one machine.

Same model, same real data, same samples; scoring alone answers the very requests lm-eval built. Every ratio is printed
with the largest difference of a log-likelihood and the agreement of the picked choices, and a difference beyond the
promised bound ends the run with an error.

lm-eval runs as its users run it: with its cache of logits on, which joins requests of one context whose continuations
differ in their last token only, and at the fastest of the batch sizes named.

Usage: python benchmarks/bench.py [--quick] [--shapes m25,m135] [--loads mmlu,piqa] [--batch_sizes 4,8,16]
    [--no_logits_cache] [--data DIR] [--out DIR]
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.real_model import real_model

from assaymark.engine.trie import TriePlan
from assaymark.settings import thread_count
from benchmarks.engine_limit import needed_operations, product_rate
from benchmarks.loads import LOADS, Load
from benchmarks.plots import draw
from benchmarks.whole_process import both

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
BOUND_NATS, BOUND_RELATIVE = 1e-4, 1e-6


@dataclass(frozen=True, slots=True)
class Row:
    """One load on one shape."""

    shape: str
    load: str
    samples: int
    tokens_asked: int
    tokens_distinct: int
    lm_eval_seconds: float
    our_seconds: float
    ratio: float
    wanted: float
    share_of_limit: float
    lm_eval_peak_gb: float
    our_peak_gb: float
    batch_size: int  # of lm-eval: the fastest of those tried
    largest_difference: float
    picks_differ: int  # outside the bound: must be 0
    whole_lm_eval_seconds: float | None = None
    whole_our_seconds: float | None = None


def child(module: str, spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one child process on a spec and return what it wrote.

    Raises: RuntimeError with the end of its output if it fails.
    """
    spec = {**spec, "out": str(folder / f"{module}.json")}
    path = folder / f"{module}.spec.json"
    path.write_text(json.dumps(spec))
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{module} failed on {spec['tasks']}:\n{done.stderr[-3000:]}")
    return dict(json.loads(Path(spec["out"]).read_text()))


def compare(theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[float, int]:
    """Return the largest difference of a log-likelihood, and how many samples' picked choices differ beyond it."""
    largest = 0.0
    choices: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for request, their, our in zip(theirs["requests"], theirs["answers"], ours["answers"], strict=True):
        if our[0] is None:
            raise RuntimeError(f"no answer of ours to {request[:2]}: {ours['errors'][:1]}")
        largest = max(largest, abs(their[0] - our[0]))
        choices.setdefault((request[0], request[1]), []).append((their[0], our[0]))
    differ = 0
    for pairs in choices.values():
        mine = max(range(len(pairs)), key=lambda i: pairs[i][1])
        best = max(their for their, _ in pairs)
        differ += best - pairs[mine][0] > 2 * (BOUND_NATS + BOUND_RELATIVE * abs(best))
    return largest, differ


def measure(load: Load, shape: str, arguments: argparse.Namespace, folder: Path) -> Row:
    """Time one load on one shape, theirs and ours in turn."""
    limit = load.quick[shape] if arguments.quick else load.samples[shape]
    model = str(model_of(shape, arguments))
    spec = {
        "tasks": list(load.tasks), "num_fewshot": load.num_fewshot, "limit": limit, "dtype": arguments.dtype,
        "device": "cpu", "threads": thread_count(), "model": model, "data": str(arguments.data),
        "logits_cache": not arguments.no_logits_cache,
    }  # fmt: skip
    tried = {size: child("score_lm_eval", {**spec, "batch_size": size}, folder) for size in sizes_of(arguments)}
    batch_size = min(tried, key=lambda size: float(tried[size]["seconds"]))
    theirs = tried[batch_size]
    ours = child("score_ours", {**spec, "requests": str(folder / "score_lm_eval.json")}, folder)
    largest, differ = compare(theirs, ours)
    rate = product_rate(shape, arguments.dtype, time.perf_counter)
    limit_s = needed_operations(TriePlan(**ours["needed"]), shape) / rate
    samples = len({(each[0], each[1]) for each in theirs["requests"]})
    return Row(
        shape, load.name, samples, ours["tokens_asked"], ours["tokens_distinct"], theirs["seconds"], ours["seconds"],
        theirs["seconds"] / ours["seconds"], load.wanted[shape], limit_s / ours["seconds"],
        theirs["peak_bytes"] / 1e9, ours["peak_bytes"] / 1e9, batch_size, largest, differ,
    )  # fmt: skip


def model_of(shape: str, arguments: argparse.Namespace) -> Path:
    """Return the folder of a shape's model: m135 is SmolLM2-135M-Instruct, the others have random weights."""
    return real_model() if shape == "m135" else Path(arguments.models, shape)


def sizes_of(arguments: argparse.Namespace) -> list[int]:
    """Return the batch sizes at which lm-eval is tried."""
    return [int(size) for size in arguments.batch_sizes.split(",")]


def whole_process(
    load: Load, shape: str, arguments: argparse.Namespace, folder: Path, batch_size: int
) -> tuple[float, float]:
    """Return the seconds of both command lines from start to end, each with an empty store and cache."""
    limit = load.quick[shape] if arguments.quick else load.samples[shape]
    shared = ["--tasks", ",".join(load.tasks), "--num_fewshot", str(load.num_fewshot), "--device", "cpu"]
    shared += ["--limit", str(limit)] if limit else []
    model = f"pretrained={model_of(shape, arguments)},dtype={arguments.dtype}"
    model += ",logits_cache=False" * arguments.no_logits_cache
    theirs, ours = both(shared, model, arguments.data, folder, batch_size)
    return theirs.seconds, ours.seconds


HEADER = (
    f"{'shape':<6}{'load':<15}{'samples':>8}{'asked':>10}{'distinct':>10}{'lm-eval s':>11}{'ours s':>9}{'ratio':>8}"
    f"{'aim':>6}{'of limit':>10}{'GB':>12}{'max diff':>10}"
)


def line_of(row: Row) -> str:
    """Return a row of the printed table."""
    return (
        f"{row.shape:<6}{row.load:<15}{row.samples:>8}{row.tokens_asked:>10,}{row.tokens_distinct:>10,}"
        f"{row.lm_eval_seconds:>11.1f}{row.our_seconds:>9.2f}{row.ratio:>7.1f}x{row.wanted:>6g}"
        f"{row.share_of_limit:>9.0%} {row.lm_eval_peak_gb:>5.1f}/{row.our_peak_gb:<5.1f}{row.largest_difference:>10.1e}"
    )


def whole(row: Row) -> str:
    """Return both command lines' seconds and their ratio, where they were timed."""
    if row.whole_lm_eval_seconds is None or row.whole_our_seconds is None:
        return ""
    ratio = row.whole_lm_eval_seconds / row.whole_our_seconds
    return f"{row.whole_lm_eval_seconds:.0f} : {row.whole_our_seconds:.1f}, {ratio:.1f}x"


def markdown(rows: list[Row], arguments: argparse.Namespace) -> str:
    """Return the rows as a Markdown table with what is needed to measure them again."""
    lines = [
        (
            f"{platform.processor() or platform.machine()}, {thread_count()} threads, {arguments.dtype}, "
            f"{datetime.now(UTC):%Y-%m-%d}, torch {version('torch')}, transformers {version('transformers')}, "
            f"lm_eval {version('lm_eval')} (cache of logits {'off' if arguments.no_logits_cache else 'on'}); "
            f"command: `{' '.join(sys.argv)}`"
        ),
        "",
        (
            "| shape | load | samples | tokens asked : distinct | lm-eval s (batch) | ours s | ratio | aim | of limit "
            "| peak GB lm-eval : ours | largest difference | whole process s lm-eval : ours |"
        ),
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows:
        cells = (
            *(r.shape, r.load, r.samples, f"{r.tokens_asked / r.tokens_distinct:.1f}"),
            *(
                f"{r.lm_eval_seconds:.1f} ({r.batch_size})",
                f"{r.our_seconds:.2f}",
                f"**{r.ratio:.1f}x**",
                f"{r.wanted:g}",
            ),
            *(f"{r.share_of_limit:.0%}", f"{r.lm_eval_peak_gb:.2f} : {r.our_peak_gb:.2f}"),
            *(f"{r.largest_difference:.1e}", whole(r)),
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def add_places(parser: argparse.ArgumentParser) -> None:
    """Add what every benchmark asks: sizes, dtype, and where data and models are and results go."""
    parser.add_argument("--quick", action="store_true", help="few samples: under ten minutes")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch_sizes", default="8", help="of lm-eval; the fastest counts")
    parser.add_argument(
        "--no_logits_cache", action="store_true", help="lm-eval without its cache, which is not its default"
    )
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "bench_models")
    parser.add_argument("--out", type=Path, default=ROOT / "out")


def make_models(arguments: argparse.Namespace) -> None:
    """Make the random models where they are missing, and the folder for results."""
    if not arguments.data.is_dir():
        sys.exit(f"no benchmark data in {arguments.data}; name its folder with --data")
    if not (arguments.models / "m25").is_dir():
        subprocess.run(
            [sys.executable, str(SHARED / "tools" / "make_bench_model.py"), str(arguments.models)], check=True
        )
    arguments.out.mkdir(exist_ok=True)


def main() -> int:
    """Measure the loads asked for and print the table; exit code 1 where an answer differs beyond the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="m25,m135")
    parser.add_argument("--loads", default=",".join(load.name for load in LOADS))
    parser.add_argument("--whole", default="", help="loads to time as whole processes too")
    add_places(parser)
    arguments = parser.parse_args()
    named = {name for name in f"{arguments.loads},{arguments.whole}".split(",") if name}
    if unknown := named - {load.name for load in LOADS}:
        parser.error(f"no such load: {', '.join(sorted(unknown))}; there are {', '.join(load.name for load in LOADS)}")
    make_models(arguments)
    print(HEADER, flush=True)
    rows = []
    for shape in arguments.shapes.split(","):
        for load in LOADS:
            if load.name in arguments.loads.split(","):
                with tempfile.TemporaryDirectory() as folder:
                    row = measure(load, shape, arguments, Path(folder))
                    print(line_of(row), flush=True)
                    if load.name in arguments.whole.split(","):
                        took = whole_process(load, shape, arguments, Path(folder), row.batch_size)
                        row = Row(**{**asdict(row), "whole_lm_eval_seconds": took[0], "whole_our_seconds": took[1]})
                        print(f"      whole process: {took[0]:.1f} s and {took[1]:.1f} s, {took[0] / took[1]:.1f}x")
                    rows.append(row)
    (arguments.out / "bench.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
    (arguments.out / "bench.md").write_text(markdown(rows, arguments))
    draw([asdict(row) for row in rows], arguments.out / "ratio.svg")
    wrong = [r for r in rows if r.picks_differ]
    for row in wrong:
        print(f"DIFFERENT: {row.shape} {row.load}: {row.picks_differ} samples pick another choice beyond the bound")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
