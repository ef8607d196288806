"""What a scoring function returns for one metric, before a runner adds which request and which filter it belongs to."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScoreValue:
    """One metric of one answer."""

    value: float | None  # None: defined only over many samples (then `parts` holds what is aggregated), or undefined
    parts: tuple[Any, ...] | None = None  # what a corpus metric aggregates, e.g. (gold, predicted) or (nats, weight)
    detail: Any = None  # for people: choice picked, ties, what was extracted


def aggregation_item(score: ScoreValue) -> Any:
    """Return what lm-eval's aggregations take for this score: the parts where there are any, else the value."""
    return score.value if score.parts is None else score.parts
