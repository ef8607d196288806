"""A model of Llama-3.2-1B's shape on a GPU: ours beside lm-evaluation-harness's HF backend at its best batch size.

    python benchmarks/gpu.py [--loads mmlu,hellaswag] [--batch_sizes 8,32,64] [--dtype bfloat16] [--device cuda]

Random weights, real rows, the very same requests. The share of the limit is what the load cannot do without (see
`benchmarks.engine_limit`) over the rate of bare matrix products, measured on the same device in the same run. With
`--device cpu --shape m25` it runs anywhere, which shows that it works and nothing more.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from assaymark.engine.trie import TriePlan
from benchmarks.bench import add_places, child, compare, make_models
from benchmarks.engine_limit import SHAPES, layer_products, needed_operations
from benchmarks.loads import LOADS, Load

SAMPLES = 400  # of each task, unless --quick
HEADER = (
    f"{'load':<15}{'samples':>8}{'asked':>11}{'distinct':>10}{'batch':>7}{'lm-eval s':>11}{'ours s':>9}{'ratio':>8}"
    f"{'of limit':>10}{'GB':>14}{'max diff':>10}"
)


def write_model(folder: Path, shape: str, tokenizer_from: Path) -> None:
    """Write a random Llama of this shape, with the tokenizer of another folder, if it is not there yet."""
    if (folder / "config.json").is_file():
        return
    from transformers import AutoTokenizer

    from benchmarks.engine_limit import build_model

    build_model(shape, "bfloat16").save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer_from).save_pretrained(folder)


@torch.inference_mode()
def rate_on(device: str, shape: str, dtype: str, n_tokens: int = 8192) -> float:
    """Return operations per second of one layer's bare products on a device, the best of some repetitions."""
    pairs = [
        (torch.randn(n_tokens, n_in, device=device).to(getattr(torch, dtype)),
         torch.randn(n_in, n_out, device=device).to(getattr(torch, dtype)))
        for n_in, n_out in layer_products(shape)
    ]  # fmt: skip
    best = float("inf")
    for _ in range(10):
        _finish(device)
        begin = time.perf_counter()
        for left, right in pairs:
            left @ right
        _finish(device)
        best = min(best, time.perf_counter() - begin)
    return 2.0 * n_tokens * sum(a * b for a, b in layer_products(shape)) / best


def _finish(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def measure(load: Load, model: Path, arguments: argparse.Namespace, folder: Path) -> str:
    """Return the printed row of one load."""
    spec: dict[str, Any] = {
        "tasks": list(load.tasks), "num_fewshot": load.num_fewshot, "dtype": arguments.dtype,
        "limit": load.quick["m135"] if arguments.quick else SAMPLES, "device": arguments.device,
        "threads": torch.get_num_threads(), "model": str(model), "data": str(arguments.data), "logits_cache": False,
    }  # fmt: skip
    theirs = {
        size: child("score_lm_eval", {**spec, "batch_size": size}, folder)
        for size in map(int, arguments.batch_sizes.split(","))
    }
    best = min(theirs, key=lambda size: theirs[size]["seconds"])
    ours = child("score_ours", {**spec, "requests": str(folder / "score_lm_eval.json")}, folder)
    largest, _ = compare(theirs[best], ours)
    limit = needed_operations(TriePlan(**ours["needed"]), arguments.shape) / arguments.rate
    samples = len({(each[0], each[1]) for each in theirs[best]["requests"]})
    their_s, our_s = theirs[best]["seconds"], ours["seconds"]
    return (
        f"{load.name:<15}{samples:>8}{ours['tokens_asked']:>11,}{ours['tokens_distinct']:>10,}{best:>7}"
        f"{their_s:>11.1f}{our_s:>9.2f}{their_s / our_s:>7.1f}x{limit / our_s:>9.0%} "
        f"{theirs[best]['device_peak_bytes'] / 1e9:>6.1f}/{ours['device_peak_bytes'] / 1e9:<6.1f}{largest:>10.1e}"
    )


def main() -> int:
    """Print one row for each load; in bfloat16 the largest difference is the kernels' own rounding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="llama1b", choices=sorted(SHAPES))
    parser.add_argument("--loads", default="mmlu,truthfulqa,arc_challenge,hellaswag,bbh_letters,winogrande,piqa")
    parser.add_argument("--batch_sizes", default="8,32,64", help="lm-eval's; the quickest one counts")
    parser.add_argument("--device", default="cuda")
    add_places(parser)
    parser.set_defaults(dtype="bfloat16")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit(
            f"no GPU here: torch {torch.__version__} finds no CUDA device; --device cpu --shape m25 tries the script"
        )
    make_models(arguments)
    model = arguments.models / arguments.shape
    write_model(model, arguments.shape, arguments.models / "m25")
    arguments.rate = rate_on(arguments.device, arguments.shape, arguments.dtype)
    name = torch.cuda.get_device_name(arguments.device) if arguments.device.startswith("cuda") else "the CPU"
    print(
        f"{name}, {arguments.rate / 1e12:.1f} TFLOP/s in {arguments.dtype}, torch {torch.__version__}\n{HEADER}",
        flush=True,
    )
    lines = []
    for load in (each for each in LOADS if each.name in arguments.loads.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            lines.append(measure(load, model, arguments, Path(folder)))
            print(lines[-1], flush=True)
    (arguments.out / "gpu.json").write_text(
        json.dumps({"device": name, "rate": arguments.rate, "rows": lines}, indent=1)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
