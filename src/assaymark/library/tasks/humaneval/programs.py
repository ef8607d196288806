"""From an answer to a program: the function's head and what the model wrote after it."""

from collections.abc import Mapping, Sequence
from typing import Any


def build_predictions(resps: Sequence[Sequence[str]], docs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return each sample's programs: its prompt, continued by each of the answers."""
    return [[row["prompt"] + answer for answer in answers] for answers, row in zip(resps, docs, strict=True)]


def build_predictions_instruct(resps: Sequence[Sequence[str]], docs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return each sample's programs, every answer cut where its code block is closed."""
    return build_predictions([[answer.split("```", 1)[0] for answer in answers] for answers in resps], docs)
