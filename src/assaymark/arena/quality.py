"""Whether the answers were good enough: a vote says which one is better, marks say whether either is acceptable."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.statistics.intervals import Interval, wilson
from assaymark.store.arena_rows import VoteRow

__all__ = ["ModelQuality", "Quality", "quality_of"]


@dataclass(frozen=True, slots=True)
class ModelQuality:
    """How often a model's answers were marked acceptable, with its 95% interval."""

    model: str
    n_marked: int
    acceptable: Interval


@dataclass(frozen=True, slots=True)
class Quality:
    """Shares among the battles with both answers marked, and wins of an acceptable answer over a poor one."""

    n_battles: int
    poor_poor: float
    acceptable_poor: float
    acceptable_acceptable: float
    n_decided: int  # of the acceptable-poor battles, those with a winner
    good_wins: float | None  # share of these that the acceptable answer won
    models: tuple[ModelQuality, ...]


def quality_of(votes: Sequence[VoteRow]) -> Quality | None:
    """Return what the marks say; None without a battle with both answers marked."""
    both = [vote for vote in votes if vote.mark_a and vote.mark_b]
    if not both:
        return None
    kinds = Counter(sum(mark == "acceptable" for mark in (vote.mark_a, vote.mark_b)) for vote in both)
    decided = [vote for vote in both if vote.mark_a != vote.mark_b and vote.choice in {"a", "b"}]
    good = sum((vote.mark_a if vote.choice == "a" else vote.mark_b) == "acceptable" for vote in decided)
    marked: dict[str, list[bool]] = {}
    for vote in votes:
        for model, mark in ((vote.model_a, vote.mark_a), (vote.model_b, vote.mark_b)):
            if mark:
                marked.setdefault(model, []).append(mark == "acceptable")
    return Quality(
        len(both),
        poor_poor=kinds[0] / len(both),
        acceptable_poor=kinds[1] / len(both),
        acceptable_acceptable=kinds[2] / len(both),
        n_decided=len(decided),
        good_wins=good / len(decided) if decided else None,
        models=tuple(
            ModelQuality(model, len(marks), wilson(sum(marks), len(marks)))
            for model, marks in sorted(marked.items(), key=lambda item: -sum(item[1]) / len(item[1]))
        ),
    )
