"""Workers: two of one thread beside one process of two threads, and how evenly work falls on many.

Both parts answer the same real rows with the same random model. The first takes turns on the clock, so it wants a
machine with two free cores. The second measures each range that 64 workers would be given, one by one, in processor
seconds, and lets each simulated worker take the next range when it is free, as the real ones do: balance is the time
of the worker that ends last over the mean. What ranges compute again, because one process would have it from a
neighbour, is told beside it: more and shorter ranges balance better and compute more.

Usage: python benchmarks/workers.py [--quick] [--tasks mmlu_anatomy,mmlu_virology] [--limit N] [--turns N] [--workers N]
"""

import argparse
import heapq
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from assaymark.engine.trie import plan_trie
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.spans import span_batch
from assaymark.models.workers.ranges import ranges_of
from assaymark.records import LoglikelihoodQuery, Request
from assaymark.runs.plan import render_of
from assaymark.runs.prepare import prepare_run
from benchmarks.bench import add_places, make_models

TASKS = "mmlu_high_school_psychology,mmlu_anatomy,mmlu_virology"
MANY = f"{TASKS},mmlu_professional_law,mmlu_moral_scenarios,mmlu_miscellaneous,mmlu_professional_psychology"
BOUND_NATS, BOUND_RELATIVE = 1e-4, 1e-6


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds that each arrangement took for the same requests."""

    one_process: float
    two_workers: float

    @property
    def ratio(self) -> float:
        """How many times as quick two workers were."""
        return self.one_process / self.two_workers


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly ranges fall on many workers: 1 is even."""

    n_workers: int
    ranges: tuple[float, ...]  # seconds of the processor that each took
    balance: float
    again: float  # tokens computed again at cuts, over those one process would compute


def opened(arguments: argparse.Namespace, *, workers: int, threads: int) -> LocalModel:
    """Return the model, loaded."""
    made = {"pretrained": str(arguments.models / arguments.shape), "dtype": arguments.dtype, "n_threads": threads}
    model = create_model("hf", {**made, "device": "cpu"}, workers=workers)
    if not isinstance(model, LocalModel):
        raise TypeError(type(model).__name__)
    warm = tuple(LoglikelihoodQuery(i, f" d{i}") for i in range(64))
    list(model.answer([Request("warm", 0, "", ("A b c",), warm)]))
    return model


def requests_of(model: LocalModel, tasks: str, arguments: argparse.Namespace) -> list[Request]:
    """Return the requests of these tasks at 5 shots."""
    options: Any = {"num_fewshot": 5, "limit": arguments.limit, "data_dir": str(arguments.data)}
    _, prepared = prepare_run(model, tasks.split(","), options)

    return [request for bound in prepared.bound for request in bound.requests(render_of(model))]


def timed(model: LocalModel, requests: Sequence[Request]) -> tuple[float, dict[tuple[str, int], float]]:
    """Return seconds on the clock, and the log-likelihood of each ask."""
    begin = time.perf_counter()
    outputs = list(model.answer(requests))
    seconds = time.perf_counter() - begin
    return seconds, {(each.request_id, each.ask_index): each.total_nats or 0.0 for each in outputs}


def compared(first: dict[tuple[str, int], float], second: dict[tuple[str, int], float]) -> float:
    """Return the largest difference; end where it is beyond the bound."""
    largest = 0.0
    for key, nats in first.items():
        difference = abs(nats - second[key])
        if difference > BOUND_NATS + BOUND_RELATIVE * abs(nats):
            sys.exit(f"{key}: {nats} with one process, {second[key]} with two workers")
        largest = max(largest, difference)
    return largest


def take_turns(arguments: argparse.Namespace) -> list[Turn]:
    """Time both arrangements by turns on the same requests."""
    if not arguments.turns:
        return []
    alone = opened(arguments, workers=1, threads=2)
    pair = opened(arguments, workers=2, threads=1)
    requests = requests_of(alone, arguments.tasks, arguments)
    turns = []
    for _ in range(arguments.turns):
        (first, result), (two, again) = timed(alone, requests), timed(pair, requests)
        turns.append(Turn(first, two))
        print(
            f"{len(result):,} asks: one process of two threads {first:.2f} s, two workers of one thread {two:.2f} s, "
            f"ratio {turns[-1].ratio:.2f}; largest difference {compared(result, again):.1e} nats",
            flush=True,
        )
    alone.close()
    pair.close()
    return turns


def simulate(arguments: argparse.Namespace) -> Balance:
    """Measure every range alone, and let simulated workers take them."""
    model = opened(arguments, workers=1, threads=1)
    queries = model._reader().read(requests_of(model, arguments.simulated_tasks, arguments))
    spans = span_batch(list({span.key: span for asked in queries for span in asked.spans}.values()))
    parts = ranges_of(spans, arguments.workers, model._token_costs())
    costs = []
    for part in parts:
        subset = spans.subset(part.indices)
        begin = time.process_time()
        for _ in model.engine.queue().add(subset):
            pass
        costs.append(time.process_time() - begin)
    model.close()
    again = sum(part.n_distinct for part in parts) / plan_trie(spans).n_distinct - 1
    return Balance(arguments.workers, tuple(costs), balance_of(costs, arguments.workers), again)


def balance_of(costs: Sequence[float], n_workers: int) -> float:
    """Return the end of the last worker over the mean, where each takes the next range when it is free."""
    ends = [0.0] * n_workers
    for cost in costs:
        heapq.heapreplace(ends, ends[0] + cost)
    return max(ends) * n_workers / sum(costs)


def main() -> None:
    """Print both parts, and keep them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="m25", choices=["m25", "m135"])
    parser.add_argument("--tasks", default=TASKS, help="of the first part")
    parser.add_argument(
        "--simulated_tasks", default=MANY, help="of the second: enough to give every worker some ranges"
    )
    parser.add_argument("--limit", type=int, help="questions of each task (default: all)")
    parser.add_argument("--turns", type=int, default=3, help="of the first part; 0: leave it out")
    parser.add_argument("--workers", type=int, default=64, help="simulated ones")
    add_places(parser)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.limit, arguments.turns, arguments.workers = arguments.limit or 60, 1, 4
    make_models(arguments)
    turns = take_turns(arguments)
    result = simulate(arguments)
    ratio = statistics.median(turn.ratio for turn in turns) if turns else None
    if ratio is not None:
        print(f"two workers of one thread are {ratio:.2f} times as quick as one process of two threads (median)")
    print(
        f"{result.n_workers} workers on {len(result.ranges)} measured ranges, {sum(result.ranges):.1f} s of work: the "
        f"last ends {result.balance - 1:.1%} after the mean; {result.again:.1%} of the tokens are computed again"
    )
    written = {"turns": [asdict(turn) for turn in turns], "ratio": ratio, "balance": asdict(result)}
    (arguments.out / "workers.json").write_text(json.dumps(written, indent=1))


if __name__ == "__main__":
    main()
