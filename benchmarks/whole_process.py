"""Both command lines from start to end: the seconds of lm-evaluation-harness's beside ours, and their results.

Each starts with an empty store and writes lm-eval's results file; the printed table has the time with all imports, the
loading of the data and the storing of the answers. Ours has, as after a user's first run, the model's check and the
index of tasks in its cache: a run of two questions, which is not timed, fills it. `--limit` is per task, as in both.

With `--warm` ours is timed a second time through `assaymark warm`, which is started before and stopped after that.

Usage: python benchmarks/whole_process.py [--tasks mmlu] [--num_fewshot 5] [--limit N] [--model DIR] [--batch_size 8]
    [--warm]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PROGRAM = str(Path(sys.executable).with_name("assaymark"))


@dataclass(frozen=True, slots=True)
class Whole:
    """One command. Units: seconds; processor seconds of all its threads."""

    seconds: float
    processor_seconds: float
    results: dict[str, dict[str, Any]]  # task or group -> lm-eval's results


def both(shared: Sequence[str], model_args: str, data: Path, folder: Path, batch_size: int) -> tuple[Whole, Whole]:
    """Run lm-eval's command and ours in turn with these shared options.

    Raises: RuntimeError with the end of the output of one that fails.
    """
    theirs = [sys.executable, str(SHARED / "tools" / "lm_eval_offline.py"), "run", "--model", "hf", "--model_args",
              model_args, "--batch_size", str(batch_size), *shared]  # fmt: skip
    own_args = model_args.replace(",logits_cache=False", "")  # ours has no such cache
    ours = [PROGRAM, "run", "--no-warm", "--model_args", own_args, "--data_dir", str(data), "--quiet", *shared]
    environment = {**os.environ, "ASSAYMARK_HOME": str(folder / "home")}
    first = [*ours, "--store", str(folder / "first.sqlite"), "--limit", "2"]
    subprocess.run(first, capture_output=True, check=True, env=environment)
    own = [*ours, "--store", str(folder / "store.sqlite")]
    return _timed(theirs, folder, folder / "lm_eval.json"), _timed(own, folder, folder / "ours.json", environment)


def warm(shared: Sequence[str], model_args: str, data: Path, folder: Path) -> Whole:
    """Run our command through a warm process, after `both`. It is no child: its processor time is not counted.

    Raises: RuntimeError with the end of the output of one that fails.
    """
    environment = {**os.environ, "ASSAYMARK_HOME": str(folder / "home")}
    ours = [PROGRAM, "run", "--model_args", model_args, "--store", str(folder / "warm.sqlite"), "--data_dir", str(data),
            "--quiet", *shared]  # fmt: skip
    subprocess.run([PROGRAM, "warm", "start"], capture_output=True, check=True, env=environment)
    try:
        return _timed(ours, folder, folder / "warm.json", environment)
    finally:
        subprocess.run([PROGRAM, "warm", "stop"], capture_output=True, check=False, env=environment)


def _timed(command: Sequence[str], folder: Path, output: Path, environment: dict[str, str] | None = None) -> Whole:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run([*command, "--output_path", str(output)], capture_output=True, text=True, check=False,
                          cwd=folder, env=environment)  # fmt: skip
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    (written,) = folder.glob(f"{output.stem}*.json")
    return Whole(seconds, processor, json.loads(written.read_text())["results"])


def differing(theirs: Whole, ours: Whole) -> list[str]:
    """Return a line for each number that both have and that differs by more than 1e-9."""
    lines = []
    for task, entry in theirs.results.items():
        for name, value in entry.items():
            mine = ours.results.get(task, {}).get(name)
            if "," in name and "stderr" not in name and isinstance(value, float) and abs(value - (mine or 0.0)) > 1e-9:
                lines.append(f"{task} {name}: {value} and {mine}")
    return lines


def main() -> int:
    """Time both command lines and compare their results; exit code 1 where a number differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="mmlu")
    parser.add_argument("--num_fewshot", type=int, default=5)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--model", type=Path, default=Path("/tmp/bench_models/m25"))
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--warm", action="store_true", help="also time ours through a warm process")
    inputs = parser.parse_args()
    shared = ["--tasks", inputs.tasks, "--num_fewshot", str(inputs.num_fewshot), "--device", "cpu"]
    shared += ["--limit", str(inputs.limit)] if inputs.limit else []
    model_args = f"pretrained={inputs.model},dtype=float32"
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = both(shared, model_args, inputs.data, Path(folder), inputs.batch_size)
        forked = warm(shared, model_args, inputs.data, Path(folder)) if inputs.warm else None
    print(f"lm-eval {theirs.seconds:.1f} s ({theirs.processor_seconds:.1f} s of processor time)")
    print(f"ours    {ours.seconds:.1f} s ({ours.processor_seconds:.1f}): {theirs.seconds / ours.seconds:.1f}x")
    wrong = differing(theirs, ours)
    if forked is not None:
        print(f"warm    {forked.seconds:.1f} s: {theirs.seconds / forked.seconds:.1f}x")
        wrong += differing(theirs, forked)
    print("\n".join(wrong) or f"all numbers of {len(theirs.results)} tasks and groups are equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
