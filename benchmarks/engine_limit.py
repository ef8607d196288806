"""How near the engine comes to the machine's limit: the share of the time that bare matrix products would take.

    python -m benchmarks.engine_limit --shapes m25 m135 --dtype float32 --threads 2

The limit of a load is (distinct tokens x 2 x body parameters + attention + asked head rows) over the rate of matrix
products, measured in the same run, in the same dtype and in the model's own shapes, by the faster of the two
libraries torch has at hand. Models are random and loads are synthetic, of the proportions real benchmarks have, so
nothing has to be downloaded. With one thread, time is the thread's own CPU time, which other programs disturb less.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from assaymark.engine import projections
from assaymark.engine.engine import Engine
from assaymark.engine.options import DTypeName, EngineSettings
from assaymark.engine.spans import SpanBatch
from assaymark.engine.trie import TriePlan

#        hidden layers heads kv  ffn  vocabulary
SHAPES = {
    "m25": (384, 8, 6, 2, 1024, 32000),
    "m135": (576, 30, 9, 3, 1536, 49152),
    "llama1b": (2048, 16, 32, 8, 8192, 128256),
}


@dataclass(frozen=True, slots=True)
class Load:
    """Questions after a shared few-shot block, with choices after each question."""

    name: str
    n_questions: int
    shot_tokens: int
    question_tokens: int
    n_choices: int
    choice_tokens: int


LOADS = (
    Load("letters, 5 shots", 30, 500, 60, 4, 1),
    Load("endings, 10 shots", 12, 900, 60, 4, 30),
    Load("pairs, no shots", 60, 1, 20, 2, 20),
    Load("rolling", 3, 1, 1, 1, 900),
)


def spans_of(load: Load, vocab: int) -> SpanBatch:
    """Return the load in random tokens."""
    generator = np.random.default_rng(0)
    shots = generator.integers(2, vocab, load.shot_tokens).tolist()
    sequences = []
    for _ in range(load.n_questions):
        context = shots + generator.integers(2, vocab, load.question_tokens).tolist()
        sequences += [
            context + generator.integers(2, vocab, load.choice_tokens).tolist() for _ in range(load.n_choices)
        ]
    return SpanBatch.from_lists(sequences, [load.choice_tokens] * len(sequences))


def build_model(shape: str, dtype: str) -> Any:
    """Return a random Llama of this shape."""
    hidden, layers, heads, groups, inner, vocab = SHAPES[shape]
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.05,
    )
    return LlamaForCausalLM(config).to(getattr(torch, dtype)).eval()


def needed_operations(plan: TriePlan, shape: str) -> float:
    """Return the floating-point operations that scoring a plan cannot do without."""
    hidden, layers, heads, groups, inner, vocab = SHAPES[shape]
    body = layers * (2 * hidden * hidden + 2 * hidden * hidden * groups // heads + 3 * hidden * inner)
    return 2.0 * plan.n_distinct * body + 4.0 * layers * hidden * plan.attended + 2.0 * plan.n_rows * hidden * vocab


def best_seconds(work: Callable[[], Any], clock: Callable[[], float], repetitions: int = 6) -> float:
    """Return the least time that one call took."""
    times = []
    for _ in range(repetitions):
        started = clock()
        work()
        times.append(clock() - started)
    return min(times)


def layer_products(shape: str) -> list[tuple[int, int]]:
    """Return (width in, width out) of each matrix product in one layer."""
    hidden, _, heads, groups, inner, _ = SHAPES[shape]
    narrow = hidden * groups // heads
    return [(hidden, hidden)] * 2 + [(hidden, narrow)] * 2 + [(hidden, inner)] * 2 + [(inner, hidden)]


@torch.inference_mode()
def product_rate(shape: str, dtype: str, clock: Callable[[], float], n_tokens: int = 1024) -> float:
    """Return operations per second over the products of one layer, each by the faster library."""
    seconds = 0.0
    for n_in, n_out in layer_products(shape):
        x = torch.randn(n_tokens, n_in).to(getattr(torch, dtype))
        w = torch.randn(n_out, n_in).to(x.dtype)
        plain = best_seconds(lambda x=x, w=w: torch.nn.functional.linear(x, w), clock)  # type: ignore[misc]
        other = best_seconds(lambda x=x, w=w: projections.project(x, w, None), clock)  # type: ignore[misc]
        seconds += min(plain, other)
    return 2.0 * n_tokens * sum(a * b for a, b in layer_products(shape)) / seconds


def measure(shape: str, dtype: DTypeName, n_threads: int, repetitions: int) -> None:
    """Print one line for each load."""
    clock = time.thread_time if n_threads == 1 else time.perf_counter
    engine = Engine.load(build_model(shape, dtype), settings=EngineSettings(n_threads=n_threads))
    for load in LOADS:
        spans = spans_of(load, engine.info.vocab_size)
        plan = engine.plan(spans)
        operations = needed_operations(plan, shape)
        rates, times = [product_rate(shape, dtype, clock)], []
        for _ in range(repetitions):
            started = clock()
            n_results = sum(1 for _ in engine.score(spans))
            times.append(clock() - started)
            rates.append(product_rate(shape, dtype, clock))
            if n_results != len(spans):
                raise SystemExit(f"{n_results} results for {len(spans)} spans")
        limit = operations / max(rates)
        print(
            f"{shape:<6}{dtype:<10}{load.name:<20}asked {plan.n_tokens:>7,} distinct {plan.n_distinct:>6,} "
            f"rows {plan.n_rows:>5,} {max(rates) / 1e9:>5.0f} GFLOP/s  limit {limit:>6.2f} s  "
            f"took {min(times):>6.2f} s  share {limit / min(times):.0%}",
            flush=True,
        )


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", choices=sorted(SHAPES), default=["m25", "m135"])
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} threads")
    for shape in arguments.shapes:
        measure(shape, arguments.dtype, arguments.threads, arguments.repetitions)


if __name__ == "__main__":
    main()
