"""Tasks that lm-eval cannot load here (they fetch a metric, or need nltk's data): our files beside its own, as text."""

import ast
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="the files to compare with are lm-evaluation-harness's")

from assaymark.tasks.task import FunctionRef
from assaymark.tasks.yaml_files import read_task_file
from tests.library import oracle

FILES = {
    "humaneval/humaneval.yaml": "humaneval/humaneval.yaml",
    "humaneval/humaneval_64.yaml": "humaneval/humaneval_64.yaml",
    "humaneval/humaneval_instruct.yaml": "humaneval/humaneval_instruct.yaml",
    "humaneval/humaneval_64_instruct.yaml": "humaneval/humaneval_64_instruct.yaml",
    "mbpp/mbpp.yaml": "mbpp/mbpp.yaml",
    "mbpp/mbpp_instruct.yaml": "mbpp/mbpp_instruct.yaml",
    "ifeval/ifeval.yaml": "ifeval/ifeval.yaml",
    "ifeval/leaderboard_ifeval.yaml": "leaderboard/ifeval/ifeval.yaml",
}


def named(value: Any) -> Any:
    """Return a mapping with functions as their own names: files and folders of code may differ."""
    if isinstance(value, FunctionRef):
        return value.name
    if isinstance(value, dict):
        return {key: named(part) for key, part in value.items()}
    return [named(part) for part in value] if isinstance(value, list) else value


def their_shots(file: Path) -> Any:
    """Return the worked examples in lm-eval's module, read without importing it."""
    function = next(
        node
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "list_fewshot_samples"
    )
    returned = function.body[-1]
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    return ast.literal_eval(returned.value)


@pytest.mark.parametrize("ours", FILES)
def test_every_key_is_theirs(ours: str) -> None:
    """Prompts, targets, stops, shots, filters, metrics and versions are those of lm-eval's file."""
    mine = named(read_task_file(oracle.LIBRARY / "tasks" / ours))
    theirs = named(read_task_file(oracle.THEIRS / FILES[ours]))
    if "mbpp" in ours:
        assert theirs["fewshot_config"]["samples"] == "list_fewshot_samples"
        theirs["fewshot_config"]["samples"] = their_shots(oracle.THEIRS / "mbpp" / "utils.py")
    assert mine.pop("repeats", 1) == theirs.pop("repeats", 1)
    assert mine == theirs
