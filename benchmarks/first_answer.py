"""How long a run takes from the start of its process to the first answer in the store, beside loading its model alone.

Each try has a home of its own, so nothing is stored yet; the index of task files is warm but in the first. The run is
ended once an answer can be read from its store. With --stored the run is then finished and typed again: what a run
takes that is wholly in the store.

Usage: python benchmarks/first_answer.py MODEL_FOLDER [--tasks mmlu] [--num_fewshot 5] [--limit N] [--times 3]
    [--stored]
"""

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
LOAD = """
import sys, time
from assaymark.models.create import create_model
started = time.perf_counter()
model = create_model("hf", sys.argv[1])
model.tokenizer, model.engine
print(time.perf_counter() - started)
"""
PAUSE_SECONDS = 0.01


def arguments_of(model: Path) -> str:
    """Return the model as --model_args has it."""
    return f"pretrained={model},dtype=float32,device=cpu"


def seconds_to_load(model: Path) -> float:
    """Return what a process takes that only loads the tokenizer and the engine, without starting Python."""
    done = subprocess.run([sys.executable, "-c", LOAD, arguments_of(model)], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def has_answer(store: Path) -> bool:
    """Say whether an answer can be read from the store."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return bool(connection.execute("SELECT 1 FROM outputs LIMIT 1").fetchall())
    return False


def command_of(arguments: argparse.Namespace) -> list[str]:
    """Return the run's command."""
    words = ["--model", "hf", "--model_args", arguments_of(arguments.model), "--tasks", arguments.tasks, "--quiet"]
    limit = [] if arguments.limit is None else ["--limit", str(arguments.limit)]
    return [sys.executable, "-m", "assaymark", "run", *words, "--num_fewshot", str(arguments.num_fewshot), *limit]


def seconds_to_answer(arguments: argparse.Namespace, environment: dict[str, str], store: Path) -> float:
    """Return the time from the start of a run's process to its first answer in the store, and end it."""
    started = time.perf_counter()
    run = subprocess.Popen(command_of(arguments), env=environment, stdout=subprocess.DEVNULL)
    try:
        while not has_answer(store):
            if run.poll() is not None:
                sys.exit(f"the run ended with {run.returncode} before it had an answer")
            time.sleep(PAUSE_SECONDS)
        return time.perf_counter() - started
    finally:
        run.kill()
        run.wait()


def seconds_when_stored(arguments: argparse.Namespace, environment: dict[str, str]) -> float:
    """Return what the run takes once it is wholly in the store."""
    subprocess.run(command_of(arguments), env=environment, check=True, stdout=subprocess.DEVNULL)
    started = time.perf_counter()
    subprocess.run(command_of(arguments), env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print each try, and the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tasks", default="mmlu")
    parser.add_argument("--num_fewshot", type=int, default=5)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--stored", action="store_true")
    arguments = parser.parse_args()
    beside = []
    with tempfile.TemporaryDirectory() as cache:
        for number in range(1, arguments.times + 1):
            with tempfile.TemporaryDirectory() as home:
                places = {"ASSAYMARK_HOME": home, "ASSAYMARK_CACHE": cache, "ASSAYMARK_DATA": str(arguments.data)}
                environment = {**os.environ, **places}
                answered = seconds_to_answer(arguments, environment, Path(home) / "store.sqlite")
                loaded = seconds_to_load(arguments.model)
                beside.append(answered - loaded)
                result = f"first answer {answered:.2f} s, loading alone {loaded:.2f} s: {beside[-1]:.2f} s beside it"
                if arguments.stored:
                    result += f"; wholly stored {seconds_when_stored(arguments, environment):.2f} s"
                print(f"{number}: {result}", flush=True)
    print(f"median beside loading: {statistics.median(beside):.2f} s")


if __name__ == "__main__":
    main()
