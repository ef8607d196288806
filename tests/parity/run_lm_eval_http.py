"""Run lm-evaluation-harness's own client of OpenAI-compatible servers on real rows and write what it got.

Usage: python -m tests.parity.run_lm_eval_http SPEC.json OUT.json. The spec names the data, the model's arguments and
the cases. A process of its own, so that neither its warnings nor its threads meet ours.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.offline import use_local_data


def main(spec_path: str, out_path: str) -> None:
    """Evaluate every case."""
    spec = json.loads(Path(spec_path).read_text())
    use_local_data(Path(spec["data"]))
    import lm_eval.tasks
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    folders: list[str | Path] = [Path(lm_eval.tasks.__file__).parent / folder for folder in spec["folders"]]
    manager = TaskManager(include_path=folders, include_defaults=False)
    results: dict[str, Any] = {}
    for task, shots, limit in spec["cases"]:
        result = simple_evaluate(
            model="local-completions", model_args=spec["model_args"], tasks=[task], num_fewshot=shots, limit=limit,
            task_manager=manager, log_samples=True, bootstrap_iters=0, gen_kwargs=spec["gen_kwargs"], verbosity="ERROR",
        )  # fmt: skip
        results[task] = [
            {"filter": s["filter"], "doc_id": s["doc_id"], "prompt_hash": s["prompt_hash"],
             "resps": [each[0] for each in s["resps"]], "metrics": {name: s[name] for name in s["metrics"]}}
            for s in result["samples"][task]
        ]  # fmt: skip
    Path(out_path).write_text(json.dumps(results, default=str))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
