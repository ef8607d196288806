"""`assaymark lm-eval run` with `--model assaymark` beside `--model hf`: lm-eval's own command line, start to end.

Each model is a process of its own on one thread, and seconds are of the processor, so that whatever else the machine
does falls on neither. What is timed is all `loglikelihood` calls, and the whole command with imports, loading and
prompts. The results must be equal.

Usage: ASSAYMARK_THREADS=1 python benchmarks/drop_in_speed.py hf|assaymark MODEL_FOLDER DATA_FOLDER OUT.json [--times 5]
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.offline import use_local_data

now = time.process_time
# task -> shots, samples
LOADS = {
    "mmlu_high_school_geography": (5, 20),
    "mmlu_astronomy": (5, 20),
    "arc_challenge": (25, 4),
    "hellaswag": (10, 4),
    "winogrande": (5, 20),
}
FOLDERS = ("arc", "hellaswag", "winogrande", "mmlu/default")


def main() -> None:
    """Run every load and write seconds and results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["hf", "assaymark"])
    for name in ("model", "data", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--times", type=int, default=1, help="so many times the samples")
    arguments = parser.parse_args()
    use_local_data(arguments.data)
    import lm_eval.tasks
    import torch

    import assaymark.interop.lm_eval_adapter  # noqa: F401 - registers the model

    torch.set_num_threads(1)
    spent = timed(arguments.kind)
    own = Path(lm_eval.tasks.__file__).parent
    manager = lm_eval.tasks.TaskManager(include_path=[str(own / name) for name in FOLDERS], include_defaults=False)
    model = lm_eval.api.registry.get_model(arguments.kind).create_from_arg_obj(
        {"pretrained": str(arguments.model), "dtype": "float32"}, {"device": "cpu", "batch_size": 8}
    )
    results: dict[str, Any] = {}
    for task, (shots, limit) in LOADS.items():
        before = spent["seconds"]
        result = lm_eval.simple_evaluate(
            model=model, tasks=[task], num_fewshot=shots, limit=limit * arguments.times, task_manager=manager,
            bootstrap_iters=0, log_samples=False,
        )  # fmt: skip
        results[task] = {"seconds": spent["seconds"] - before, "results": result["results"][task]}
        print(f"{arguments.kind:10} {task:28} {results[task]['seconds']:7.2f} s", flush=True)
    total = {"scoring": spent["seconds"], "command": now()}
    print(f"{arguments.kind:10} scoring {total['scoring']:.2f} s, whole command {total['command']:.2f} s")
    arguments.out.write_text(json.dumps({**total, "loads": results}, default=str))


def timed(kind: str) -> dict[str, float]:
    """Add up the seconds that the model's `loglikelihood` takes."""
    import lm_eval.api.registry

    made = lm_eval.api.registry.get_model(kind)
    plain = made.loglikelihood
    spent = {"seconds": 0.0}

    def loglikelihood(self: Any, *given: Any, **named: Any) -> Any:
        start = now()
        try:
            return plain(self, *given, **named)
        finally:
            spent["seconds"] += now() - start

    made.loglikelihood = loglikelihood
    return spent


if __name__ == "__main__":
    main()
