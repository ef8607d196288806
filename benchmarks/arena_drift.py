"""Simulated arenas in which one model changes half way: what the intervals contain, and who is seen to have changed.

Votes of the first half are of one month, those of the second of the next. The ratings of all votes are compared with
their limit, the fit of expected votes; with the drifting model's strength at the end; and each month's with the
strengths of that month (relative to the mean of the models, as ratings are).

Usage: python benchmarks/arena_drift.py [--replications 100] [--votes 3000] [--models 8] [--drift 100]
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from assaymark.arena.arena_rows import VoteRow
from assaymark.arena.ratings import ArenaRatings, Rating, RatingSettings, rate
from assaymark.arena.vote_files import votes_in
from assaymark.arena.votes import published_row
from assaymark.datasets.rows import Rows
from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import ELO_SCALE, fit_bradley_terry
from benchmarks.arena_simulation import SIDE, Voters, is_within

MONTHS = (1704103200.0, 1706781600.0)  # in January and February 2024
DRIFTING = 3  # index of the model that changes
LEVEL = 0.05


@dataclass
class Counts:
    """Shares over all replications, as lists of 0 and 1."""

    limit: list[bool] = field(default_factory=list)  # intervals of the drifting model's rating hold its limit
    others: list[bool] = field(default_factory=list)  # those of the others hold theirs
    now: list[bool] = field(default_factory=list)  # the drifting model's interval holds its strength at the end
    months: list[bool] = field(default_factory=list)  # intervals of months hold the strengths of the month
    seen: list[bool] = field(default_factory=list)  # the drifting model is reported as changed
    false: list[bool] = field(default_factory=list)  # another one is
    first: list[bool] = field(default_factory=list)  # the drifting model is the clearest change


def drifting_votes(voters: Voters, n: int, drift: float) -> list[VoteRow]:
    """Return n votes, half of them before the model has changed by so many points."""
    results: list[VoteRow] = []
    for month, start in enumerate(MONTHS):
        voters.strengths = strengths_in(len(voters.names), month, drift)
        part = voters.votes(n // 2, adaptive=False)
        n_before = len(results)
        results += [
            replace(vote, sequence=n_before + at + 1, battle=f"b{n_before + at}", cast_at=start + at)
            for at, vote in enumerate(part)
        ]
    return results


def strengths_in(n_models: int, month: int, drift: float) -> np.ndarray:
    """Return the strengths before (0) or after (1) the change, as the voters have them."""
    strengths = np.linspace(150.0, -150.0, n_models)
    strengths[DRIFTING] += drift * month
    return strengths


def limit_of(n_models: int, drift: float) -> np.ndarray:
    """Return the ratings to which many such votes converge: the fit of the expected wins of all pairs."""
    pairs = np.array([(a, b) for a in range(n_models) for b in range(n_models) if a != b])
    chances = []
    for month in (0, 1):
        strengths = strengths_in(n_models, month, drift)
        chances.append(1 / (1 + np.exp(-(strengths[pairs[:, 0]] - strengths[pairs[:, 1]] + SIDE) / ELO_SCALE)))
    p = np.mean(chances, axis=0)
    first, second = np.tile(pairs[:, 0], 2), np.tile(pairs[:, 1], 2)
    battles = Battles(first, second, np.repeat([1.0, 0.0], len(p)), n_models)
    fit = fit_bradley_terry(battles, np.ones((len(battles), 1)), weights=np.concatenate([p, 1 - p]))
    return np.asarray(1000.0 + ELO_SCALE * (fit.strengths - fit.strengths.mean()))


def rated(votes: Sequence[VoteRow]) -> ArenaRatings:
    """Return the ratings of all votes and of each month, with the effect of the side."""
    rows = Rows.of([published_row(vote) for vote in votes])
    return rate(votes_in(rows), RatingSettings(side=True, over="time"))


def simulate(n_models: int, n_votes: int, drift: float, replications: int) -> Counts:
    """Return what the intervals of so many arenas contain."""
    counts, limit = Counts(), limit_of(n_models, drift)
    for replication in range(replications):
        voters = Voters(n_models, ("drift", drift, replication))
        result = rated(drifting_votes(voters, n_votes, drift))
        drifting = voters.names[DRIFTING]
        for each in result.ratings:
            index = voters.names.index(each.model)
            inside = is_within(each.low, each.high, float(limit[index]))
            (counts.limit if each.model == drifting else counts.others).append(inside)
            if each.model == drifting:
                counts.now.append(holds(each, strengths_in(n_models, 1, drift), index))
        for month, part in enumerate(result.parts):
            strengths = strengths_in(n_models, month, drift)
            counts.months += [holds(rating, strengths, voters.names.index(rating.model)) for rating in part.ratings]
        changed = {change.model for change in result.changes if change.significance < LEVEL}
        counts.seen.append(drifting in changed)
        counts.false.append(bool(changed - {drifting}))
        counts.first.append(bool(result.changes) and result.changes[0].model == drifting)
    return counts


def holds(one: Rating, strengths: np.ndarray, index: int) -> bool:
    """Return whether an interval holds a strength, as a rating relative to the mean of all models."""
    return is_within(one.low, one.high, 1000.0 + float(strengths[index] - strengths.mean()))


def main() -> None:
    """Print everything, with and without a change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--votes", type=int, default=3000)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--drift", type=float, nargs="+", default=[0.0, 50.0, 100.0, 200.0], help="points")
    inputs = parser.parse_args()
    for drift in inputs.drift:
        result = simulate(inputs.models, inputs.votes, drift, inputs.replications)
        shares = {name: 100 * np.mean(getattr(result, name)) for name in Counts.__dataclass_fields__}
        print(f"a change of {drift:g} points: intervals of all votes hold the average in {shares['limit']:.1f}% "
              f"(others: {shares['others']:.1f}%), the strength at the end in {shares['now']:.1f}%; intervals of "
              f"months hold the month's in {shares['months']:.1f}%; reported as changed in {shares['seen']:.0f}%, as "
              f"the clearest in {shares['first']:.0f}%; another model reported in {shares['false']:.0f}%")  # fmt: skip


if __name__ == "__main__":
    main()
