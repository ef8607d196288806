"""What is said about a judge, from votes made so that the truth is known."""

import numpy as np

from assaymark.judges.agreement import PairVote, agreement_of
from assaymark.judges.biases import first_share, length_slope, own_model, self_preference
from assaymark.judges.corrected import corrected_rates
from assaymark.judges.trust import trust_sentence

VALUES = (1.0, 0.5, 0.0)


def votes(n: int, right: float, rater: str, seed: int) -> list[PairVote]:
    """Return a rater's votes on n pairs, right with this probability and else drawn; the truth is that of seed 0."""
    truth = np.random.default_rng(0).integers(0, 3, n)
    rng = np.random.default_rng(seed)
    given = np.where(rng.random(n) < right, truth, rng.integers(0, 3, n))
    return [PairVote(str(index), "", "ant", "bee", VALUES[value], rater) for index, value in enumerate(given)]


def sentence(judge: list[PairVote], *people: list[PairVote]) -> str:
    """Return what is said."""
    return trust_sentence(agreement_of(judge, [vote for one in people for vote in one]))


def test_what_is_said_follows_from_agreement() -> None:
    """As good as a person, worse but usable, useless, and too few labels."""
    ada, alan = votes(300, 0.9, "ada", 1), votes(300, 0.9, "alan", 2)
    assert sentence(votes(300, 0.9, "j", 3), ada, alan).startswith("This judge can be trusted here as one more person")
    assert sentence(votes(300, 0.75, "j", 3), ada, alan).startswith("This judge can ")
    assert sentence(votes(300, 0.3, "j", 3), ada, alan).startswith("This judge cannot be trusted here: it agrees")
    assert "would be expected by chance" in sentence(votes(300, 0.0, "j", 3), ada, alan)
    assert sentence(votes(300, 0.9, "j", 3), ada[:40]).startswith("It cannot be said whether this judge can be trusted")
    assert sentence(votes(300, 0.9, "j", 3), ada).startswith("This judge can be trusted here with the corrected")


def test_agreement_does_not_depend_on_which_model_stands_first() -> None:
    """Exchanged sides, in one file or both, change no number."""
    judge, people = votes(200, 0.6, "j", 3), votes(200, 0.9, "ada", 1)
    turned = [PairVote(v.question, v.part, v.second, v.first, 1 - v.value, v.rater) for v in judge]
    other = [PairVote(v.question, v.part, "zoe" if v.first == "ant" else v.first, v.second, v.value, v.rater)
             for v in judge]  # fmt: skip
    renamed = [PairVote(v.question, v.part, "zoe", v.second, v.value, v.rater) for v in people]
    found = agreement_of(judge, people)
    assert agreement_of(turned, people) == found
    assert agreement_of(other, renamed).judge.kappa == found.judge.kappa


def test_a_person_is_not_compared_with_himself() -> None:
    """Votes that one rater gave twice are two votes beside the judge's, and no agreement of two people."""
    judge, ada, alan = votes(50, 0.6, "j", 3), votes(50, 0.9, "ada", 1), votes(50, 0.9, "alan", 2)
    again = agreement_of(judge, [*ada, *ada])
    assert (again.people.n, again.judge.n) == (0, 100)
    assert agreement_of(judge, [*ada, *ada, *alan]).people.n == 100
    without_names = [PairVote(v.question, v.part, v.first, v.second, v.value, "") for v in ada]
    assert agreement_of(judge, [*without_names, *without_names]).people.n == 50


def test_corrections_find_the_truth_of_a_biased_judge() -> None:
    """A judge that calls a third of ant's losses wins: its own rate is far off, the corrected ones hold the truth."""
    people = [vote for vote in votes(3000, 1.0, "ada", 1) if vote.value != 0.5]
    rng = np.random.default_rng(5)
    judge = [
        PairVote(v.question, "", "ant", "bee", 1.0 if v.value or rng.random() < 0.33 else 0.0, "j") for v in people
    ]
    truth = float(np.mean([vote.value for vote in people]))
    (ant,) = [rate for rate in corrected_rates(judge, people[:600]) if rate.model == "ant"]
    assert ant.judge.low is not None
    assert ant.judge.low > truth + 0.1
    for corrected in (ant.ppi, ant.rogan_gladen):
        assert corrected is not None
        assert corrected.low is not None
        assert corrected.high is not None
        assert corrected.low < truth < corrected.high


def test_self_preference_is_measured_beside_people() -> None:
    """A judge that gives its own model every pair is one half above people who are undecided."""
    people = [PairVote(str(n), "", "ant", "bee", float(n % 2), "ada") for n in range(40)]
    judge = [PairVote(str(n), "", "ant", "bee", 1.0, "j") for n in range(40)]
    found = self_preference(judge, people, "ant")
    assert found is not None
    assert (found.judge, found.people, found.difference.value) == (1.0, 0.5, 0.5)
    assert own_model("org/Ant-1.5", ["ant15", "bee"]) == "ant15"
    assert own_model("wasp", ["ant", "bee"]) is None


def test_a_first_position_needs_both_orders() -> None:
    """One order of the models only says nothing about position; lengths that are not known say nothing about length."""
    one_order = [PairVote(str(n), "", "ant", "bee", 1.0, "j") for n in range(10)]
    both = [*one_order, *(PairVote(f"b{n}", "", "bee", "ant", 1.0, "j") for n in range(10))]
    assert first_share(one_order) is None
    found = first_share(both)
    assert found is not None
    assert found.value == 1.0
    assert length_slope(both) is None
