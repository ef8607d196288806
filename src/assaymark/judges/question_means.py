"""Means over answers whose questions repeat: turns of one conversation, votes of several people on one question."""

from collections.abc import Hashable, Sequence

from assaymark.statistics.estimate import IntervalEstimate, estimate_mean

__all__ = ["mean_over_questions"]


def mean_over_questions(
    values: Sequence[float],
    questions: Sequence[Hashable],
    *,
    binary: bool | None = None,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Return the mean of at least one value, with an interval that takes the values of one question as dependent.

    Values of a single question have no interval: nothing is known about other questions.
    """
    n_questions = len(set(questions))
    if n_questions == 1 and len(values) > 1:
        mean = sum(values) / len(values)
        return IntervalEstimate(mean, None, None, None, "none: one question", len(values), n_clusters=1)
    clusters = None if n_questions == len(values) else list(questions)
    return estimate_mean(values, binary=binary, clusters=clusters, bounds=bounds, confidence=confidence)
