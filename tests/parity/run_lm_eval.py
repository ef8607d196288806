"""Run lm-evaluation-harness on real rows and write what it answered, sample by sample.

Usage: python -m tests.parity.run_lm_eval SPEC.json OUT.json. The spec names the data and each model with its cases. A
process of its own, so that neither its warnings nor its threads meet ours.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.offline import use_local_data


def main(spec_path: str, out_path: str) -> None:
    """Evaluate every case with every model."""
    spec = json.loads(Path(spec_path).read_text())
    use_local_data(Path(spec["data"]))
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    torch.set_num_threads(1)
    manager = TaskManager()
    results: dict[str, Any] = {}
    for name, (path, cases) in spec["models"].items():
        model = HFLM(pretrained=path, dtype="float32", device="cpu", logits_cache=False,
                     batch_size=1 if "rwkv" in name else 8)  # fmt: skip
        results[name] = {}
        for task, shots, limit in cases:
            try:
                result = simple_evaluate(
                    model=model, tasks=[task], num_fewshot=shots, limit=limit, task_manager=manager, log_samples=True,
                    bootstrap_iters=spec["bootstrap_iters"], verbosity="ERROR",
                )  # fmt: skip
            except AssertionError:  # a continuation longer than the model ends lm-eval's whole run
                results[name][task] = None
                continue
            samples = [
                {"doc_id": s["doc_id"], "prompt_hash": s["prompt_hash"], "resps": s["resps"],
                 **{m: s[m] for m in s["metrics"] if isinstance(s[m], int | float)}}
                for s in result["samples"][task]
            ]  # fmt: skip
            results[name][task] = {"results": result["results"][task], "samples": samples}
    Path(out_path).write_text(json.dumps(results, default=str))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
