"""Make a task file of a data set on the Hub, named as `organisation/name` or `organisation/name:configuration`.

The columns decide, as for a file of rows (`own_rows`); what was guessed is reported. The task file is written into the
cache and evaluated like any other, so it has a spec hash and can be copied and changed.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from evalstone.datasets import DatasetSpec, load_dataset
from evalstone.errors import DataError
from evalstone.settings import cache_folder
from evalstone.tasks.own_rows import shape_of_rows

__all__ = ["is_hub_name", "task_file_of_hub_rows"]

SPLITS = ("test", "validation", "dev", "train")  # the first that exists is evaluated
SHOTS = ("dev", "train", "validation")  # the first that exists, and is not evaluated, supplies shots
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(:[\w.-]+)?")


def is_hub_name(name: str) -> bool:
    """Return whether a task's name is that of a data set on the Hub, and no file or folder here."""
    return bool(NAME.fullmatch(name)) and not Path(name).exists() and not name.endswith((".yaml", ".yml"))


def task_file_of_hub_rows(name: str, data_dir: Path | None = None) -> tuple[Path, str]:
    """Return the file of a task made of a data set, and what was guessed.

    The rows come from `data_dir` where it has them, else from the Hub or its cache.
    Raises: DataError if there is no such data set, or its columns are none of the known sets.
    """
    path, _, configuration = name.partition(":")
    spec = DatasetSpec(path, configuration or None)
    splits = load_dataset(spec, data_dir).splits
    tested = next((split for split in SPLITS if split in splits), None) or next(iter(splits), None)
    if tested is None or not splits[tested]:
        raise DataError(f"data set {name} has no rows")
    shots = next((split for split in SHOTS if split in splits and split != tested), tested)
    rows = splits[tested]
    shape, guess, _ = shape_of_rows(rows, Path(name))
    content: dict[str, Any] = {
        "task": path.partition("/")[2] + (f"_{configuration}" if configuration else ""),
        "dataset_path": path,
        **({"dataset_name": configuration} if configuration else {}),
        "test_split": tested,
        "fewshot_split": shots,
        "metadata": {"version": "1.0"},
        **shape,
    }
    folder = cache_folder() / "hub_tasks" / path.replace("/", "__")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{configuration or 'default'}.yaml"
    target.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return target, f"{name}: split {tested}; {guess}; the task file is {target}"
