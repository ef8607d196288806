"""Simulated voters of known preferences: coverage of the intervals, and rates of the test for anomalous voters.

Three kinds of replication:
- plain: no ties, pairs drawn by removed variance, a preference for the left: intervals should contain the strengths
  that the voters have, and the side's effect, in 95% of cases;
- ties: 15% ties; half-tie Bradley-Terry has another scale then, so intervals are compared with the fit to 400,000
  votes;
- bots: voters who click at random, always the same button, or favour the weakest model, beside 40 honest ones: the
  shares that are flagged, and the rating of the weakest model with and without these exclusions.

Honest voters of the last differ in taste (40 points standard deviation for each model).

Usage: python benchmarks/arena_simulation.py [--replications 200] [--votes 1500] [--models 8]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from assaymark.arena.arena_rows import VoteRow
from assaymark.arena.battles import Pairing
from assaymark.arena.dishonest_voters import flagged_voters
from assaymark.arena.ratings import RatingSettings, rate
from assaymark.arena.vote_files import votes_in
from assaymark.arena.votes import published_row
from assaymark.datasets.rows import Rows
from assaymark.randomness import generator_for
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import ELO_SCALE, fit_bradley_terry

SIDE = 20.0  # points for the answer on the left
TIES = 0.15
N_VOTERS, N_PROMPTS = 40, 300
TASTE = 40.0  # points: standard deviation of a voter's own preference for each model


class Voters:
    """Voters who share strengths, up to a taste of their own."""

    def __init__(self, n_models: int, seed: object, *, ties: float = 0.0, taste: float = 0.0) -> None:
        self.generator = generator_for("arena simulation", seed)
        self.strengths = np.linspace(150.0, -150.0, n_models)
        self.names = [f"model {number}" for number in range(n_models)]
        self.ties, self.taste = ties, taste
        self.tastes: dict[str, np.ndarray] = {}

    def choice(self, voter: str, a: int, b: int) -> str:
        """Return an honest vote."""
        own = self.tastes.setdefault(voter, self.taste * self.generator.standard_normal(len(self.names)))
        if self.generator.random() < self.ties:
            return "tie"
        ahead = (self.strengths[a] + own[a] - self.strengths[b] - own[b] + SIDE) / ELO_SCALE
        return "a" if self.generator.random() < 1 / (1 + np.exp(-ahead)) else "b"

    def votes(self, n: int, *, adaptive: bool) -> list[VoteRow]:
        """Return n honest votes on pairs drawn evenly, or by the variance that they remove."""
        pairing, result = Pairing(self.names), []
        for number in range(n):
            pair = pairing.draw(self.generator)
            a, b = (self.names.index(name) for name in pair.sides)
            voter = f"voter {number % N_VOTERS}"
            prompt = int(self.generator.integers(N_PROMPTS))
            result.append(vote_row(number, voter, prompt, pair.sides, self.choice(voter, a, b)))
            if adaptive and number % 50 == 49:
                pairing.count(result[-50:])
        return result


def vote_row(number: int, voter: str, prompt: int, sides: Sequence[str], choice: str) -> VoteRow:
    """Return a vote as the log has it."""
    return VoteRow(number + 1, f"b{number}", 0.0, float(number), voter, "anonymous", "simulation", f"p{prompt}", None,
                   sides[0], sides[1], False, choice, None, None, True, "", "", "", "")  # fmt: skip


def is_within(low: float | None, high: float | None, value: float) -> bool:
    """Return whether an interval contains a value; an interval that could not be computed does not."""
    return low is not None and high is not None and low <= value <= high


def covered(votes: Sequence[VoteRow], truth: dict[str, float], side: float) -> tuple[list[bool], bool]:
    """Return for each model whether its interval contains the truth, and the same for the side's effect."""
    result = rate(votes_in(Rows.of([published_row(vote) for vote in votes])), RatingSettings(side=True))
    inside = [is_within(rating.low, rating.high, truth[rating.model]) for rating in result.ratings]
    (effect,) = result.effects
    return inside, is_within(effect.low, effect.high, side)


def truth_of(voters: Voters) -> dict[str, float]:
    """Return the strengths as ratings: their mean is 1,000."""
    return {name: 1000.0 + float(value) for name, value in zip(voters.names, voters.strengths, strict=True)}


def limit_of(voters: Voters, n: int = 400_000) -> tuple[dict[str, float], float]:
    """Return the ratings and side effect to which many votes with ties converge, for pairs drawn evenly."""
    generator = generator_for("arena simulation", "limit")
    first = generator.integers(len(voters.names), size=n)
    second = (first + 1 + generator.integers(len(voters.names) - 1, size=n)) % len(voters.names)
    ahead = (voters.strengths[first] - voters.strengths[second] + SIDE) / ELO_SCALE
    outcome = (generator.random(n) < 1 / (1 + np.exp(-ahead))).astype(float)
    outcome[generator.random(n) < voters.ties] = 0.5
    fit = fit_bradley_terry(Battles(first, second, outcome, len(voters.names)), np.ones((n, 1)))
    ratings = 1000.0 + ELO_SCALE * (fit.strengths - fit.strengths.mean())
    return dict(zip(voters.names, ratings.tolist(), strict=True)), float(fit.effects[0]) * ELO_SCALE


def coverage(kind: str, n_models: int, n_votes: int, replications: int) -> None:
    """Print the share of intervals that contain the truth."""
    ties = TIES if kind == "ties" else 0.0
    like = Voters(n_models, "like", ties=ties)
    truth, side = limit_of(like) if ties else (truth_of(like), SIDE)
    models, sides = [], []
    for replication in range(replications):
        votes = Voters(n_models, (kind, replication), ties=ties).votes(n_votes, adaptive=not ties)
        inside, of_side = covered(votes, truth, side)
        models += inside
        sides.append(of_side)
    error = 100 * (0.95 * 0.05 / len(models)) ** 0.5
    print(f"{kind}: 95% intervals of ratings contain the truth in {100 * np.mean(models):.1f}% of {len(models):,} "
          f"(± {1.96 * error:.1f} if independent), "
          f"of the side's effect in {100 * np.mean(sides):.1f}% of {len(sides)}")  # fmt: skip


def bots(n_models: int, n_votes: int, replications: int) -> None:
    """Print true and false positives of the test for each kind of bot, and the bias that is left."""
    kinds = ("random", "left", "right", "tie", "weakest")
    caught, honest, n_honest = dict.fromkeys(kinds, 0), 0, 0
    shift: dict[bool, list[float]] = {False: [], True: []}
    for replication in range(replications):
        voters = Voters(n_models, ("bots", replication), ties=TIES, taste=TASTE)
        votes = voters.votes(n_votes, adaptive=False)
        weakest = voters.names[-1]
        for kind in kinds:
            votes += bot_votes(voters, kind, n_votes // N_VOTERS, len(votes))
        flagged = flagged_voters(votes)
        for kind in kinds:
            caught[kind] += f"bot {kind}" in flagged
        honest += sum(name.startswith("voter") for name in flagged)
        n_honest += N_VOTERS
        clean = [vote for vote in votes if vote.voter.startswith("voter")]
        stuffed = [vote for vote in votes if vote.voter == "bot weakest" or vote.voter.startswith("voter")]
        for filtered in (False, True):
            used = [vote for vote in stuffed if not (filtered and vote.voter in flagged)]
            shift[filtered].append(rating_of(used, weakest) - rating_of(clean, weakest))
    n = n_votes // N_VOTERS
    print(f"bots of {n} votes flagged (true positives): "
          + ", ".join(f"{kind} {100 * caught[kind] / replications:.0f}%" for kind in kinds))  # fmt: skip
    print(f"honest voters of {n} votes flagged (false positives): {honest} of {n_honest:,} "
          f"({100 * honest / n_honest:.2f}%)")  # fmt: skip
    print(f"one bot of {N_VOTERS + 1} voters moves the weakest model by {np.mean(shift[False]):+.0f} points, "
          f"{np.mean(shift[True]):+.0f} with the test")  # fmt: skip


def rating_of(votes: Sequence[VoteRow], model: str) -> float:
    """Return a model's rating."""
    result = rate(votes_in(Rows.of([published_row(vote) for vote in votes])), RatingSettings(side=True))
    return next(rating.rating for rating in result.ratings if rating.model == model)


def bot_votes(voters: Voters, kind: str, n: int, after: int) -> list[VoteRow]:
    """Return the votes of a bot."""
    pairing, result = Pairing(voters.names), []
    for number in range(n):
        sides = pairing.draw(voters.generator).sides
        a, b = (voters.names.index(name) for name in sides)
        choice = {"left": "a", "right": "b", "tie": "tie", "random": "ab"[int(voters.generator.integers(2))]}.get(kind)
        if choice is None:
            weakest = voters.names[-1]
            choice = {sides[0]: "a", sides[1]: "b"}.get(weakest) or voters.choice("bot", a, b)
        result.append(vote_row(after + number, f"bot {kind}", number, sides, choice))
    return result


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--votes", type=int, default=1500)
    parser.add_argument("--models", type=int, default=8)
    inputs = parser.parse_args()
    for kind in ("plain", "ties"):
        coverage(kind, inputs.models, inputs.votes, inputs.replications)
    bots(inputs.models, inputs.votes, max(inputs.replications // 2, 1))


if __name__ == "__main__":
    main()
