"""Small task folders for tests."""

import json
from pathlib import Path
from typing import Any

import yaml

from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind

ROWS = [
    {"question": f"What is {i} plus {i}?", "choices": [str(2 * i), str(2 * i + 1)], "answer": 0, "text": f"{2 * i}"}
    for i in range(1, 9)
]
SHOTS = [
    {"question": f"What is {i} minus 1?", "choices": [str(i), str(i - 1)], "answer": 1, "text": f"{i - 1}"}
    for i in range(20, 32)
]


def task_spec(name: str = "sums", **changes: Any) -> dict[str, Any]:
    """Return the mapping of a small multiple-choice task on `rows/`; a change to `...` removes a key."""
    spec = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "rows/test.jsonl", "train": "rows/train.jsonl"}},
        "training_split": "train",
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}\nAnswer:",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
        "metadata": {"version": 1.0},
        **changes,
    }
    return {key: value for key, value in spec.items() if value is not ...}


def write_rows(folder: Path, test: list[dict[str, Any]] = ROWS, train: list[dict[str, Any]] = SHOTS) -> None:
    """Write the rows of small tasks."""
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    for split, rows in (("test", test), ("train", train)):
        (folder / "rows" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_task(folder: Path, spec: dict[str, Any], name: str | None = None) -> Path:
    """Write a task file (and rows beside it, if there are none) and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "rows").is_dir():
        write_rows(folder)
    path = folder / f"{name or spec.get('group') or spec['task']}.yaml"
    text = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True)
    # a text that begins so stands for the tag, which safe_dump would quote
    lines = [
        line.replace("'!function ", "!function ").rstrip("'") if "'!function " in line else line
        for line in text.split("\n")
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def bound(folder: Path, options: BindOptions | None = None, **changes: Any) -> BoundTask:
    """Return the small task with some keys changed, bound."""
    path = write_task(folder, task_spec(**changes))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    return bind(task, options or BindOptions())
