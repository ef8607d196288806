"""Battles: states, limits, pairs and sides, batches."""

from pathlib import Path

import numpy as np
import pytest

from assaymark.arena.answer_files import ArenaPrompt, names_its_model, stored_answers
from assaymark.arena.arena_log import AlreadyVoted, ArenaLog
from assaymark.arena.ballots import Publishing, Refused, VoteLimits, Voter, keyed_hash
from assaymark.arena.battles import Pairing
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.randomness import generator_for
from assaymark.statistics.battles import expected_reductions, penalised_strengths
from tests.arena.stored_votes import arena_in, cast

ONE, OTHER = Voter("one", "here"), Voter("other", "there")


def test_names_come_with_the_vote(tmp_path: Path) -> None:
    """An open battle has neither models nor choice; after the vote it has both, and keeps them."""
    arena = arena_in(tmp_path / "s.sqlite")
    result = arena.begin(ONE)
    assert (result.state, result.models, result.choice) == ("open", None, None)
    voted = arena.vote(ONE, result.token, "b", "k", ("poor", "acceptable"))
    assert voted.models is not None
    assert arena.show(ONE, result.token) == voted
    assert (voted.choice, voted.marks) == ("b", ("poor", "acceptable"))


def test_the_answers_belong_to_the_named_sides(tmp_path: Path) -> None:
    """Whatever the coin says, answer A is model A's."""
    arena = arena_in(tmp_path / "s.sqlite")
    swapped = set()
    for number in range(30):
        result = arena.begin(ONE)
        voted = arena.vote(ONE, result.token, "a", str(number))
        stored = ArenaLog(arena.store).battle(result.token)
        assert stored is not None
        assert voted.models is not None
        swapped.add(stored.is_swapped)
        order = list(arena.source.models)
        for model, answer in zip(voted.models, (result.answer_a, result.answer_b), strict=True):
            assert answer is not None
            assert answer.startswith(f"text {order.index(model)} of ")
    assert swapped == {True, False}


def test_reloading_shows_the_same_battle(tmp_path: Path) -> None:
    """A voter cannot pass over a pair: beginning again returns his open battle, until he votes."""
    arena = arena_in(tmp_path / "s.sqlite")
    first = arena.begin(ONE)
    assert arena.begin(ONE) == first
    assert arena.begin(OTHER).token != first.token
    arena.vote(ONE, first.token, "tie", "k")
    assert arena.begin(ONE).token != first.token


def test_a_battle_is_its_voters_alone(tmp_path: Path) -> None:
    """Others neither see it nor vote on it, even if they know its token."""
    arena = arena_in(tmp_path / "s.sqlite")
    token = arena.begin(ONE).token
    with pytest.raises(UnknownName):
        arena.show(OTHER, token)
    with pytest.raises(UnknownName):
        arena.vote(OTHER, token, "a", "k")
    assert ArenaLog(arena.store).head().sequence == 0


def test_votes_that_are_not_votes_are_refused(tmp_path: Path) -> None:
    """Another choice, mark or key stores nothing."""
    arena = arena_in(tmp_path / "s.sqlite")
    token = arena.begin(ONE).token
    for choice, key, marks in (("c", "k", (None, None)), ("a", "", (None, None)), ("a", "k", ("good", None))):
        with pytest.raises(UsageError):
            arena.vote(ONE, token, choice, key, marks)
    arena.vote(ONE, token, "a", "k")
    with pytest.raises(AlreadyVoted):
        arena.vote(ONE, token, "b", "other key")
    assert arena.vote(ONE, token, "a", "k").choice == "a"


def test_limits_hold(tmp_path: Path) -> None:
    """The pause between votes, the votes of a voter and those of a network are bounded; repeating a vote is not."""
    now = [1000.0]
    arena = arena_in(tmp_path / "s.sqlite", limits=VoteLimits(5.0, 2, 3, 9), clock=lambda: now[0])

    def vote(voter: Voter) -> None:
        arena.vote(voter, (token := arena.begin(voter).token), "a", token)

    vote(ONE)
    with pytest.raises(Refused, match="5 seconds"):
        vote(ONE)
    now[0] += 6
    vote(ONE)
    now[0] += 6
    with pytest.raises(Refused, match="2 votes a day"):
        vote(ONE)
    vote(Voter("another", "here"))
    now[0] += 6
    with pytest.raises(Refused, match="this network"):
        vote(Voter("a third", "here"))
    vote(OTHER)
    now[0] += 86_401
    vote(ONE)


def test_fresh_voters_of_a_network_vote_no_sooner_than_one_voter(tmp_path: Path) -> None:
    """A voter without a vote waits for the pause after his network's last vote; unvoted battles are bounded too."""
    now = [1000.0]
    limits = VoteLimits(5.0, 100, 1000, 3000, unvoted_per_address=3)
    arena = arena_in(tmp_path / "s.sqlite", limits=limits, clock=lambda: now[0])

    def vote(voter: Voter) -> None:
        arena.vote(voter, (token := arena.begin(voter).token), "a", token)

    vote(Voter("first", "here"))
    with pytest.raises(Refused, match="vote of your network was less than 5 seconds ago"):
        vote(Voter("fresh", "here"))
    vote(Voter("another", "elsewhere"))
    now[0] += 6
    vote(Voter("first", "here"))
    now[0] += 3
    for name in ("second", "third"):
        arena.begin(Voter(name, "here"))
    with pytest.raises(Refused, match="3 battles of this network have no vote"):
        arena.begin(Voter("fourth", "here"))
    arena.begin(Voter("fourth", "elsewhere"))
    now[0] -= 600  # the clock is set back: nobody waits until it is there again
    vote(Voter("fourth", "elsewhere"))


def test_ratings_are_published_in_batches(tmp_path: Path) -> None:
    """No single vote moves the published votes: a batch has 20 votes, or at least 10 after an hour."""
    now = [1000.0]
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(20, 3600.0, 10), clock=lambda: now[0])
    log = ArenaLog(arena.store)
    cast(arena, 19)
    assert log.last_batch() is None
    cast(arena, 1, seed=2)
    assert (batch := log.last_batch()) is not None
    assert batch.sequence == 20
    now[0] += 3601
    cast(arena, 9, seed=3)
    assert log.last_batch() == batch
    cast(arena, 1, seed=4)
    assert (later := log.last_batch()) is not None
    assert later.sequence == 30


def test_a_withdrawn_model_is_drawn_no_more(tmp_path: Path) -> None:
    """After a restart; with one model left there is no battle."""
    arena = arena_in(tmp_path / "s.sqlite")
    ArenaLog(arena.store).withdraw("eel")
    again = arena_in(tmp_path / "s.sqlite")
    cast(again, 20)
    assert "eel" not in {name for vote in ArenaLog(again.store).votes() for name in (vote.model_a, vote.model_b)}
    for name in ("fox", "hen"):
        ArenaLog(arena.store).withdraw(name)
    with pytest.raises(DataError, match="needs two models"):
        arena_in(tmp_path / "s.sqlite")


def test_expected_reductions_are_those_of_the_updated_covariance() -> None:
    """The closed form equals the trace of the inverse before minus after adding the battle's information."""
    wins = np.array([[0, 9, 2.5], [3, 0, 1], [1.5, 0, 0]])
    fit = penalised_strengths(wins)
    result = expected_reductions(fit)
    precision = np.linalg.inv(fit.covariance)
    for i in range(3):
        for j in range(3):
            x = np.eye(3)[i] - np.eye(3)[j]
            p = 1 / (1 + np.exp(-(fit.strengths @ x)))
            after = np.linalg.inv(precision + p * (1 - p) * np.outer(x, x))
            assert result[i, j] == pytest.approx(np.trace(fit.covariance) - np.trace(after), abs=1e-10)


def test_penalised_strengths_maximise_the_penalised_likelihood() -> None:
    """The gradient, computed here by differences, is zero, also for a model that lost everything."""
    wins = np.array([[0, 5, 4.0], [0, 0, 2], [0, 1, 0]])

    def value(strengths: np.ndarray) -> float:
        p = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
        return float((wins * np.log(p)).sum() - (strengths**2).sum() / (2 * 1.5**2))

    best = penalised_strengths(wins).strengths
    for step in np.eye(3) * 1e-4:
        assert value(best + step) - value(best - step) == pytest.approx(0.0, abs=1e-9)


def test_pairs_with_fewer_battles_are_drawn_more_often(tmp_path: Path) -> None:
    """After many battles of two models, the others meet more often; every pair keeps a chance, and sides are even."""
    pairing = Pairing(["a", "b", "c", "d"])
    equal = pairing.probabilities()
    assert equal[np.triu_indices(4, 1)] == pytest.approx(1 / 6)
    pairing._wins[0, 1] = pairing._wins[1, 0] = 200.0
    pairing._probabilities = None
    moved = pairing.probabilities()
    assert 0 < moved[0, 1] < moved[0, 2] < moved[2, 3]
    generator = generator_for("test", 1)
    drawn = [pairing.draw(generator) for _ in range(4000)]
    assert sum(each.is_swapped for each in drawn) / 4000 == pytest.approx(0.5, abs=0.04)
    met = sum({item.first, item.second} == {"c", "d"} for item in drawn) / 4000
    assert met == pytest.approx(moved[2, 3], abs=0.04)


def test_answers_that_name_a_model_are_left_out() -> None:
    """By any model's name, or its maker's; ordinary words that are parts of names do not count."""
    models = ("lmsys/vicuna-7b-v1.5", "gemma-2b-it", "large", "gpt4_0613")
    assert names_its_model("I am Vicuna, a model.", models)
    assert names_its_model("As an AI by OpenAI, I cannot", models)
    assert names_its_model("Я Модель", ("модель-7b", "other"))
    assert not names_its_model("A large instruct chat of 7b birds; 3 gems.", models)
    prompts = {"p": ArenaPrompt("p", "?")}
    said = {"gemma": {"p": "x"}, "b": {"p": "y"}, "c": {"p": "I am Gemma"}, "d": {"p": " ", "q": ""}}
    source, notes = stored_answers("s", prompts, said)
    assert notes == ("left out: 1 answer with the name of a model", "left out: 2 empty answers")
    assert (source.shared("gemma", "b"), source.shared("gemma", "c")) == (("p",), ())
    with pytest.raises(DataError, match="no two of 2 models"):
        stored_answers("s", prompts, {"a": {"p": "same"}, "b": {"p": "same"}})


def test_keyed_hashes_need_the_secret() -> None:
    """Equal values agree under one secret and kind, and under no other."""
    results = {keyed_hash(secret, kind, "x") for secret in (b"s", b"t") for kind in ("voter", "origin")}
    assert len(results) == 4
    assert keyed_hash(b"s", "voter", "x") in results
