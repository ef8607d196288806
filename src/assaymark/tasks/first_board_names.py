"""Names in the files of the first Open LLM Leaderboard, and what tasks and metrics are called here.

There a task's name ends in its number of shots and a metric has no filter: `harness|truthfulqa:mc|0` with `mc2`. Two
tasks that lm-eval has changed since are asked here in the leaderboard's own way, under names of their own.
Source: https://huggingface.co/datasets/open-llm-leaderboard-old/results (2023 and 2024)
"""

from dataclasses import dataclass

from assaymark.tasks.aliases import framed, known_aliases

__all__ = ["GROUP_SIZES", "PresentName", "first_board_name", "present_name"]

GROUP_SIZES = {"mmlu": 57}  # tasks of a group that is one column; fewer are not the group
_RENAMED = {  # task and metric there: task, metric and filter here
    ("truthfulqa:mc", "mc1"): ("truthfulqa_mc1", "acc", "none"),
    ("truthfulqa:mc", "mc2"): ("truthfulqa_mc2_2023", "acc", "none"),
    ("gsm8k", "acc"): ("gsm8k_2023", "exact_match", "strict-match"),
}
_TASKS = {"arc_challenge": "arc:challenge"}
_MMLU, _OWN_MMLU = "hendrycksTest-", "mmlu_"


@dataclass(frozen=True, slots=True)
class PresentName:
    """What a number of a results file is called here. group: the one that its task belongs to, if any."""

    task: str
    metric: str
    filter: str = "none"
    group: str | None = None


def present_name(task: str, metric: str) -> PresentName | None:
    """Return what `harness|arc:challenge|25` with `acc_norm` is called here; None for a task without such a frame."""
    old = framed(task)
    if old is None:
        return None
    if (old[0], metric) in _RENAMED:
        return PresentName(*_RENAMED[old[0], metric])
    own, _, name_of_filter = metric.partition(",")
    if old[0].startswith(_MMLU):
        return PresentName(_OWN_MMLU + old[0].removeprefix(_MMLU), own, name_of_filter or "none", "mmlu")
    known = known_aliases().meaning(old[0])
    return PresentName(known[0] if len(known) == 1 else old[0], own, name_of_filter or "none")


def first_board_name(name: PresentName, shots: int) -> tuple[str, str]:
    """Return task and metric as the first leaderboard's files have them; what it did not have keeps its name."""
    for (task, metric), own in _RENAMED.items():
        if own == (name.task, name.metric, name.filter):
            return f"harness|{task}|{shots}", metric
    metric = name.metric if name.filter == "none" else f"{name.metric},{name.filter}"
    if name.group == "mmlu":
        return f"harness|{_MMLU}{name.task.removeprefix(_OWN_MMLU)}|{shots}", metric
    return f"harness|{_TASKS.get(name.task, name.task)}|{shots}", metric
