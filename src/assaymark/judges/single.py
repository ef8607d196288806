"""Grades of single answers, by task and turn.

Also means over answers whose questions repeat: turns of one conversation, votes of several people on one question.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from assaymark.statistics.estimate import IntervalEstimate, estimate_mean


def mean_over_questions(
    values: Sequence[float],
    questions: Sequence[Hashable],
    *,
    binary: bool | None = None,
    bounds: tuple[float, float] | None = None,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Return the mean of values, with an interval that takes the values of one question as dependent.

    Values of a single question have no interval: nothing is known about other questions.
    """
    n_questions = len(set(questions))
    if n_questions == 1 and len(values) > 1:
        mean = sum(values) / len(values)
        return IntervalEstimate(mean, None, None, None, "none: one question", len(values), n_clusters=1)
    clusters = None if n_questions == len(values) else list(questions)
    return estimate_mean(values, binary=binary, clusters=clusters, bounds=bounds, confidence=confidence)


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of one answer. value: from 1 to 10; None without a verdict."""

    task: str
    sample_index: int
    turn: int
    value: float | None
    is_failed: bool = False  # the judge gave no text at all


@dataclass(frozen=True, slots=True)
class GradeSummary:
    """The grades of a task, of one turn or of all."""

    task: str
    turn: int | None  # from 0; None: all turns
    n: int  # answers with a grade
    n_missing: int  # the judge's text has no verdict
    n_failed: int  # the judge's request failed
    mean: IntervalEstimate | None  # None without a grade


def summarise_grades(grades: Sequence[Grade]) -> list[GradeSummary]:
    """Return the mean grade of each task; for conversations each turn's too.

    The turns of a conversation are dependent: the interval over all turns takes each conversation as a cluster. Answers
    without a grade are excluded and counted, never graded 0.
    """
    summaries = []
    for task in dict.fromkeys(grade.task for grade in grades):
        own = [grade for grade in grades if grade.task == task]
        turns = sorted({grade.turn for grade in own})
        if len(turns) > 1:
            summaries += [_summary(task, turn, [grade for grade in own if grade.turn == turn]) for turn in turns]
        summaries.append(_summary(task, None, own))
    return summaries


def _summary(task: str, turn: int | None, grades: Sequence[Grade]) -> GradeSummary:
    scored = [(grade.value, grade.sample_index) for grade in grades if grade.value is not None]
    n_failed = sum(grade.is_failed for grade in grades)
    mean = None
    if scored:
        values, samples = [value for value, _ in scored], [sample for _, sample in scored]
        mean = mean_over_questions(values, samples, binary=False, bounds=(1.0, 10.0))
    return GradeSummary(task, turn, len(scored), len(grades) - len(scored) - n_failed, n_failed, mean)
