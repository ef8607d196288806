"""What a judge prefers besides quality: long answers, the answer shown first, its own answers; each beside people's."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.judges.agreement import PairVote, by_pair
from assaymark.judges.question_means import mean_over_questions
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.logistic import Slope, logistic_slope

__all__ = ["SelfPreference", "first_share", "length_slope", "own_model", "self_preference"]


@dataclass(frozen=True, slots=True)
class SelfPreference:
    """How much better a judge finds the answers of its own model than people do.

    difference: its mean score for them minus people's, on the same pairs of answers; -1 to 1.
    """

    model: str
    judge: float
    people: float
    difference: IntervalEstimate


def length_slope(votes: Sequence[PairVote]) -> Slope | None:
    """Return the slope of the log-odds of winning on log2 of the ratio of lengths; None without lengths.

    Its unit: what it adds to the log-odds that the first answer is preferred if that is twice as long as the other one.
    Ties are excluded; votes on one question are dependent.
    """
    known = [(vote, vote.lengths) for vote in votes if vote.lengths is not None and vote.value != 0.5]
    usable = [(vote, a, b) for vote, (a, b) in known if a > 0 and b > 0]
    if not usable:
        return None
    x = [math.log2(a / b) for _, a, b in usable]
    return logistic_slope(x, [vote.value for vote, *_ in usable], [vote.question for vote, *_ in usable])


def first_share(votes: Sequence[PairVote]) -> IntervalEstimate | None:
    """Return the share of decisive votes for the first answer.

    It is a bias of position only if the answers' sides were drawn by chance and `first` is the one shown first. So
    there is none (None) where every two models stand in one order only, which is then the models' and not chance.
    """
    decisive = [vote for vote in votes if vote.value != 0.5]
    orders = {(vote.first, vote.second) for vote in votes}
    if not decisive or not any((second, first) in orders for first, second in orders):
        return None
    return mean_over_questions([vote.value for vote in decisive], [vote.question for vote in decisive], binary=True)


def own_model(judge: str, models: Sequence[str]) -> str | None:
    """Return the judged model that is the judge itself, by the letters and digits of both names; None if none is."""
    plain = {_plain(model): model for model in models}
    return plain.get(_plain(judge))


def _plain(name: str) -> str:
    return "".join(character for character in name.rstrip("/").rpartition("/")[2].lower() if character.isalnum())


def _for(model: str, vote: PairVote) -> float:
    return vote.value if vote.first == model else 1.0 - vote.value


def self_preference(judged: Sequence[PairVote], people: Sequence[PairVote], model: str) -> SelfPreference | None:
    """Return a judge's preference for its own model beyond people's; None with fewer than two pairs of both."""
    labels = by_pair(people)
    own: list[tuple[str, float, float]] = []
    for key, verdicts in by_pair(judged).items():
        if key in labels and model in key[1:]:
            human = sum(_for(model, vote) for vote in labels[key]) / len(labels[key])
            own += [(vote.question, _for(model, vote), human) for vote in verdicts]
    if len(own) < 2:
        return None
    differences = [judge - human for _, judge, human in own]
    estimate = mean_over_questions(differences, [question for question, *_ in own], bounds=(-1.0, 1.0))
    n = len(own)
    return SelfPreference(model, sum(judge for _, judge, _ in own) / n, sum(human for *_, human in own) / n, estimate)
