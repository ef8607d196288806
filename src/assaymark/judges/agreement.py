"""Agreement of a judge with people, pair by pair: with and without ties, beside chance and beside people themselves.

A bare share of agreement says nothing: two raters who mostly vote for the same model agree by chance, and people agree
with each other on three verdicts in two cases of three only. So each share stands beside its chance level, its n, and
the same share among people.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from assaymark.errors import DataError
from assaymark.judges.question_means import mean_over_questions
from assaymark.statistics.agreement import Agreement, cohen_kappa, krippendorff_alpha
from assaymark.statistics.distributions import two_sided_z
from assaymark.statistics.estimate import IntervalEstimate

__all__ = ["PairVote", "RaterAgreement", "Share", "agreement_of", "are_two_people", "by_pair", "majority",
           "oriented"]  # fmt: skip

PairKey = tuple[str, str, str]  # item, then the models in alphabetical order
TIE = 0.5
RaterPair = tuple["PairVote", "PairVote"]


@dataclass(frozen=True, slots=True)
class PairVote:
    """One rater's verdict on two models' answers. value: 1 if `first` is better, 0 if `second`, 1/2 for a tie."""

    question: str
    part: str  # what separates the votes on one question: its turn; empty without
    first: str
    second: str
    value: float
    rater: str
    lengths: tuple[float, float] | None = None  # of both answers, in characters or tokens

    @property
    def item(self) -> str:
        """The question and its part."""
        return f"{self.question}/{self.part}"

    @property
    def key(self) -> PairKey:
        """What votes on the same two answers have in common, once they are `oriented`."""
        return (self.item, self.first, self.second)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of agreeing pairs of votes. chance: what independent raters with these frequencies would reach."""

    n_agreeing: int
    n: int
    estimate: IntervalEstimate | None  # clustered by question; None without pairs
    chance: float | None
    kappa: Agreement | None


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How a judge agrees with people, and people with each other."""

    n_judged: int
    n_labelled: int  # judged pairs of answers with at least one human vote
    n_votes: int  # of people, on those
    judge: Share
    judge_decisive: Share  # without any pair of votes of which one is a tie
    people: Share
    people_decisive: Share
    with_majority: Share  # against the verdict of most people, where at least two voted and one verdict leads
    alpha: Agreement | None  # Krippendorff's, of all people


def oriented(votes: Iterable[PairVote]) -> list[PairVote]:
    """Return the votes with the two models in alphabetical order, so that equal pairs have equal keys."""
    return [_turned(vote) if vote.first > vote.second else vote for vote in votes]


def _turned(vote: PairVote) -> PairVote:
    lengths = None if vote.lengths is None else (vote.lengths[1], vote.lengths[0])
    return replace(vote, first=vote.second, second=vote.first, value=1.0 - vote.value, lengths=lengths)


def by_pair(votes: Iterable[PairVote]) -> dict[PairKey, list[PairVote]]:
    """Return oriented votes by the pair of answers they are about."""
    found: dict[PairKey, list[PairVote]] = defaultdict(list)
    for vote in oriented(votes):
        found[vote.key].append(vote)
    return dict(found)


def majority(votes: Sequence[PairVote]) -> PairVote | None:
    """Return the verdict that most of the votes on one pair have; None where two verdicts lead."""
    counts = Counter(vote.value for vote in votes).most_common()
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return None
    return replace(votes[0], value=counts[0][0], rater="majority")


def agreement_of(judged: Iterable[PairVote], people: Iterable[PairVote]) -> RaterAgreement:
    """Return the agreement of a judge with people on the pairs of answers that both have judged.

    Each human vote is compared with the judge's verdict on the same two answers, and each two people's votes on the
    same two answers with each other (on pairs that the judge did not see too). Agreement is the same verdict of three.

    Source: MT-bench's agreement (Zheng et al. 2023, table 5), which takes a judge's two orders that differ as a tie.
    Raises: DataError if no pair of answers has votes of both.
    """
    verdicts, labels = by_pair(judged), by_pair(people)
    shared = [key for key in verdicts if key in labels]
    if not shared:
        raise DataError(
            f"{len(verdicts):,} judged pairs and {len(labels):,} pairs with human votes have none in common; they are "
            "matched by question, turn and the names of both models"
        )
    compared = [(one, other) for key in shared for one in verdicts[key] for other in labels[key]]
    among = [
        (one, other)
        for votes in labels.values()
        for one, other in combinations(votes, 2)
        if are_two_people(one.rater, other.rater)
    ]
    leading = [(one, most) for key in shared if len(labels[key]) > 1 and (most := majority(labels[key]))
               for one in verdicts[key]]  # fmt: skip
    return RaterAgreement(
        len(verdicts),
        len(shared),
        sum(len(labels[key]) for key in shared),
        _share(compared),
        _share(_decisive(compared)),
        _share(among, symmetric=True),
        _share(_decisive(among), symmetric=True),
        _share(leading),
        _alpha(labels),
    )


def are_two_people(one: str, other: str) -> bool:
    """Return whether two raters are different people; those without a name are."""
    return not one or one != other


def _decisive(pairs: Sequence[RaterPair]) -> list[RaterPair]:
    return [(one, other) for one, other in pairs if TIE not in (one.value, other.value)]


def _share(pairs: Sequence[RaterPair], *, symmetric: bool = False) -> Share:
    """Return the share of equal verdicts; `symmetric`: two people have no order, so each pair counts in both."""
    if not pairs:
        return Share(0, 0, None, None, None)
    same = [float(one.value == other.value) for one, other in pairs]
    estimate = mean_over_questions(same, [one.question for one, _ in pairs], binary=True)
    firsts, seconds = [one.value for one, _ in pairs], [other.value for _, other in pairs]
    if symmetric:
        both = Counter(firsts + seconds)
        chance = sum((count / (2 * len(pairs))) ** 2 for count in both.values())
        return Share(int(sum(same)), len(pairs), estimate, chance, None)
    kappa = _kappa(firsts, seconds)
    mirrored = (
        Counter([*firsts, *(1.0 - value for value in firsts)]),
        Counter([*seconds, *(1.0 - value for value in seconds)]),
    )
    chance = sum(count * mirrored[1][value] for value, count in mirrored[0].items()) / (2 * len(pairs)) ** 2
    return Share(int(sum(same)), len(pairs), estimate, chance, kappa)


def _kappa(firsts: Sequence[float], seconds: Sequence[float]) -> Agreement:
    """Return Cohen's kappa with each pair of answers in both orders, so that it does not depend on which is first.

    That doubles every comparison, which makes the standard error too small by the square root of two.
    """
    doubled = cohen_kappa(
        [*firsts, *(1.0 - value for value in firsts)], [*seconds, *(1.0 - value for value in seconds)]
    )
    if doubled.value is None or doubled.stderr is None:
        return replace(doubled, n=len(firsts))
    stderr = math.sqrt(2.0) * doubled.stderr
    half = two_sided_z(0.95) * stderr
    low, high = max(doubled.value - half, -1.0), min(doubled.value + half, 1.0)
    return Agreement(doubled.value, low, high, stderr, doubled.method, len(firsts))


def _alpha(labels: Mapping[PairKey, Sequence[PairVote]]) -> Agreement | None:
    """Return Krippendorff's alpha of all people; the n-th vote on a pair stands for the n-th rater."""
    units = [[vote.value for vote in votes] for votes in labels.values() if len(votes) > 1]
    if not units:
        return None
    most = max(map(len, units))
    ratings = [[unit[rater] if rater < len(unit) else None for unit in units] for rater in range(most)]
    return krippendorff_alpha(ratings, "nominal")
