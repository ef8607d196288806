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


def by_transformers(spec: dict[str, Any]) -> Any:
    """Return lm-eval's model of its HF backend."""
    import torch
    from lm_eval.models.huggingface import HFLM

    torch.set_num_threads(spec["threads"])
    return HFLM(pretrained=spec["model"], dtype=spec["dtype"], device=spec["device"], batch_size=spec["batch_size"],
                logits_cache=spec["logits_cache"])  # fmt: skip


def by_vllm(spec: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """Return lm-eval's model of its vLLM backend, and the tokens that vLLM will count."""
    import importlib.metadata

    import vllm
    from vllm.platforms import current_platform

    if current_platform.is_cpu():  # the package has another name there, which lm-eval does not look for
        metadata: Any = importlib.metadata
        version = metadata.version
        metadata.version = lambda name: str(vllm.__version__) if name == "vllm" else version(name)
    from lm_eval.models.vllm_causallms import VLLM

    from benchmarks.vllm_speed import count_tokens

    model = VLLM(pretrained=spec["model"], dtype=spec["dtype"], **spec["vllm"])
    warm = vllm.SamplingParams(max_tokens=1, prompt_logprobs=1)
    model.model.generate([{"prompt_token_ids": [1, 2, 3]}], warm, use_tqdm=False)
    return model, count_tokens(vllm.LLM)


def main(spec_path: str) -> None:
    """Score the load that the spec file names."""
    spec = json.loads(Path(spec_path).read_text())
    use_local_data(Path(spec["data"]))
    instances, build_seconds = build(spec["tasks"], spec["num_fewshot"], spec["limit"])
    model, vllm_tokens = by_vllm(spec) if "vllm" in spec else (by_transformers(spec), None)
    for each in instances:
        if each.request_type == "generate_until":
            each.args[1]["max_gen_toks"] = spec["max_gen_toks"]
    begin = time.perf_counter()
    answers: list[Any] = [None] * len(instances)
    for kind in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
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
                "vllm_tokens": vllm_tokens,
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
