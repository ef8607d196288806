"""Our own time per row of an application: a target that does nothing, called for each of 10,000 rows.

python benchmarks/application_speed.py [--rows 10000] [--scorers exact] [--dir DIR]

Prints seconds and processor time of the whole call (reading rows, calls, scores, the store, the summary), each per row
beside what it should stay below, and the same for the second call, which finds everything stored.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import assaymark

AIM_MS = 1.0  # per row
WARM_UP_ROWS = 10  # imports, and what is read once


def nothing(input: str) -> str:  # noqa: A002 - the name by which it is bound
    """Answer."""
    return input


def main() -> None:
    """Measure both calls and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--scorers", default="exact")
    parser.add_argument("--dir", type=Path, default=None, help="where the store is made")
    inputs = parser.parse_args()
    print(f"load before: {' '.join(f'{item:.2f}' for item in os.getloadavg())} on {os.cpu_count()} processors")
    rows = [{"id": f"r{at}", "input": f"question {at}", "expected": f"question {at}"} for at in range(inputs.rows)]
    with tempfile.TemporaryDirectory(dir=inputs.dir) as folder:
        warm_up = str(Path(folder) / "warm.sqlite")
        assaymark.evaluate(nothing, rows[:WARM_UP_ROWS], scorers=inputs.scorers, store=warm_up)
        store = str(Path(folder) / "store.sqlite")
        for what in ("first call", "second call"):
            wall, processor = time.perf_counter(), time.process_time()
            run = assaymark.evaluate(nothing, rows, scorers=inputs.scorers, store=store)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            each, own = 1000 * wall / len(rows), 1000 * processor / len(rows)
            print(f"{what}: {wall:.2f} s, {each:.3f} ms per row ({own:.3f} of processor time); aim: {AIM_MS:g} ms")
        if inputs.scorers == "exact" and run.estimate("rows", "exact").value != 1.0:
            raise SystemExit("the scores are wrong")


if __name__ == "__main__":
    main()
