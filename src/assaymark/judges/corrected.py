"""Win rates by a judge, corrected by the votes of people on some of the same pairs of answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.errors import DataError
from assaymark.judges.agreement import PairKey, PairVote, by_pair
from assaymark.judges.single import mean_over_questions
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean
from assaymark.statistics.judge_correction import ppi_mean, rogan_gladen

FEWEST_LABELS = 10


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """One model's win rate, with ties as half a win.

    judge: by the judge alone, over all its pairs. people: by human votes alone, where there are any.
    ppi: prediction-powered, valid whatever the judge's quality; None if too few pairs have labels, or all have one.
    rogan_gladen: from the judge's sensitivity and specificity, over decisive verdicts; None as for `ppi`, or where the
        judge is no better than chance.
    """

    model: str
    n_judged: int
    n_labelled: int
    judge: IntervalEstimate
    people: IntervalEstimate | None
    ppi: IntervalEstimate | None
    rogan_gladen: IntervalEstimate | None
    why_none: str | None


@dataclass(frozen=True, slots=True)
class _Sides:
    """A model's scores: by the judge without and with a human label, and the labels."""

    questions: tuple[str, ...]  # of all judged pairs
    judged: tuple[float, ...]
    only: tuple[float, ...]  # of `judged`, those without a label
    labelled: tuple[float, ...]
    labels: tuple[float, ...]


def corrected_rates(judged: Sequence[PairVote], people: Sequence[PairVote]) -> list[CorrectedRate]:
    """Return each model's win rate over the pairs that the judge has seen, best first, with its corrections."""
    verdicts, labels = by_pair(judged), by_pair(people)
    models = sorted({model for key in verdicts for model in key[1:]})
    rates = [_rate(model, _sides_of(model, verdicts, labels)) for model in models]
    return sorted(rates, key=lambda rate: -rate.judge.value)


def _sides_of(model: str, verdicts: dict[PairKey, list[PairVote]], labels: dict[PairKey, list[PairVote]]) -> _Sides:
    questions, judged, only, labelled, truth = [], [], [], [], []
    for key, votes in verdicts.items():
        if model not in key[1:]:
            continue
        is_first = key[1] == model
        value = _mean(votes) if is_first else 1.0 - _mean(votes)
        questions.append(votes[0].question)
        judged.append(value)
        if key in labels:
            labelled.append(value)
            truth.append(_mean(labels[key]) if is_first else 1.0 - _mean(labels[key]))
        else:
            only.append(value)
    return _Sides(tuple(questions), tuple(judged), tuple(only), tuple(labelled), tuple(truth))


def _mean(votes: Sequence[PairVote]) -> float:
    return sum(vote.value for vote in votes) / len(votes)


def _rate(model: str, sides: _Sides) -> CorrectedRate:
    judge = mean_over_questions(sides.judged, sides.questions, bounds=(0.0, 1.0))
    people = estimate_mean(sides.labels, bounds=(0.0, 1.0)) if sides.labels else None
    why = None
    if len(sides.labels) < FEWEST_LABELS:
        why = f"{len(sides.labels)} labels; at least {FEWEST_LABELS} are needed"
    elif not sides.only:
        why = "people voted on every judged pair, so nothing is left to correct: use their win rate"
    if why is not None:
        return CorrectedRate(model, len(sides.judged), len(sides.labels), judge, people, None, None, why)
    ppi = ppi_mean(sides.only, sides.labelled, sides.labels)
    gladen, why = _rogan_gladen(sides)
    return CorrectedRate(model, len(sides.judged), len(sides.labels), judge, people, ppi, gladen, why)


def _rogan_gladen(sides: _Sides) -> tuple[IntervalEstimate | None, str | None]:
    """Return Rogan and Gladen's estimate over decisive verdicts, or why there is none."""
    both = [(f, y) for f, y in zip(sides.labelled, sides.labels, strict=True) if f != 0.5 and y != 0.5]
    on_right = [f > 0.5 for f, y in both if y > 0.5]
    on_wrong = [f < 0.5 for f, y in both if y < 0.5]
    decisive = [f for f in sides.only if f != 0.5]
    if not on_right or not on_wrong or not decisive:
        return None, "no decisive labels of both kinds for Rogan-Gladen"
    counts = (sum(on_wrong), len(on_wrong)), (sum(on_right), len(on_right))
    try:
        return rogan_gladen(sum(f > 0.5 for f in decisive), len(decisive), *counts), None
    except DataError as error:
        return None, str(error)
