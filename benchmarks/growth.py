"""Time against the number of samples: cost must grow with distinct tokens, not with samples.

python benchmarks/growth.py [--samples 10,20,40,80] [--shape m25] [--load mmlu] [--data DIR] [--out DIR]
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench import HEADER, add_places, line_of, make_models, measure
from benchmarks.loads import LOADS


def main() -> None:
    """Measure one load at several sizes, ours and lm-eval's in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", default="10,20,40,80")
    parser.add_argument("--shape", default="m25")
    parser.add_argument("--load", default="mmlu", choices=[load.name for load in LOADS])
    add_places(parser)
    arguments = parser.parse_args()
    make_models(arguments)
    (load,) = (load for load in LOADS if load.name == arguments.load)
    load = replace(load, tasks=load.tasks[:1])
    print(HEADER, flush=True)
    rows = []
    for n in (int(text) for text in arguments.samples.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(replace(load, samples={arguments.shape: n}), arguments.shape, arguments, Path(folder))
        print(line_of(row), flush=True)
        rows.append(asdict(row))
    (arguments.out / "growth.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
