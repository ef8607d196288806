"""Every prompt of the first hundred samples equals lm-eval 0.4.13's, byte for byte, in every setup."""

import hashlib
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from assaymark.records import Message, Render
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import Task
from tests.tasks import golden

pytestmark = pytest.mark.slow  # some thousand prompts of real data

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "data"
FILES = sorted(golden.FOLDER.glob("*.json"))


@cache
def template(folder: Path) -> Render:
    """Return the chat template of a real tokenizer as a render function."""
    pytest.importorskip("transformers")
    from tests.tasks.oracle import chat_template_of

    apply_template = chat_template_of(folder)

    def render(messages: Sequence[Message], continue_final: bool, /, tools: str | None = None) -> str:
        history = [{"role": message.role, "content": message.text} for message in messages]
        return apply_template(history, add_generation_prompt=not continue_final)

    return render


@cache
def file_sha(path: Path) -> str:
    """Return the sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rows_of(kept: dict[str, Any], shared_dir: Path) -> Path:
    """Return the folder with the rows a golden was made from; skip if they are not these rows."""
    root = shared_dir / "data" if kept["rows"] == "shared" else FIXTURES
    for path, digest in kept["data"].items():
        if not (root / path).is_file() or file_sha(root / path) != digest:
            pytest.fail(f"{root / path} is not the file the golden was made from; run tests/tasks/make_goldens.py")
    return root


def requests_of(task: Task, setup: golden.Setup, data_dir: Path, shared_dir: Path) -> list[golden.Requests]:
    """Return our requests for a task's first samples."""
    options = BindOptions(
        num_fewshot=setup.num_fewshot,
        limit=golden.N_SAMPLES,
        data_dir=data_dir,
        apply_chat_template=setup.chat,
        fewshot_as_multiturn=setup.multiturn,
        system_instruction=setup.system_instruction,
    )
    render = template(shared_dir / "models" / "craftgpt-5m") if setup.chat else None
    return [golden.queries_of(request) for request in bind(task, options).requests(render)]


def check(task: Task, kept: dict[str, Any], shared_dir: Path) -> list[str]:
    """Return a line for each setup in which a task's prompts differ from the golden ones."""
    root = rows_of(kept, shared_dir)
    wrong = []
    for setup in golden.SETUPS if task.origin == "assaymark" else golden.SETUPS[:4]:
        expected = kept["ways"][setup.name]
        if "refused" in expected:
            continue
        mine = requests_of(task, setup, root, shared_dir)
        got = golden.digest(mine, short=setup.chat)
        if got != expected:
            samples = golden.differing(expected["each"], mine)
            wrong.append(f"{task.name} {setup.name}: samples {samples[:5]} of {expected['n']} (got {got['n']})")
    return wrong


@pytest.mark.parametrize("origin", ["assaymark", "lm-eval"])
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_prompts_equal_lm_evals(
    path: Path, origin: str, shared_dir: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our library's tasks and lm-eval's own files, read by our reader, have lm-eval's prompts."""
    monkeypatch.delitem(
        sys.modules, "lm_eval.tasks.gpqa.n_shot.utils", raising=False
    )  # another test may have used its generator
    if origin == "lm-eval":
        pytest.importorskip("lm_eval")
        pytest.importorskip("datasets")
    tasks = json.loads(path.read_text(encoding="utf-8"))["tasks"]
    assert tasks
    wrong = []
    for name, kept in tasks.items():
        task = catalog.select([f"{origin}:{name}"]).tasks[0]
        wrong += check(task, kept, shared_dir)
    assert wrong == []


def test_every_family_has_goldens() -> None:
    """Every family of tasks in the golden test has its file."""
    assert {path.stem for path in FILES} == set(golden.FAMILIES)
