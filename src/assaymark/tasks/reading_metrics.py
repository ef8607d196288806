"""Numbers of reading comprehension that belong to all questions together; SQuAD's task file names them."""

from collections.abc import Sequence

from assaymark.statistics.answer_threshold import best_threshold


def best_score(items: Sequence[Sequence[object]]) -> float:
    """Return the best mean score over all thresholds on the probability of "no answer" (best_exact, best_f1).

    items: per question its score, that probability, whether it has an answer, and whether one was given.
    """
    scores, probabilities, has_answer, answered = zip(*items, strict=True)
    return best_threshold(scores, probabilities, has_answer, answered).value
