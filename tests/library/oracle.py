"""lm-evaluation-harness itself, run on task files of ours and of its own, over local Parquet files.

Both are read by its own reader and rendered by its own code, so whatever differs is in the task files.
"""

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lm_eval.tasks
from lm_eval.tasks import TaskManager

from tests.conftest import ROOT

LIBRARY = ROOT / "src" / "assaymark" / "library"
THEIRS = Path(lm_eval.tasks.__file__).parent
FIXTURES = ROOT / "tests" / "fixtures" / "data"
SHARED = ROOT.parent / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a model would be asked for one sample, and what is held to be right."""

    row: str
    requests: tuple[Any, ...]
    target: Any


def folder_of(path: str, name: str | None) -> Path:
    """Return where `path`/`name` lies: the project's fixture rows where it has some, else the real data."""
    for root in (FIXTURES, SHARED):  # a data set is in both where the real one lacks a split that its task names
        folder = root / path / (name or "default")
        if folder.is_dir():
            return folder
        configs = [inner for inner in folder.parent.glob("[!_]*") if inner.is_dir()]
        if name is None and len(configs) == 1:
            return configs[0]
    raise FileNotFoundError(f"no local rows for {path} / {name}")


@cache
def read(file: Path) -> Any:
    """Return one Parquet file as a Dataset; read once, because reading is most of the time that these tests take."""
    import datasets

    return datasets.Dataset.from_parquet(str(file))


def load_dataset(path: str, name: str | None = None, split: str | None = None, **_: object) -> Any:
    """Stand in for `datasets.load_dataset`, reading local Parquet."""
    import datasets

    splits = {file.stem: read(file) for file in sorted(folder_of(path, name).glob("*.parquet"))}
    return splits[split] if split else datasets.DatasetDict(splits)


@contextmanager
def local_data(cache: Path) -> Iterator[None]:
    """Have lm-eval read local files, and `datasets` keep what it derives from them in `cache`."""
    import datasets

    theirs, their_cache = datasets.load_dataset, datasets.config.HF_DATASETS_CACHE
    datasets.load_dataset, datasets.config.HF_DATASETS_CACHE = load_dataset, cache
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.load_dataset, datasets.config.HF_DATASETS_CACHE = theirs, their_cache


def named(value: Any) -> Any:
    """Return a function's bare name, whatever file it is in; other values as they are."""
    return getattr(value, "__name__", type(value).__name__) if callable(value) else value


def settings(task: Any) -> dict[str, Any]:
    """Return what decides a task's scores besides its prompts."""
    metrics = [
        (key, named(task._aggregation_list[key]), task._higher_is_better[key], task._metric_fn_kwargs[key])
        for key in task._metric_fn_list
    ]
    keys = ("output_type", "generation_kwargs", "repeats", "num_fewshot", "test_split", "validation_split")
    version = (task.config.metadata or {}).get("version")
    return {"metrics": metrics, "filters": task.config.filter_list, "version": version} | {
        key: task.config[key] for key in keys
    }


def built(manager: TaskManager, name: str) -> Any:
    """Return lm-eval's task object, built as at the start of a run of its own."""
    random.seed(0)  # as lm-eval does before it builds a task; GPQA's zero-shot files shuffle with it
    if shuffler := sys.modules.get("lm_eval.tasks.gpqa.n_shot.utils"):
        shuffler.__dict__["rng"].seed(42)  # as when its module is first loaded, by a process that finds a warm cache
    return manager.load(name)["tasks"][name]


def rendered(manager: TaskManager, name: str, shots: int | None, limit: int, **options: Any) -> list[Rendered]:
    """Return the first `limit` samples of task `name` as lm-eval would put them at `shots` shots."""
    return samples(built(manager, name), shots, limit, **options)


def samples(task: Any, shots: int | None, limit: int, **options: Any) -> list[Rendered]:
    """Return the first `limit` samples of `task` as lm-eval would put them at `shots` shots."""
    if shots is not None and task.config.num_fewshot != 0:
        task.set_config(key="num_fewshot", value=shots)
    task.set_fewshot_seed(1234)
    task.build_all_requests(limit=limit, **options)
    grouped: dict[int, list[Any]] = {}
    for instance in task.instances:
        grouped.setdefault(instance.doc_id, []).append(instance)
    return [
        Rendered(
            json.dumps(group[0].doc, default=str), tuple(one.args for one in group), task.doc_to_target(group[0].doc)
        )
        for group in grouped.values()
    ]
