"""What a short run costs besides its questions: processor and wall time of whole processes, alternating.

- bare: `import torch, transformers`
- Llama: the same, and the classes that loading any Llama needs
- run: `assaymark run --tasks demo_facts --limit 2` of a small model with an empty store; the first one, which fills the
  cache folder, is not counted
- run, warm: the same with the process of `assaymark warm start`, whose own start is printed first; the processor time
  is the client's alone, since the process that runs the command is not its child

Usage: python benchmarks/start_up.py [--model DIR] [--n 5] [--source DIR: `src` of another version, run beside]
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BARE = "import torch, transformers"
LLAMA = (
    "import gc; gc.set_threshold(200_000, 30, 30)\n"
    f"{BARE}\nfrom transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM"
)


def timed(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Run a command; return its processor seconds and its wall seconds. Raises: RuntimeError if it fails."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ended.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Measure and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "src" / "assaymark" / "library" / "demo_models" / "small"))
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--source", action="append", default=[], help="folder src of another version")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "ASSAYMARK_HOME": folder, "OMP_NUM_THREADS": "1"}
        words = ["-m", "assaymark", "run", "--model_args", f"pretrained={chosen.model}", "--tasks", "demo_facts"]
        times: dict[str, list[tuple[float, float]]] = {}
        own = {**environment, "PYTHONPATH": str(ROOT / "src")}
        warm = [sys.executable, "-m", "assaymark", "warm"]
        _, seconds = timed([*warm, "start", "--model_args", f"pretrained={chosen.model}"], own)
        print(f"{'warm start':40} wall {seconds:.2f} s")
        for turn in range(chosen.n + 1):
            for name, source in (("bare", ""), ("Llama", ""), *((f"run {each}", each) for each in
                                 (*chosen.source, str(ROOT / "src"))), ("run, warm", str(ROOT / "src"))):  # fmt: skip
                store = ["--limit", "2", "--quiet", "--store", f"{folder}/{turn}-{abs(hash(name))}.sqlite"]
                store += [] if name == "run, warm" else ["--no_warm"] if source == str(ROOT / "src") else []
                code = {"bare": ["-c", BARE], "Llama": ["-c", LLAMA]}.get(name, [*words, *store])
                own = {**environment, "PYTHONPATH": source} if source else environment
                taken = timed([sys.executable, *code], own)
                if turn:
                    times.setdefault(name, []).append(taken)
        timed([*warm, "stop"], own)
        for name, each in times.items():
            processor, wall = (statistics.median(part) for part in zip(*each, strict=True))
            print(f"{name:40} processor {processor:.2f} s, wall {wall:.2f} s")


if __name__ == "__main__":
    main()
