"""Child process: lm-evaluation-harness scores a load; times and answers go to a file.

The requests it built are written too, so that ours answers the very same texts.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.offline import use_local_data
from benchmarks.peak_memory import device_peak_bytes, host_peak_bytes


def build(tasks: list[str], num_fewshot: int, limit: int | None) -> tuple[list[Any], float]:
    """Return lm-eval's instances of all tasks, and the seconds that building prompts took."""
    from lm_eval.tasks import TaskManager

    loaded = TaskManager().load(tasks)["tasks"]
    begin, instances = time.perf_counter(), []
    for task in loaded.values():
        if task.get_config("num_fewshot") != 0:
            task.set_config(key="num_fewshot", value=num_fewshot)
        task.set_fewshot_seed(seed=1234)
        task.build_all_requests(limit=limit, rank=0, world_size=1, tokenizer_name="", fewshot_as_multiturn=False)
        instances += task.instances
    return instances, time.perf_counter() - begin


def main(spec_path: str) -> None:
    """Score the load that the spec file names."""
    spec = json.loads(Path(spec_path).read_text())
    use_local_data(Path(spec["data"]))
    import torch
    from lm_eval.models.huggingface import HFLM

    torch.set_num_threads(spec["threads"])
    instances, build_seconds = build(spec["tasks"], spec["num_fewshot"], spec["limit"])
    model = HFLM(pretrained=spec["model"], dtype=spec["dtype"], device=spec["device"], batch_size=spec["batch_size"],
                 logits_cache=spec["logits_cache"])  # fmt: skip
    begin = time.perf_counter()
    answers: list[Any] = [None] * len(instances)
    for kind in ("loglikelihood", "loglikelihood_rolling"):
        chosen = [i for i, entry in enumerate(instances) if (entry.request_type == kind)]
        if chosen:
            for i, answer in zip(chosen, getattr(model, kind)([instances[i] for i in chosen]), strict=True):
                answers[i] = answer
    seconds = time.perf_counter() - begin
    Path(spec["out"]).write_text(
        json.dumps(
            {
                "seconds": seconds,
                "build_seconds": build_seconds,
                "peak_bytes": host_peak_bytes(),
                "device_peak_bytes": device_peak_bytes(spec["device"]),
                "requests": [
                    [instance.task_name, instance.doc_id, instance.request_type, *instance.args]
                    for instance in instances
                ],
                "answers": [list(a) if isinstance(a, tuple) else [a, None] for a in answers],
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
