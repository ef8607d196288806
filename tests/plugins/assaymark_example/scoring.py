"""A metric, an aggregation and a filter's step."""

from collections.abc import Sequence
from typing import Any

import assaymark
from assaymark.scoring.choices import ChoiceAnswer


@assaymark.metric(formula="words that answer and reference share, of all their words", aggregation="lower_half")
def words_in_common(references: Sequence[str], predictions: Sequence[str], **_: Any) -> float:
    """Return the Jaccard index of the words of one answer and its reference."""
    reference, answer = set(references[0].split()), set(predictions[0].split())
    return len(reference & answer) / len(reference | answer) if reference | answer else 1.0


@assaymark.metric(of="multiple_choice", formula="share of the choices' probability that is on the right ones")
def gold_probability(answer: ChoiceAnswer, **_: Any) -> float:
    """Return the share of the choices' probability that is on the right ones."""
    return float(answer.probabilities[sorted(answer.gold_set)].sum())


@assaymark.aggregation(is_share=True)
def lower_half(items: Sequence[float]) -> float:
    """Return the mean of the worse half of the samples."""
    ordered = sorted(items)
    worse = ordered[: (len(ordered) + 1) // 2]
    return sum(worse) / len(worse)


@assaymark.filter_step
class LastLine:
    """Keeps the last line of each answer."""

    def apply(self, resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
        """Return the last lines; resps: all answers of each sample."""
        return [[answer.strip().rsplit("\n", 1)[-1] for answer in answers] for answers in resps]
