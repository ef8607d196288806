"""A model among its relatives: the paired difference to the model it was made from, and its place within its type."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from assaymark.errors import UsageError
from assaymark.leaderboard.rows import Row
from assaymark.leaderboard.stored import StoredRun, StoredRuns
from assaymark.leaderboard.table import Table
from assaymark.report.comparison.records import Difference

__all__ = ["RankInType", "Relative", "Relatives", "rank_in_type"]

SAMPLES_COMPARED = 30_000  # of both runs of all pairs on one page: some seconds when it is first shown


@dataclass(frozen=True, slots=True)
class Relative:
    """Two related models' latest runs, compared question by question; the difference is derived minus base."""

    base_run: str
    derived_run: str
    difference: Difference | None  # None where it was not computed, or they share no task that can be averaged


@dataclass(frozen=True, slots=True)
class RankInType:
    """Where a row stands among the complete rows of its type and setup, by the average."""

    type: str
    rank: int
    n: int


class Relatives:
    """Compares a page's model with its relatives, up to a number of samples, so that the page stays fast."""

    def __init__(self, runs: StoredRuns | None) -> None:
        self._runs = runs
        self._n_left = SAMPLES_COMPARED

    def compare(self, base: Sequence[StoredRun], derived: Sequence[StoredRun]) -> Relative | None:
        """Return the paired comparison of two models; None where one of them has no finished run.

        Of several runs the pair with the most tasks in common counts, then the latest.
        """
        pairs = [(one, other) for one in base for other in derived if one.estimates and other.estimates]
        if self._runs is None or not pairs:
            return None
        first, second = max(pairs, key=lambda pair: len(set(pair[0].row.tasks) & set(pair[1].row.tasks)))
        n_samples = first.row.n_samples + second.row.n_samples
        difference = None
        if n_samples <= self._n_left:
            self._n_left -= n_samples
            with suppress(UsageError):  # no task in common: there is only the link to both
                difference = self._runs.difference(first, second).overall
        return Relative(first.run_id, second.run_id, difference)


def rank_in_type(table: Table, row: Row) -> RankInType | None:
    """Return a row's rank within its type; None for a row without a type, or without a rank.

    Rows of other prompt setups are left out where the board ranks them apart.
    """
    index, at = table.index, table.places[row.id]
    kind = row.facts.get("type")
    if kind in {None, "", "unknown"} or not (index.is_complete & index.may_rank)[at]:
        return None
    known = index.texts("type")
    of_type = known.codes == known.codes[at]
    among = of_type & index.is_complete & index.may_rank & (index.rank_groups == index.rank_groups[at])
    values = index.scores("average").values
    return RankInType(str(kind), 1 + int((among & (values > values[at])).sum()), int(among.sum()))
