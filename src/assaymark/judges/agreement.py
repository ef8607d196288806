"""Agreement of a judge with people, pair by pair: with and without ties, compared with chance and among people.

A share of agreement alone says little: two raters who mostly vote for the same model agree by chance, and people agree
with each other on three verdicts only two times out of three. So each share is shown with its chance level, its n, and
the same share among people. A judge is also compared with two that do not read the answers: one always names the model
that people prefer, the other always the answer in the same position.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, zip_longest

from assaymark.errors import DataError
from assaymark.judges.single import mean_over_questions
from assaymark.statistics.agreement import Agreement, Level, krippendorff_alpha, stratified_kappa
from assaymark.statistics.estimate import IntervalEstimate

PairKey = tuple[str, str, str]  # item, then the models in alphabetical order
TIE = 0.5
ONE_SIDED = 0.9  # confidence of the interval whose low end is above 0 in a one-sided test at 5%
RaterPair = tuple["PairVote", "PairVote"]


@dataclass(frozen=True, slots=True)
class PairVote:
    """One rater's verdict on two models' answers. value: 1 if `first` is better, 0 if `second`, 1/2 for a tie."""

    question: str
    part: str  # tells votes on one question apart: its turn; empty without turns
    first: str
    second: str
    value: float
    rater: str
    lengths: tuple[float, float] | None = None  # of both answers, in characters or tokens
    is_turned: bool = False  # the rater saw `second` first: `oriented` exchanged the two

    @property
    def item(self) -> str:
        """The question and its part."""
        return f"{self.question}/{self.part}"

    @property
    def key(self) -> PairKey:
        """A key that is equal for votes on the same two answers, once they are `oriented`."""
        return (self.item, self.first, self.second)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of agreeing pairs of votes.

    chance: the share of independent raters who give the same verdicts equally often for each pair of models.
    """

    n_agreeing: int
    n: int
    estimate: IntervalEstimate | None  # clustered by question; None without pairs
    chance: float | None
    kappa: Agreement | None


@dataclass(frozen=True, slots=True)
class BesideConstant:
    """A judge compared with one that ignores the answers and always gives people's most frequent verdict."""

    constant: float  # share of comparisons in which that judge agrees with people
    gain: IntervalEstimate  # of the judge over it, clustered by question; significant at 5% if the low end is above 0


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Agreement of a judge with people, and of people with each other."""

    n_judged: int
    n_labelled: int  # judged pairs of answers with at least one human vote
    n_votes: int  # of people, on those
    judge: Share
    judge_decisive: Share  # without pairs of votes with a tie
    people: Share
    people_decisive: Share
    with_majority: Share  # against the verdict of most people, where at least two voted and one verdict leads
    alpha: Agreement | None  # Krippendorff's, of all people
    beside_constant: BesideConstant | None  # one that knows the two models' names
    beside_position: BesideConstant | None  # one that always names the first answer that it is shown, or the second


def oriented(votes: Iterable[PairVote]) -> list[PairVote]:
    """Return the votes with the two models in alphabetical order, so that equal pairs have equal keys."""
    return [_turned(vote) if vote.first > vote.second else vote for vote in votes]


def _turned(vote: PairVote) -> PairVote:
    lengths = None if vote.lengths is None else (vote.lengths[1], vote.lengths[0])
    return replace(vote, first=vote.second, second=vote.first, value=1.0 - vote.value, lengths=lengths,
                   is_turned=not vote.is_turned)  # fmt: skip


def by_pair(votes: Iterable[PairVote]) -> dict[PairKey, list[PairVote]]:
    """Return oriented votes by the pair of answers they are about."""
    by_key: dict[PairKey, list[PairVote]] = defaultdict(list)
    for vote in oriented(votes):
        by_key[vote.key].append(vote)
    return dict(by_key)


def majority(votes: Sequence[PairVote]) -> PairVote | None:
    """Return the verdict that most of the votes on one pair have; None where two verdicts lead."""
    counts = Counter(vote.value for vote in votes).most_common()
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        return None
    return replace(votes[0], value=counts[0][0], rater="majority")


def agreement_of(judged: Iterable[PairVote], people: Iterable[PairVote]) -> RaterAgreement:
    """Return the agreement of a judge with people on the pairs of answers that both have judged.

    Each human vote is compared with the judge's verdict on the same two answers, and human votes on the same two
    answers with each other (also on pairs that the judge did not see). Agreement is the same verdict of three.

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
    compared = [(vote, other) for key in shared for vote in verdicts[key] for other in labels[key]]
    among = [
        (vote, other)
        for votes in labels.values()
        for vote, other in combinations(votes, 2)
        if are_two_people(vote.rater, other.rater)
    ]
    leading = [(vote, most) for key in shared if len(labels[key]) > 1 and (most := majority(labels[key]))
               for vote in verdicts[key]]  # fmt: skip
    return RaterAgreement(
        len(verdicts),
        len(shared),
        sum(len(labels[key]) for key in shared),
        _share(compared),
        _share(_decisive(compared)),
        _share(among, symmetric=True),
        _share(_decisive(among), symmetric=True),
        _share(leading),
        alpha_of_people(([vote.value for vote in votes] for votes in labels.values()), "nominal"),
        _beside_constant(
            [((vote.first, vote.second), vote.question, vote.value, label.value) for vote, label in compared]
        ),
        _beside_constant([("", vote.question, *_as_seen(vote, label)) for vote, label in compared]),
    )


def are_two_people(rater: str, other: str) -> bool:
    """Return whether two raters are different people; those without a name are."""
    return not rater or rater != other


def _decisive(pairs: Sequence[RaterPair]) -> list[RaterPair]:
    return [(vote, other) for vote, other in pairs if TIE not in (vote.value, other.value)]


def _share(pairs: Sequence[RaterPair], *, symmetric: bool = False) -> Share:
    """Return the share of equal verdicts; `symmetric`: two people have no order, so each pair counts in both.

    Chance is that of each two models' own verdicts: where people and judge mostly prefer the same one of two, they
    agree often without looking at the answers. Votes are oriented, so it does not depend on which model stands first.
    """
    if not pairs:
        return Share(0, 0, None, None, None)
    same = [float(vote.value == other.value) for vote, other in pairs]
    questions = [vote.question for vote, _ in pairs]
    estimate = mean_over_questions(same, questions, binary=True)
    firsts, seconds = [vote.value for vote, _ in pairs], [other.value for _, other in pairs]
    models = [(vote.first, vote.second) for vote, _ in pairs]
    if symmetric:
        _, chance = stratified_kappa(firsts + seconds, seconds + firsts, models * 2, questions * 2)
        return Share(int(sum(same)), len(pairs), estimate, chance, None)
    kappa, chance = stratified_kappa(firsts, seconds, models, questions)
    return Share(int(sum(same)), len(pairs), estimate, chance, kappa)


def _as_seen(vote: PairVote, label: PairVote) -> tuple[float, float]:
    """Return the judge's and a person's verdict for the answer that the judge saw first."""
    return (1.0 - vote.value, 1.0 - label.value) if vote.is_turned else (vote.value, label.value)


def _beside_constant(compared: Sequence[tuple[Hashable, str, float, float]]) -> BesideConstant | None:
    """Return the judge's agreement with people beside a constant judge's; None where no group has two questions.

    The constant judge gives each group the verdict that people give it most often on all other questions, so it is not
    fitted to the votes that it is compared with. Of equally frequent verdicts it has a share of each.

    compared: group, question, the judge's verdict, a person's.
    """
    verdicts: dict[Hashable, Counter[float]] = defaultdict(Counter)
    own: dict[tuple[Hashable, str], Counter[float]] = defaultdict(Counter)
    for group, question, _, label in compared:
        verdicts[group][label] += 1
        own[group, question][label] += 1
    constant, gains, questions = [], [], []
    for group, question, verdict, label in compared:
        others = verdicts[group] - own[group, question]
        if not others:
            continue
        most = max(others.values())
        usual = [value for value, count in others.items() if count == most]
        constant.append((label in usual) / len(usual))
        gains.append(float(verdict == label) - constant[-1])
        questions.append(question)
    if not gains:
        return None
    gain = mean_over_questions(gains, questions, bounds=(-1.0, 1.0), confidence=ONE_SIDED)
    return BesideConstant(sum(constant) / len(constant), gain)


def alpha_of_people(ratings: Iterable[Sequence[float]], level: Level) -> Agreement | None:
    """Return Krippendorff's alpha of people's ratings of each unit; the n-th of a unit stands for the n-th rater."""
    units = [of_unit for of_unit in ratings if len(of_unit) > 1]
    return krippendorff_alpha(list(zip_longest(*units)), level) if units else None
