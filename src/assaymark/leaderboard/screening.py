"""Screening: a submission is evaluated until its rank set on the board is settled, or the benchmark ends.

After some questions, there is an interval for a row's score on the whole benchmark, valid at any time. For each score
in the interval, a full evaluation would give the row a set of ranks. The set is settled when it is the same for all
these scores, and the same as the board shows for the present interval: the remaining questions cannot change it.

The other rows are those of the board when the evaluation began. They are public, so the process that reads the
submitted model may know them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from assaymark.errors import UsageError
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.interval_ranks import interval_ranks
from assaymark.leaderboard.table import BoardTable
from assaymark.results.comparison.stopped_runs import ALPHA, for_new_questions
from assaymark.statistics.distributions import two_sided_z
from assaymark.statistics.intervals import wilson
from assaymark.statistics.sequential import MeanState
from assaymark.tasks.suites import Suite

FEWEST_RIVALS = 2  # rows that a screened one can be ranked among; with fewer, evaluations are complete
MOST_RIVALS = 100_000


class RivalsSpec(TypedDict):
    """`Rivals` as plain values, for the process that reads a model."""

    values: list[float]
    lows: list[float]
    highs: list[float]


@dataclass(frozen=True, slots=True)
class Rivals:
    """The rows that a submission is ranked among: their averages with the ends of their intervals."""

    values: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def to_spec(self) -> RivalsSpec:
        """Return plain values."""
        return {"values": [*self.values], "lows": [*self.lows], "highs": [*self.highs]}

    @classmethod
    def from_spec(cls, spec: RivalsSpec) -> "Rivals":
        """Return the rows of plain values."""
        return cls(*(tuple(map(float, numbers)) for numbers in (spec["values"], spec["lows"], spec["highs"])))

    def rank_set(self, value: float, low: float, high: float) -> tuple[int, int]:
        """Return the best and the worst rank that a row with this interval would have among them."""
        ranks = interval_ranks(
            np.array([*self.values, value]), np.array([*self.lows, low]), np.array([*self.highs, high])
        )
        return int(ranks.best[-1]), int(ranks.worst[-1])

    def is_settled(self, states: Sequence[MeanState], weights: Sequence[float]) -> bool:
        """Return whether no remaining question can change the rank set. `states`: of each column, at alpha / 2."""
        share = ALPHA / 2 / len(states)
        wide = [for_new_questions(state, share) for state in states]
        now = self.rank_set(
            _mean([state.mean for state in states], weights),
            _mean([low for low, _ in wide], weights),
            _mean([high for _, high in wide], weights),
        )
        ends = ([state.low for state in states], [state.high for state in states])
        return all(self.rank_set(*_full(scores, [state.n for state in states], weights)) == now for scores in ends)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def _full(scores: Sequence[float], sizes: Sequence[int], weights: Sequence[float]) -> tuple[float, float, float]:
    """Return the average and the ends of its interval that a complete evaluation with these scores would have."""
    if len(scores) == 1:
        interval = wilson(scores[0] * sizes[0], sizes[0])
        return scores[0], interval.low, interval.high
    average = _mean(scores, weights)
    shares = [weight / sum(weights) for weight in weights]
    variance = sum(s * s * p * (1 - p) / n for s, p, n in zip(shares, scores, sizes, strict=True))
    half = two_sided_z(1 - ALPHA) * variance**0.5
    return average, max(average - half, 0.0), min(average + half, 1.0)


def why_not_screened(suite: Suite | None) -> str:
    """Return the reason why submissions to a board of this suite cannot be screened; empty if they can."""
    if suite is None:
        return "a board of a published table evaluates nothing"
    if suite.normalise != "none" or suite.aggregate in {"geometric", "winrate"}:
        return "its average is no weighted mean of scores"
    columns = [member.column for member in suite.members]
    if len(set(columns)) < len(columns):
        return "a column is made of several tasks"
    if len({member.shots for member in suite.members}) > 1:
        return "its tasks have different numbers of shots, so they are evaluated apart"
    return ""


def screened_tasks(board: Board) -> dict[str, float]:
    """Return the weight of each task in the board's average."""
    suite = board.suite
    if suite is None or why_not_screened(suite):
        raise UsageError(f"board '{board.name}' cannot screen submissions: {why_not_screened(suite)}")
    return {member.task: suite.weight_of(member.column) for member in suite.members}


def rivals_of(table: BoardTable, setup: str, besides: str) -> Rivals | None:
    """Return the ranked rows of a board's table that a submission would be ranked among; None if they are too few.

    Args:
        setup: how the submission's prompts are built, in words; rows of other setups are ranked apart.
        besides: the submitted model, whose own earlier row does not count.
    """
    index = table.index
    ranked = index.is_complete & index.may_rank
    values, lows, highs = [], [], []
    for row, is_ranked in zip(table.rows, ranked.tolist(), strict=True):
        number = None if row.average is None else row.average.number
        is_among = row.origin == "measured" and (not table.rank_apart or row.facts.get("prompts") == setup)
        if not is_ranked or not is_among or row.model == besides or number is None:
            continue
        values.append(number.value)
        lows.append(float("-inf") if number.low is None else number.low)
        highs.append(float("inf") if number.high is None else number.high)
    if not FEWEST_RIVALS <= len(values) <= MOST_RIVALS:
        return None
    return Rivals(tuple(values), tuple(lows), tuple(highs))
