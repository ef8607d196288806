"""Regenerate the golden prompts: run lm-eval 0.4.13 on local data and store the hashes of its requests.

    python -m tests.tasks.make_goldens [family ...]

Needs lm_eval, transformers, `../shared/data` and `../shared/models`; where a data set is not in `../shared/data`,
the project's own fixture rows (`tests/fixtures`) are used, and the golden records it.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from assaymark.errors import AssaymarkError
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.task import Task
from tests.tasks import golden, oracle

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
FIXTURES = ROOT / "tests" / "fixtures" / "data"


def lm_eval_tasks(catalog: Catalog, names: tuple[str, ...]) -> list[Task]:
    """Return lm-eval's own versions of our tasks of these names."""
    ours = catalog.select(names).tasks
    return [catalog.select([f"lm-eval:{task.name}"]).tasks[0] for task in ours]


def data_of(task: Task) -> tuple[str, Path]:
    """Return where the task's rows are: `shared`, or `fixtures` where they are not in the shared data."""
    folder = Path(task.dataset.path, task.dataset.name or "default")
    for label, root in (("shared", SHARED / "data"), ("fixtures", FIXTURES)):
        if (root / folder).is_dir() or (task.dataset.name is None and (root / task.dataset.path).is_dir()):
            return label, root
    raise FileNotFoundError(f"no rows for {task.name}: {folder}")


def made(task: Task, render: Any) -> dict[str, Any]:
    """Return the golden of one task: for each setup the digests, or why lm-eval refuses it."""
    label, root = data_of(task)
    theirs = oracle.make_task(task.source, root)
    if shuffler := sys.modules.get("lm_eval.tasks.gpqa.n_shot.utils"):
        # Its choices are shuffled anew at each pass over the rows until the cache of `datasets` is warm: this makes it
        # so, and then a new process begins.
        oracle.prompts_of(theirs, 5, golden.N_SAMPLES)
        shuffler.__dict__["rng"].seed(42)
        theirs = oracle.make_task(task.source, root)
    by_setup: dict[str, Any] = {}
    for setup in golden.SETUPS:
        try:
            samples = oracle.prompts_of(
                theirs,
                setup.num_fewshot,
                golden.N_SAMPLES,
                chat=render if setup.chat else None,
                multiturn=setup.multiturn,
                system_instruction=setup.system_instruction,
            )
        except (AssertionError, ValueError, KeyError, TypeError) as error:
            by_setup[setup.name] = {"refused": f"{type(error).__name__}: {error}"[:200]}
            continue
        by_setup[setup.name] = golden.digest(
            [[_plain(query) for query in queries] for queries in samples], short=setup.chat
        )
    return {"rows": label, "data": oracle.digests_of(task, root), "ways": by_setup}


def _plain(query: tuple[Any, ...]) -> list[Any]:
    if len(query) == 2 and isinstance(query[1], dict):
        until = query[1].get("until", [])
        return [query[0], [until] if isinstance(until, str) else list(until)]
    return list(query)


def main(families: list[str]) -> None:
    """Write one file per family of tasks."""
    # lm-eval caches here what it shuffles with the global generator: a warm cache would give an older order
    os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp(prefix="goldens-")
    catalog = Catalog.open()
    render = oracle.chat_template_of(SHARED / "models" / "craftgpt-5m")
    golden.FOLDER.mkdir(exist_ok=True)
    for family in families or list(golden.FAMILIES):
        content: dict[str, Any] = {"lm_eval": "0.4.13", "template": "craftgpt-5m", "tasks": {}}
        try:
            for task in lm_eval_tasks(catalog, golden.FAMILIES[family]):
                content["tasks"][task.name] = made(task, render)
        except (FileNotFoundError, AssaymarkError) as error:
            sys.stdout.write(f"{family}: {error}\n")
            continue
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (golden.FOLDER / f"{family}.json").write_text(text + "\n", encoding="utf-8")
        sys.stdout.write(f"{family}: {len(content['tasks'])} tasks\n")


if __name__ == "__main__":
    main(sys.argv[1:])
