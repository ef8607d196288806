"""The result of a scoring function for one metric, before the runner adds request and filter."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScoreValue:
    """One metric of one answer."""

    value: float | None  # None: defined only over many samples (then `parts` is aggregated), or undefined
    parts: tuple[Any, ...] | None = None  # what a corpus metric aggregates, e.g. (gold, predicted) or (nats, weight)
    detail: Any = None  # for display: picked choice, ties, extracted answer
