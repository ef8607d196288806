"""Voters who ignore the answers, found by a sequential test of each voter's votes.

Each vote multiplies the evidence against a voter by q'(vote) / q(vote): q is the probability of his vote if he votes as
all others do, q' that of a voter who clicks at random, always clicks the same button, or always favours one model. If q
is right, the mean of these products over the alternatives is a test martingale, so that with probability 1 - α an
honest voter never reaches 1 / α, however long he votes and whenever one looks (Ville's inequality). Real voters differ
in taste, so q is not exactly right, and the rates of true and false positives are measured by simulation
(`benchmarks/arena_simulation.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.arena.arena_rows import VoteRow
from assaymark.statistics.arrays import Floats
from assaymark.statistics.battles import penalised_strengths

FALSE_POSITIVES = 0.01
"""α: the share of honest voters that the test may flag."""

FEWEST = 5  # votes before a voter can be flagged
_STUCK = 0.9  # probability with which an alternative voter clicks his button
_LEAST = 0.02  # probability of any choice: bounds the evidence of one vote


@dataclass(frozen=True, slots=True)
class Flag:
    """A voter whose votes are left out of ratings."""

    voter: str
    n_votes: int
    evidence: float  # the largest value that the martingale reached
    reason: str  # the alternative that explains the votes best


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """How all voters vote: strengths of models, and shares of ties and both-bad."""

    numbers: Mapping[str, int]
    strengths: Floats
    tie: float
    both_bad: float

    def choice(self, vote: VoteRow) -> dict[str, float]:
        """Return the probability of each choice for a battle."""
        a, b = (self.strengths[self.numbers[name]] for name in (vote.model_a, vote.model_b))
        win = 1.0 / (1.0 + math.exp(b - a))
        decided = 1.0 - self.tie - self.both_bad
        raw = {"a": decided * win, "b": decided * (1 - win), "tie": self.tie, "both_bad": self.both_bad}
        bounded = {name: max(value, _LEAST) for name, value in raw.items()}
        total = sum(bounded.values())
        return {name: value / total for name, value in bounded.items()}


def expected_votes(votes: Sequence[VoteRow]) -> Expected:
    """Return how voters vote on average, with a prior that keeps every probability above 0."""
    models = sorted({name for vote in votes for name in (vote.model_a, vote.model_b)})
    numbers = {name: number for number, name in enumerate(models)}
    wins = np.zeros((len(models), len(models)))
    for vote in votes:
        a, b = numbers[vote.model_a], numbers[vote.model_b]
        won = {"a": 1.0, "b": 0.0}.get(vote.choice)
        if won is not None:
            wins[a, b] += won
            wins[b, a] += 1.0 - won
    n = len(votes) + 8
    tie, both_bad = ((sum(vote.choice == kind for vote in votes) + 1) / n for kind in ("tie", "both_bad"))
    return Expected(numbers, penalised_strengths(wins).strengths, tie, both_bad)


def flagged_voters(votes: Sequence[VoteRow], alpha: float = FALSE_POSITIVES) -> dict[str, Flag]:
    """Return the voters whose evidence reached 1 / alpha, by voter. A pure function of the votes.

    Args:
        votes: in the order in which they were cast.
        alpha: the largest probability of flagging a voter who votes as the others do.
    """
    expected = expected_votes(votes)
    by_voter: dict[str, list[VoteRow]] = {}
    for vote in votes:
        by_voter.setdefault(vote.voter, []).append(vote)
    flags = {}
    for voter, own in by_voter.items():
        if len(own) >= FEWEST:
            flag = _tested(voter, own, expected)
            if flag.evidence >= 1.0 / alpha:
                flags[voter] = flag
    return flags


def _tested(voter: str, votes: Sequence[VoteRow], expected: Expected) -> Flag:
    """Return a voter's largest evidence, and the alternative with the largest likelihood."""
    met = sorted({name for vote in votes for name in (vote.model_a, vote.model_b)})
    clicks = ("votes at random", "always left", "always right", "always tie", "always both bad")
    favours = tuple(f"favours {name}" for name in met)
    weights = [0.5 / len(clicks)] * len(clicks) + [0.5 / len(favours)] * len(favours)
    logs = np.log(weights)
    largest = -math.inf
    for count, vote in enumerate(votes, start=1):
        q = expected.choice(vote)
        own = [_clicks(name, vote.choice) for name in clicks] + [_favours(name, vote, q) for name in met]
        logs = logs + np.log(own) - math.log(q[vote.choice])
        if count >= FEWEST:
            largest = max(largest, float(np.logaddexp.reduce(logs)))
    return Flag(voter, len(votes), math.exp(min(largest, 700.0)), (*clicks, *favours)[int(np.argmax(logs))])


def _clicks(name: str, choice: str) -> float:
    """Return the probability of a choice by a voter who does not read; one at random clicks left or right."""
    if name == "votes at random":
        return 0.45 if choice in {"a", "b"} else 0.05
    stuck = {"always left": "a", "always right": "b", "always tie": "tie", "always both bad": "both_bad"}[name]
    return _STUCK if choice == stuck else (1.0 - _STUCK) / 3


def _favours(model: str, vote: VoteRow, q: Mapping[str, float]) -> float:
    """Return the probability of a vote by a voter who prefers one model wherever it appears."""
    if model not in {vote.model_a, vote.model_b}:
        return q[vote.choice]
    side = "a" if vote.model_a == model else "b"
    return _STUCK if vote.choice == side else (1.0 - _STUCK) / 3
