"""Run lm-evaluation-harness on a real model, with and without its chat template, and write what it answered.

Usage: python -m tests.parity.run_lm_eval_real SPEC.json OUT.json. Greedy, float32, with lm-eval's cache of logits off.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.offline import use_local_data


def main(spec_path: str, out_path: str) -> None:
    """Evaluate every case with the model."""
    spec = json.loads(Path(spec_path).read_text())
    use_local_data(Path(spec["data"]))
    import lm_eval.tasks
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    torch.set_num_threads(1)
    folders: list[str | Path] = [Path(lm_eval.tasks.__file__).parent / folder for folder in spec["folders"]]
    manager = TaskManager(include_path=folders, include_defaults=False)
    results: dict[str, Any] = {}
    for name, (path, cases) in spec["models"].items():
        model = HFLM(pretrained=path, dtype="float32", device="cpu", batch_size=1, logits_cache=False)
        results[name] = []
        for task, shots, limit, is_chat in cases:
            result = simple_evaluate(
                model=model, tasks=[task], num_fewshot=shots, limit=limit, task_manager=manager, log_samples=True,
                bootstrap_iters=0, gen_kwargs=spec["gen_kwargs"], verbosity="ERROR", apply_chat_template=is_chat,
                fewshot_as_multiturn=is_chat,
            )  # fmt: skip
            samples = [
                {"filter": s["filter"], "doc_id": s["doc_id"], "prompt_hash": s["prompt_hash"],
                 "resps": [each[0] for each in s["resps"]]}
                for s in result["samples"][task]
            ]  # fmt: skip
            results[name].append({"results": result["results"][task], "samples": samples})
    Path(out_path).write_text(json.dumps(results, default=str))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
