"""lm-evaluation-harness itself, on local data: our prompts must equal its prompts.

It is run in-process without a model: a task is made from the installed package's own YAML, and its requests are
collected. `datasets.load_dataset` is replaced by one that reads local Parquet files.
"""

import contextlib
import hashlib
import io
import logging
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Requests = list[tuple[Any, ...]]  # one sample's requests: (context, continuation), (text,) or (context, settings)


def local_load_dataset(data_dir: Path) -> Callable[..., Any]:
    """Return a stand-in for `datasets.load_dataset` that reads `<data_dir>/<path>/<name or default>/*.parquet`."""
    import datasets

    def load(path: str, name: str | None = None, split: str | None = None, **_: object) -> Any:
        folder = data_dir / path / (name or "default")
        if not folder.is_dir():
            only = [p for p in (data_dir / path).glob("[!_]*") if p.is_dir()] if (data_dir / path).is_dir() else []
            if len(only) != 1:
                raise FileNotFoundError(f"no local data for {path} / {name}")
            folder = only[0]
        splits = {p.stem: datasets.Dataset.from_parquet(str(p)) for p in sorted(folder.glob("*.parquet"))}
        return splits[split] if split else datasets.DatasetDict(splits)

    return load


def make_task(path: Path, data_dir: Path) -> Any:
    """Return lm_eval's task of a YAML file, with the seeds of a run."""
    os.environ.setdefault("TQDM_DISABLE", "1")
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks._yaml_loader import load_yaml

    import datasets

    logging.getLogger("lm_eval").setLevel(logging.CRITICAL)
    datasets.disable_progress_bars()
    before = datasets.load_dataset
    datasets.load_dataset = local_load_dataset(data_dir)
    random.seed(0)
    np.random.seed(1234)  # noqa: NPY002 - lm-eval's tasks draw from the global generators
    try:
        config = load_yaml(path)
        for key in ("tag", "group", "task_list"):
            config.pop(key, None)
        task = ConfigurableTask(config=config)
        task.own_num_fewshot = task.get_config("num_fewshot")
        return task
    finally:
        datasets.load_dataset = before


def prompts_of(
    task: Any,
    num_fewshot: int | None,
    limit: int,
    *,
    chat: Callable[..., str] | None = None,
    multiturn: bool = False,
    system_instruction: str | None = None,
) -> list[Requests]:
    """Return lm_eval's requests for the first samples, on one process with seed 1234."""
    own = task.own_num_fewshot
    shots = own or 0 if num_fewshot is None or own == 0 else num_fewshot
    task.set_config(key="num_fewshot", value=shots)
    task.set_fewshot_seed(seed=1234)
    with contextlib.redirect_stderr(io.StringIO()):
        task.build_all_requests(
            limit=limit,
            apply_chat_template=chat is not None,
            chat_template=chat,
            fewshot_as_multiturn=multiturn,
            system_instruction=system_instruction,
        )
    requests: dict[int, Requests] = {}
    for instance in sorted(task.instances, key=lambda instance: instance.idx):
        requests.setdefault(instance.doc_id, []).append(tuple(instance.arguments))
    return [requests[i] for i in sorted(requests)]


def chat_template_of(folder: Path) -> Callable[..., str]:
    """Return the chat template of a local model's tokenizer, as lm_eval's Hugging Face model calls it."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder))

    def render(history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        text: str = tokenizer.apply_chat_template(
            history,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=not add_generation_prompt,
        )
        return text

    return render


def digests_of(task: Any, data_dir: Path) -> dict[str, str]:
    """Return the sha256 of each of a task's split files, by path below the data folder."""
    root = data_dir / task.dataset.path
    folder = root / (task.dataset.name or "default")
    folders = [folder] if folder.is_dir() else [path for path in root.glob("[!_]*") if path.is_dir()]
    return {
        path.relative_to(data_dir).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in sorted(folder.glob("*.parquet"))
    }
