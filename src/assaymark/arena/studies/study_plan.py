"""The plan of a study, as the store keeps it in JSON: items with prompts and answers, questions and raters."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict


class PlannedItem(TypedDict):
    """A prompt with the answers to it."""

    prompt: str
    category: str
    answers: Mapping[str, str]  # by model; of an attention check: right and wrong


class PlannedQuestion(TypedDict):
    """A question with a choice of answers."""

    id: str
    text: str
    choices: Sequence[str]


class PlannedScale(TypedDict):
    """A scale on which each answer is rated by itself, from 1 to `points`; the ends have words."""

    id: str
    text: str
    points: int
    low: str
    high: str


class StudyPlan(TypedDict):
    """A study's plan; fields that a study does not use, or older plans lack, are not required."""

    study: str  # its name
    title: str
    consent: str
    models: Sequence[str]
    items: Sequence[PlannedItem]
    questions: Sequence[PlannedQuestion]
    ratings: int  # of each comparison
    cap: int  # comparisons of one rater
    demographics: Sequence[PlannedQuestion]
    seed: int
    n_comparisons: int
    scales: NotRequired[Sequence[PlannedScale]]
    groups: NotRequired[Sequence[str]]  # ids of the demographics by which results are counted
    group_quotas: NotRequired[Mapping[str, Mapping[str, int]]]  # such an id -> choice -> raters at most
