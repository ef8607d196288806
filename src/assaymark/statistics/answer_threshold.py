"""Best score over all thresholds on the probability of "no answer" (SQuAD 2.0)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.intervals import as_floats


@dataclass(frozen=True, slots=True)
class ThresholdScore:
    """The best mean score, and the threshold above which answers are withheld."""

    value: float
    threshold: float


def best_threshold(
    scores: Sequence[float],
    no_answer_probabilities: Sequence[float],
    has_answer: Sequence[bool],
    answered: Sequence[bool],
) -> ThresholdScore:
    """Return the best mean score if answers are withheld above a threshold on the probability of "no answer".

    Args:
        scores: of each given answer (exact match or F1).
        no_answer_probabilities: the model's own, per question.
        has_answer: whether the question has an answer.
        answered: whether the model's text is not empty.

    The threshold is chosen on the same questions that are scored, so the value is optimistic; it is reported because
    the benchmark reports it. Values are shares; the official script prints percent.

    Source: Rajpurkar, Jia and Liang 2018, official evaluation script 2.0 (best_exact, best_f1).
    Raises: DataError for lists of different length.
    """
    values = as_floats(scores)
    if not len(values) == len(no_answer_probabilities) == len(has_answer) == len(answered):
        raise DataError(
            "scores, probabilities, has_answer and answered differ in length; expected one each per question"
        )
    known = np.asarray(has_answer, dtype=bool)
    gains = np.where(known, values, -np.asarray(answered, dtype=np.float64))  # from giving instead of withholding
    order = np.argsort(np.asarray(no_answer_probabilities, dtype=np.float64), kind="stable")
    totals = np.concatenate([[0.0], np.cumsum(gains[order])]) + float((~known).sum())
    best = int(np.argmax(totals))
    threshold = 0.0 if best == 0 else float(no_answer_probabilities[order[best - 1]])
    return ThresholdScore(float(totals[best] / len(values)), threshold)
