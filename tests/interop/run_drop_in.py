"""Run lm-eval with its `hf` model and with ours on the same requests, and write both results.

Usage: python -m tests.interop.run_drop_in SHARED OUT.json. A process of its own, as lm-eval's warnings, logging and
replaced data loader are not for the other tests.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.offline import use_local_data

TASKS = (
    *("arc_easy", "arc_challenge", "piqa", "hellaswag", "winogrande", "truthfulqa_mc1", "lambada_openai", "sciq"),
    *("openbookqa", "truthfulqa_mc2", "wikitext"),
)
FOLDERS = ("arc", "piqa", "hellaswag", "winogrande", "lambada", "sciq", "openbookqa", "truthfulqa")
GENERATED = ("gsm8k",)
# name -> model, tasks, settings
CASES: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "plain": ("stories260K", TASKS, {"limit": 3}),
    "shots": ("craftgpt-5m", ("arc_easy", "lambada_openai"), {"limit": 4, "num_fewshot": 2}),
    "chat": (
        "craftgpt-5m",
        ("arc_easy", "sciq"),
        {
            "limit": 4,
            "num_fewshot": 1,
            "apply_chat_template": True,
            "fewshot_as_multiturn": True,
            "system_instruction": "Be brief.",
        },
    ),
    "bos": ("stories260K", ("arc_easy",), {"limit": 4, "more": {"add_bos_token": True}}),
    "written": (
        "stories260K",
        GENERATED,
        {"limit": 3, "num_fewshot": 0, "gen_kwargs": "max_gen_toks=24,do_sample=False"},
    ),
}


def main(shared: str, out: str) -> None:
    """Evaluate every case with both models."""
    os.environ["DISABLE_MULTIPROC"] = "1"
    use_local_data(Path(shared) / "data")
    import lm_eval.tasks
    import torch

    import assaymark.interop.lm_eval_adapter  # noqa: F401 - registers the model

    torch.set_num_threads(1)
    own = Path(lm_eval.tasks.__file__).parent
    manager = lm_eval.tasks.TaskManager(
        include_path=[str(own / name) for name in (*FOLDERS, "wikitext", *GENERATED)], include_defaults=False
    )
    results: dict[str, Any] = {}
    for case, (model, tasks, settings) in CASES.items():
        arguments = {"pretrained": f"{shared}/models/{model}", "dtype": "float32", **settings.get("more", {})}
        inputs = {key: value for key, value in settings.items() if key != "more"}
        results[case] = {
            kind: _run(kind, arguments, list(tasks), {**inputs, "task_manager": manager})
            for kind in ("hf", "assaymark")
        }
        Path(out).write_text(json.dumps(results, default=str))


def _run(kind: str, arguments: dict[str, Any], tasks: list[str], given: dict[str, Any]) -> dict[str, Any]:
    import lm_eval

    own = {**arguments, "logits_cache": False} if kind == "hf" else arguments
    given = {"device": "cpu", "batch_size": 1, "bootstrap_iters": 0, "log_samples": True, **given}
    result = lm_eval.simple_evaluate(model=kind, model_args=own, tasks=tasks, **given)
    samples = [
        (name, line["doc_id"], line["prompt_hash"], line["resps"])
        for name, lines in result["samples"].items()
        for line in lines
    ]
    kept = ("tokenizer_bos_token", "tokenizer_eos_token", "eot_token_id", "max_length", "chat_template_sha")
    return {
        "results": result["results"],
        "samples": samples,
        "config": {key: str(result["config"].get(key)) for key in ("model_num_parameters", "model_dtype")},
        "facts": {key: result.get(key) for key in kept},
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
