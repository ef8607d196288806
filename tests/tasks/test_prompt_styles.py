"""Tasks derived from one in each prompt style, on real data."""

from pathlib import Path

import pytest

from assaymark.prompts.prompt_styles import PROMPT_STYLES, PromptStyle
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.styled_tasks import styled_selection, styled_task
from assaymark.tasks.task import Task


def bound(task: Task, data: Path, shots: int = 0, limit: float | None = None) -> BoundTask:
    """Return the task bound to the real rows."""
    return bind(task, BindOptions(num_fewshot=shots, data_dir=data, limit=limit))


def task_named(name: str) -> Task:
    """Return one task of the library."""
    (task,) = Catalog.open(lm_eval=False).select([name]).tasks
    return task


@pytest.mark.parametrize(("name", "prompt_style"), [("mmlu_anatomy", "letter"), ("arc_challenge", "text")])
def test_real_tasks_keep_their_prompts(shared_dir: Path, name: str, prompt_style: PromptStyle) -> None:
    """MMLU in style letter and ARC in style text, with 5 shots, have the published prompts to the byte."""
    task = task_named(name)
    own = [request.prompt for request in bound(task, shared_dir / "data", 5, 40).requests()]
    styled = [
        request.prompt for request in bound(styled_task(task, prompt_style), shared_dir / "data", 5, 40).requests()
    ]
    assert styled == own


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mmlu_anatomy", "mmlu_college_mathematics", "arc_challenge", "openbookqa", "piqa"])
def test_every_row_of_real_tasks_has_every_prompt_style(shared_dir: Path, name: str) -> None:
    """No row fails in any prompt style; letter and cot list the same choices."""
    task = task_named(name)
    by_style = {style: bound(styled_task(task, style), shared_dir / "data") for style in PROMPT_STYLES}
    prompts = {style: [request.prompt for request in entry.requests()] for style, entry in by_style.items()}
    assert len({len(texts) for texts in prompts.values()}) == 1
    for letter, text, cot, joint in zip(*(prompts[style] for style in PROMPT_STYLES[:4]), strict=True):
        assert joint.endswith("\nAnswer:")
        listed = letter[letter.rindex("\nA. ") : letter.rindex("\n")].split()
        assert " ".join(listed) in " ".join(cot.split())
        assert " ".join(listed) in " ".join(joint.split())
        assert " ".join(listed) not in " ".join(text.split())


def test_another_prompt_style_is_another_task_of_the_same_name() -> None:
    """Name and rows stay, the hash differs, and a group has the metrics that its tasks now have."""
    task = task_named("mmlu_anatomy")
    made = [styled_task(task, style) for style in PROMPT_STYLES]
    assert {each.name for each in made} == {"mmlu_anatomy"}
    assert len({task.spec_hash, *(item.spec_hash for item in made)}) == 7
    selection = styled_selection(Catalog.open(lm_eval=False).select(["mmlu_stem"]), "cot")
    assert [metric.metric for metric in selection.groups[0].metrics] == ["exact_match"]
