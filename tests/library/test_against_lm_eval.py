"""Our task files and lm-evaluation-harness's own, rendered side by side by lm-eval itself: every request is equal.

By default this runs a choice of tasks from every family; `ASSAYMARK_ALL_TASKS=1` runs all that both have.
"""

import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lm_eval", reason="the oracle is lm-evaluation-harness itself")

from lm_eval.tasks import TaskManager

from tests.library import oracle

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore"),  # what the oracle warns about is its own affair
]

THEIR_FOLDERS = """
agieval arc bbh/cot_fewshot commonsense_qa drop gpqa gsm8k hellaswag ifeval lambada leaderboard/bbh_mc
leaderboard/gpqa leaderboard/ifeval leaderboard/math leaderboard/mmlu_pro leaderboard/musr logiqa minerva_math
medmcqa medqa mmlu/default mmlu_pro nq_open openbookqa piqa race sciq siqa super_glue/boolq triviaqa truthfulqa wikitext
winogrande wmdp
"""
N_SAMPLES = 100
TAKES_NO_SHOTS = "agieval_", "leaderboard_bbh_", "bbh_cot_fewshot_"  # lm-eval refuses five
# one or two of each family whose members differ only in data
CHOSEN = """
arc_easy arc_challenge hellaswag truthfulqa_mc1 truthfulqa_mc2 winogrande piqa openbookqa lambada_openai wikitext
boolq social_iqa sciq commonsense_qa race logiqa mmlu_anatomy mmlu_high_school_us_history mmlu_moral_scenarios
agieval_aqua_rat agieval_jec_qa_kd agieval_math leaderboard_musr_murder_mysteries leaderboard_musr_team_allocation
gpqa_main_zeroshot gpqa_diamond_n_shot gpqa_extended_cot_n_shot gpqa_main_cot_zeroshot gpqa_main_generative_n_shot
leaderboard_gpqa_diamond leaderboard_bbh_boolean_expressions leaderboard_bbh_object_counting
bbh_cot_fewshot_sports_understanding bbh_cot_fewshot_snarks leaderboard_mmlu_pro mmlu_pro_computer_science gsm8k
gsm8k_cot gsm8k_cot_zeroshot  nq_open triviaqa drop truthfulqa_gen minerva_math_num_theory
leaderboard_math_intermediate_algebra_hard medqa_4options medmcqa wmdp_bio wmdp_cyber
"""

GROUPS = """
mmlu mmlu_stem mmlu_other mmlu_social_sciences mmlu_humanities agieval agieval_en agieval_cn agieval_nous
leaderboard_musr leaderboard_gpqa leaderboard_bbh bbh bbh_cot_fewshot mmlu_pro
leaderboard_math_hard wmdp
"""


def names() -> list[str]:
    """Return the tasks to compare."""
    if not os.environ.get("ASSAYMARK_ALL_TASKS"):
        return CHOSEN.split()
    tasks = (oracle.LIBRARY / "tasks").rglob("*.yaml")
    found = {path.name.removesuffix(".yaml") for path in tasks if path.parts[-2] != "demo"}
    return sorted(name for name in found if name in managers()[1].all_subtasks)


def managers() -> tuple[TaskManager, TaskManager]:
    """Return lm-eval's reader on our files, and on its own."""
    theirs: list[str | Path] = [oracle.THEIRS / folder for folder in THEIR_FOLDERS.split()]
    return (
        TaskManager(include_path=str(oracle.LIBRARY / "tasks"), include_defaults=False),
        TaskManager(include_path=theirs, include_defaults=False),
    )


@pytest.fixture(scope="module")
def both(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TaskManager, TaskManager]]:
    """Give both readers, with local data; lm-eval's minerva_math refuses to load beside another antlr than 4.11."""
    version = importlib.metadata.version
    with oracle.local_data(tmp_path_factory.mktemp("datasets")), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            importlib.metadata, "version", lambda name: "4.11" if name.startswith("antlr4") else version(name)
        )
        yield managers()


@pytest.mark.parametrize("name", names())
@pytest.mark.slow
def test_every_request_and_setting_is_theirs(both: tuple[TaskManager, TaskManager], name: str) -> None:
    """The first 100 rows, prompts, continuations and right answers equal lm-eval's, at 0 shots and at 5.

    So do metrics, filters, generation settings, splits and versions.
    """
    if name.endswith("n_shot"):  # GPQA: stable from the second time on, see gpqa/options.py
        oracle.rendered(both[1], name, 0, 1)
    task, their_task = (oracle.built(manager, name) for manager in both)
    assert oracle.settings(task) == oracle.settings(their_task)
    for shots in (0,) if name.startswith(TAKES_NO_SHOTS) and name != "agieval_math" else (0, 5):
        assert oracle.samples(task, shots, N_SAMPLES) == oracle.samples(their_task, shots, N_SAMPLES)


def test_the_worked_shots_of_bbh_are_theirs(both: tuple[TaskManager, TaskManager]) -> None:
    """At the three shots that its files hold, BIG-Bench Hard is rendered as lm-eval does."""
    ours, theirs = both
    for name in ("bbh_cot_fewshot_sports_understanding", "leaderboard_bbh_date_understanding"):
        assert oracle.rendered(ours, name, 3, 20) == oracle.rendered(theirs, name, 3, 20)


def group(manager: TaskManager, name: str) -> dict[str, Any]:
    """Return a group's members (tags opened) and how it is summarised."""
    index = manager.task_index
    config: Any = index[name].cfg
    members: set[str] = set()
    for member in config["task"]:
        entry = index[member]
        members |= set(entry.tags) if entry.yaml_path is None else {member}
    metrics = [{"aggregation": "mean", **metric} for metric in config.get("aggregate_metric_list", [])]
    return {"members": members, "metrics": metrics, "version": (config.get("metadata") or {}).get("version")}


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPS.split())
def test_every_group_is_theirs(name: str) -> None:
    """A group holds the same tasks as lm-eval's, summarised in the same way."""
    ours, theirs = managers()
    assert group(ours, name) == group(theirs, name)
