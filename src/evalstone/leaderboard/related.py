"""A model among its relatives: the paired difference to the model it was made from, and its place within its type."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evalstone.errors import UsageError
from evalstone.leaderboard.rows import Row
from evalstone.leaderboard.stored import StoredRun, StoredRuns
from evalstone.leaderboard.table import Table
from evalstone.report.comparison.records import Difference

__all__ = ["RankInType", "Relative", "rank_in_type", "relative"]


@dataclass(frozen=True, slots=True)
class Relative:
    """Two related models' latest runs, compared question by question; the difference is derived minus base."""

    base_run: str
    derived_run: str
    difference: Difference | None  # None where they share no task whose metric is a share of correct answers
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class RankInType:
    """Where a row stands among the complete rows of its type and setup, by the average."""

    type: str
    rank: int
    n: int


def relative(runs: StoredRuns | None, base: Sequence[StoredRun], derived: Sequence[StoredRun]) -> Relative | None:
    """Return the paired comparison of two models; None where one of them has no finished run.

    Of several runs the pair with the most tasks in common counts, then the latest.
    """
    pairs = [(one, other) for one in base for other in derived if one.estimates and other.estimates]
    if runs is None or not pairs:
        return None
    first, second = max(pairs, key=lambda pair: len(set(pair[0].row.tasks) & set(pair[1].row.tasks)))
    try:
        pair = runs.comparison([first.run_id, second.run_id]).pairs[0]
    except UsageError as error:
        return Relative(first.run_id, second.run_id, None, str(error))
    return Relative(first.run_id, second.run_id, pair.overall)


def rank_in_type(table: Table, row: Row) -> RankInType | None:
    """Return a row's rank within its type; None for a row without a type, or without a rank.

    Rows of other prompt setups are left out where the board ranks them apart.
    """
    kind = row.facts.get("type")
    if kind in {None, "", "unknown"} or row.average is None or row.average.n_columns != table.n_averaged:
        return None
    index = table.index
    known = index.texts("type")
    of_type = np.array([code >= 0 and known.distinct[code] == str(kind).lower() for code in known.codes], dtype=bool)
    at = next(place for place, one in enumerate(table.rows) if one.id == row.id)
    among = of_type & index.is_complete & ~index.is_baseline & (index.rank_groups == index.rank_groups[at])
    values = index.scores("average").values
    return RankInType(str(kind), 1 + int((among & (values > values[at])).sum()), int(among.sum()))
