"""Peak memory and time of reading a CSV file of a million rows as a task, each step in a process of its own.

    python benchmarks/csv_memory.py [--rows 1000000]

Steps: the imports alone; the columns chosen and all lines checked; all rows passed through once; `plan --limit 100`;
`run --limit 100` with the fake model; and, to compare with, the file read as a whole by pyarrow and as dictionaries.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETUP = """
import resource, sys, time
from pathlib import Path
import pyarrow.csv
from assaymark.cli.main import main
from assaymark.datasets import csv_files
from assaymark.datasets.files import read_files
from assaymark.tasks.own_rows import task_from_rows
path = Path(sys.argv[1])
began = time.perf_counter()
"""
REPORT = """
print("done", time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
STEPS = {
    "imports alone": "",
    "columns chosen, every line checked": "task_from_rows(path)",
    "all rows passed through once": "print(sum(len(row['question']) for row in read_files([path]).passing()))",
    "plan --limit 100": "main(['plan', '--model', 'fake', '--tasks', sys.argv[1], '--limit', '100'])",
    "run --limit 100 (fake model)": "main(['run', '--model', 'fake', '--tasks', sys.argv[1], '--limit', '100', '-q'])",
    "whole file in memory (pyarrow)": "csv_files.LARGE = 1 << 40; read_files([path])",
    "whole file as dictionaries": "csv_files.LARGE = 1 << 40; rows = read_files([path]).to_list()",
}
KIB = 1 if sys.platform == "darwin" else 1024  # bytes in a unit of ru_maxrss


def write(path: Path, n_rows: int) -> None:
    """Write a file of questions of about 125 characters."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write("question,A,B,C,D,answer\n")
        for i in range(n_rows):
            options = ",".join(f"the {word} option of {i}" for word in ("first", "second", "third", "fourth"))
            stream.write(f'"What is, of all numbers, the one called {i}?",{options},{"ABCD"[i % 4]}\n')


def measured(code: str, path: Path, home: Path) -> tuple[float, float]:
    """Return seconds and peak memory in MB of a step in a new process."""
    command = [sys.executable, "-c", f"{SETUP}{code}{REPORT}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"ASSAYMARK_HOME": str(home)})
    _, seconds, peak = next(line for line in done.stderr.splitlines() if line.startswith("done ")).split()
    return float(seconds), int(peak) * KIB / 1e6


def main() -> None:
    """Print one line per step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n_rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "questions.csv"
        write(path, n_rows)
        size = path.stat().st_size / 1e6
        sys.stdout.write(f"{n_rows:,} rows, {size:.0f} MB; {time.strftime('%Y-%m-%d')}\n")
        measured("main(['ls', 'tasks', 'arc_easy'])", path, Path(folder) / "home")  # makes the index of task files
        for name, code in STEPS.items():
            seconds, peak = measured(code, path, Path(folder) / "home")
            sys.stdout.write(f"{name:<36} {seconds:6.1f} s  {peak:7.0f} MB\n")
            sys.stdout.flush()
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * KIB / 1e6
    sys.stdout.write(f"largest of all: {children:.0f} MB\n")


if __name__ == "__main__":
    main()
