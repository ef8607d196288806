"""The benchmarks whose data sets keep a leaderboard of models' results on the Hub, as far as they are known here.

A data set's `eval.yaml` names the tasks, their configuration and split. It does not say in which unit a value is; that
of published entries is used.
Source: huggingface/hub-docs, docs/hub/eval-results.md (HLE, GPQA); documentation of Every Eval Ever (GSM8K, MMLU-Pro)
"""

from dataclasses import dataclass
from typing import Literal

from assaymark.datasets.load import names_of_same_rows

Unit = Literal["per cent", "share"]
ACCURACY = (
    "exact_match", "acc", "accuracy",
    *(f"inspect_{scorer}" for scorer in ("choice", "match", "exact", "includes", "pattern", "answer", "math")),
)  # fmt: skip
"""Metrics that are the share of right answers, and nothing else; the latter of a benchmark with an eval.yaml."""


@dataclass(frozen=True, slots=True)
class HubTask:
    """One task of a registered benchmark."""

    dataset: str
    id: str  # in the data set's eval.yaml
    config: str
    split: str
    n: int  # rows of the split
    unit: Unit  # of the values on its leaderboard
    metric: str  # under which a value without answers is stored here
    aliases: tuple[str, ...] = ()  # other ids in use

    @property
    def title(self) -> str:
        """The data set with configuration and split."""
        return f"{self.dataset} ({self.config}, {self.split})"


HUB_TASKS = (
    HubTask("openai/gsm8k", "gsm8k", "main", "test", 1319, "per cent", "exact_match"),
    HubTask("TIGER-Lab/MMLU-Pro", "mmlu_pro", "default", "test", 12032, "per cent", "exact_match"),
    HubTask("Idavidrein/gpqa", "gpqa_diamond", "gpqa_diamond", "train", 198, "share", "acc"),
    HubTask("Idavidrein/gpqa", "gpqa_main", "gpqa_main", "train", 448, "share", "acc"),
    HubTask("Idavidrein/gpqa", "gpqa_extended", "gpqa_extended", "train", 546, "share", "acc"),
    HubTask("cais/hle", "hle", "default", "test", 2500, "per cent", "acc", ("default",)),
)


def tasks_of(dataset: str) -> list[HubTask]:
    """Return the registered tasks of a data set, under any of the names under which the Hub has its rows."""
    names = {name.lower() for name in names_of_same_rows(dataset)}
    return [
        task
        for task in HUB_TASKS
        if names & {task.dataset.lower(), task.dataset.lower().rpartition("/")[2]}  # gsm8k was its name before
    ]


def registered(dataset: str, task_id: str) -> HubTask | None:
    """Return the task that an entry names; None for a benchmark that is not known here."""
    return next((task for task in tasks_of(dataset) if task_id in {task.id, *task.aliases}), None)
