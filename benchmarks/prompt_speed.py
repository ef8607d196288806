"""How fast prompts are built: a whole task of ours beside lm-eval's first rows, in one process.

    python benchmarks/prompt_speed.py DATA [--task arc_challenge] [--num_fewshot 25] [--n 40]

DATA is a folder with the task's rows, as `--data_dir` takes it. Processor seconds for each sample.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.tasks import oracle

from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind


def main() -> None:
    """Measure both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--task", default="arc_challenge")
    parser.add_argument("--num_fewshot", type=int, default=25)
    parser.add_argument("--n", type=int, default=40, help="samples of lm-eval's")
    chosen = parser.parse_args()
    (task,) = Catalog.open().select([f"lm-eval:{chosen.task}"]).tasks
    theirs = oracle.make_task(task.source, chosen.data)
    start = time.process_time()
    n_theirs = len(oracle.prompts_of(theirs, chosen.num_fewshot, chosen.n))
    their_seconds = (time.process_time() - start) / n_theirs
    bound = bind(task, BindOptions(num_fewshot=chosen.num_fewshot, data_dir=chosen.data))
    start = time.process_time()
    n_ours = sum(1 for _ in bound.requests())
    our_seconds = (time.process_time() - start) / n_ours
    print(f"lm-eval: {1000 * their_seconds:.2f} ms a sample, of {n_theirs}")
    print(f"Assaymark: {1000 * our_seconds:.2f} ms a sample, of {n_ours}; {their_seconds / our_seconds:.0f}x")


if __name__ == "__main__":
    main()
