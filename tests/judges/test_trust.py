"""What is said about a judge, from votes made so that the truth is known."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from assaymark.errors import UnknownName
from assaymark.judges.agreement import PairVote, agreement_of
from assaymark.judges.corrected import corrected_rates
from assaymark.judges.report import (
    JudgeVotes,
    first_share,
    length_slope,
    own_model,
    report_on,
    self_preference,
    trust_sentence,
)
from assaymark.statistics.agreement import stratified_kappa

VALUES = (1.0, 0.5, 0.0)


def votes(n: int, right: float, rater: str, seed: int) -> list[PairVote]:
    """Return a rater's votes on n pairs, right with this probability and else drawn; the truth is that of seed 0."""
    truth = np.random.default_rng(0).integers(0, 3, n)
    rng = np.random.default_rng(seed)
    inputs = np.where(rng.random(n) < right, truth, rng.integers(0, 3, n))
    return [PairVote(str(index), "", "ant", "bee", VALUES[value], rater) for index, value in enumerate(inputs)]


def sentence(judge: list[PairVote], *people: list[PairVote]) -> str:
    """Return what is said."""
    return trust_sentence(agreement_of(judge, [vote for each in people for vote in each]))


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
    result = agreement_of(judge, people)
    assert agreement_of(turned, people) == result
    assert agreement_of(other, renamed).judge.kappa == result.judge.kappa


def leaning(n: int, judge: str, *, share: float = 0.9, seed: int = 0) -> tuple[list[PairVote], list[PairVote]]:
    """Return a judge's votes and a person's on n pairs, in which the person prefers ant with this probability.

    judge: `constant` always names ant, `random` names it as often as people do but independently, `good` names what
    the person does in 95%.
    """
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(float)
    inputs = {
        "constant": np.ones(n),
        "random": (rng.random(n) < share).astype(float),
        "good": np.where(rng.random(n) < 0.95, truth, 1.0 - truth),
    }[judge]
    return (
        [PairVote(str(i), "", "ant", "bee", float(value), "j") for i, value in enumerate(inputs)],
        [PairVote(str(i), "", "ant", "bee", float(value), "ada") for i, value in enumerate(truth)],
    )


@pytest.mark.parametrize("judge", ["constant", "random", "good"])
def test_kappa_is_scikit_learns(judge: str) -> None:
    """For two models kappa and chance are Cohen's, whichever model stands first."""
    metrics = pytest.importorskip("sklearn.metrics")
    inputs, people = leaning(400, judge)
    result = agreement_of(inputs, people).judge
    values = [[vote.value for vote in votes] for votes in (inputs, people)]
    expected = metrics.cohen_kappa_score(*([str(value) for value in each] for each in values))
    assert result.kappa is not None
    assert result.kappa.value == pytest.approx(expected, abs=1e-12)
    shares = [float(np.mean(each)) for each in values]
    assert result.chance == pytest.approx(shares[0] * shares[1] + (1 - shares[0]) * (1 - shares[1]))


def test_a_judge_without_information_is_not_trusted() -> None:
    """Where people prefer one model in 90%, always naming it is agreement of 90%, all of it by chance."""
    inputs, people = leaning(400, "constant")
    result = agreement_of(inputs, people)
    assert result.judge.estimate is not None
    assert result.judge.estimate.value == pytest.approx(0.9, abs=0.03)
    assert result.judge.kappa is not None
    assert result.judge.kappa.value == pytest.approx(0.0, abs=1e-12)
    assert trust_sentence(result).startswith("This judge cannot be trusted here: it agrees with people in ")
    assert sentence(*leaning(400, "random")).startswith("This judge cannot be trusted here")
    assert sentence(*leaning(400, "good")).startswith("This judge can ")


def by_position(judge: str, seed: int) -> tuple[list[PairVote], list[PairVote]]:
    """Return votes on 300 pairs that models answer in random order, of which people prefer the first in 76%.

    judge: `first` and `second` always name that position, `follower` does in 95%, `good` agrees with people in 90%.
    """
    rng = np.random.default_rng(seed)
    people, inputs = [], []
    for number in range(300):
        key = (str(number), "", *(("ant", "bee") if rng.random() < 0.5 else ("bee", "ant")))
        label = float(rng.random() < 0.76)
        verdict = {
            "first": 1.0,
            "second": 0.0,
            "follower": float(rng.random() < 0.95),
            "good": label if rng.random() < 0.9 else 1.0 - label,
        }[judge]
        people.append(PairVote(*key, label, "ada"))
        inputs.append(PairVote(*key, verdict, "j"))
    return inputs, people


def test_a_judge_that_names_a_position_is_not_trusted() -> None:
    """Where people prefer the first answer in 76%, always naming it is not judging, whichever model stands there."""
    for judge in ("first", "second", "follower"):
        for seed in range(20):
            assert sentence(*by_position(judge, seed)).startswith("This judge cannot be trusted here"), (judge, seed)
    result = agreement_of(*by_position("first", 0))
    assert result.judge.kappa is not None
    assert (result.judge.kappa.value or 0.0) > 0.4  # over models in random order kappa does not see it
    assert result.beside_position is not None
    assert result.beside_position.gain.value == pytest.approx(0.0, abs=1e-12)
    assert "names the first answer, or always the second (7" in trust_sentence(result)
    said = [sentence(*by_position("good", seed)) for seed in range(20)]
    assert all(each.startswith("This judge can ") for each in said), said


def test_chance_is_of_each_two_models() -> None:
    """A judge that knows which of two models people prefer, but no answer, has kappa 0 over many pairs of models."""
    judge, people = [], []
    rng = np.random.default_rng(3)
    for first, second, share in (("ant", "bee", 0.9), ("ant", "cow", 0.2), ("bee", "cow", 0.05)):
        for number in range(300):
            key = (f"{first}{second}{number}", "", first, second)
            people.append(PairVote(*key, float(rng.random() < share), "ada"))
            judge.append(PairVote(*key, float(share > 0.5), "j"))
    result = agreement_of(judge, people)
    assert result.judge.kappa is not None
    assert result.judge.kappa.value == pytest.approx(0.0, abs=1e-12)
    assert result.beside_constant is not None
    assert result.beside_constant.gain.value == pytest.approx(0.0, abs=1e-12)
    assert trust_sentence(result).startswith("This judge cannot be trusted here")


def test_an_informed_judge_may_still_be_worse_than_a_constant_one() -> None:
    """With kappa above 0, but agreement below that of always naming the preferred model, a judge is not trusted."""
    rng = np.random.default_rng(1)
    truth = rng.random(800) < 0.9
    inputs = np.where(truth, rng.random(800) < 0.8, rng.random(800) < 0.4)
    people = [PairVote(str(i), "", "ant", "bee", float(value), "ada") for i, value in enumerate(truth)]
    judge = [PairVote(str(i), "", "ant", "bee", float(value), "j") for i, value in enumerate(inputs)]
    result = agreement_of(judge, people)
    assert result.judge.kappa is not None
    assert result.judge.kappa.low is not None
    assert result.judge.kappa.low > 0
    said = trust_sentence(result)
    assert "cannot be trusted here" in said
    assert "a judge that always names whichever of two models people prefer (" in said


def test_the_interval_of_kappa_holds_its_true_value() -> None:
    """Over 300 simulated judges with unequal base rates, the 95% interval covers the true kappa in 92% to 98%."""
    share, sensitivity, specificity = 0.85, 0.9, 0.6
    called = share * sensitivity + (1 - share) * (1 - specificity)
    observed = share * sensitivity + (1 - share) * specificity
    chance = share * called + (1 - share) * (1 - called)
    true, covered = (observed - chance) / (1 - chance), 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        truth = rng.random(250) < share
        inputs = np.where(truth, rng.random(250) < sensitivity, rng.random(250) > specificity)
        kappa, _ = stratified_kappa(list(inputs), list(truth), [0] * 250, list(range(250)))
        assert kappa.low is not None
        assert kappa.high is not None
        covered += kappa.low <= true <= kappa.high
    assert 0.92 <= covered / 300 <= 0.98


def test_corrected_rates_hold_the_truth_with_unequal_base_rates() -> None:
    """Of three models with base rates from 5% to 90%, the corrected intervals cover the true win rate in 92% or more.

    The judge is right about each verdict with a probability that depends on who has won, so its own rates are biased.
    """
    bases = {("ant", "bee"): 0.9, ("ant", "cow"): 0.6, ("bee", "cow"): 0.05}
    truth = {"ant": (0.9 + 0.6) / 2, "bee": (0.1 + 0.05) / 2, "cow": (0.4 + 0.95) / 2}
    covered: Counter[tuple[str, str]] = Counter()
    n_of: Counter[tuple[str, str]] = Counter()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        judge, people = [], []
        for (first, second), share in bases.items():
            for number in range(200):
                value = float(rng.random() < share)
                right = rng.random() < (0.95 if value else 0.7)
                key = (f"{first}{second}{number}", "", first, second)
                judge.append(PairVote(*key, value if right else 1.0 - value, "j"))
                if rng.random() < 0.3:
                    people.append(PairVote(*key, value, "ada"))
        for rate in corrected_rates(judge, people):
            for name, corrected in (("ppi", rate.ppi), ("rogan_gladen", rate.rogan_gladen)):
                if corrected is None or corrected.low is None or corrected.high is None:
                    continue
                n_of[rate.model, name] += 1
                covered[rate.model, name] += corrected.low <= truth[rate.model] <= corrected.high
    assert set(n_of) == {(model, name) for model in truth for name in ("ppi", "rogan_gladen")}
    assert min(n_of.values()) == 200
    assert min(covered[key] / n_of[key] for key in n_of) >= 0.92, covered


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
    result = self_preference(judge, people, "ant")
    assert result is not None
    assert (result.judge, result.people, result.difference.value) == (1.0, 0.5, 0.5)
    assert own_model("org/Ant-1.5", ["ant15", "bee"]) == "ant15"
    assert own_model("wasp", ["ant", "bee"]) is None


def test_a_first_position_needs_both_orders() -> None:
    """One order of the models only says nothing about position; lengths that are not known say nothing about length."""
    one_order = [PairVote(str(n), "", "ant", "bee", 1.0, "j") for n in range(10)]
    both = [*one_order, *(PairVote(f"b{n}", "", "bee", "ant", 1.0, "j") for n in range(10))]
    assert first_share(one_order) is None
    result = first_share(both)
    assert result is not None
    assert result.value == 1.0
    assert length_slope(both) is None


def test_the_judge_among_the_judged_may_be_named_by_the_end_of_its_name() -> None:
    """`judge_model` takes a judged model's whole name or its end; another name is refused with those there are."""
    people = votes(100, 0.9, "ada", 1)
    judged = [replace(vote, first="lab/small_ant", second="bee") for vote in votes(100, 0.9, "j", 2)]
    people = [replace(vote, first="lab/small_ant", second="bee") for vote in people]
    for name in ("lab/small_ant", "small_ant", "ant"):
        report = report_on(JudgeVotes("j", judged), people, name)
        assert report.own is not None
        assert report.own.model == "lab/small_ant"
    with pytest.raises(UnknownName, match="unknown judged model 'wasp'"):
        report_on(JudgeVotes("j", judged), people, "wasp")
