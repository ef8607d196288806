"""A leaderboard's table: columns and rows, with cached values computed from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assaymark.leaderboard.index import TableIndex
from assaymark.leaderboard.rows import BoardRow, Issue, ScoreColumn, averaged
from assaymark.records import JsonValue


@dataclass(frozen=True)
class BoardTable:
    """Rows of one board, ready to be searched and ranked."""

    columns: tuple[ScoreColumn, ...]
    rows: tuple[BoardRow, ...]
    rank_apart: bool = True  # rows of different prompt sets have ranks of their own
    issues: tuple[Issue, ...] = ()
    unread: tuple[str, ...] = ()  # records that could not be read, a line each
    left_out: tuple[str, ...] = ()  # runs that cannot be ranked in a column, a line for each task
    version: str = ""  # changes when anything in it does
    updated_at: str = ""
    n_runs: int = 0

    @cached_property
    def index(self) -> TableIndex:
        """The rows as arrays."""
        return TableIndex(self.columns, self.rows, rank_apart=self.rank_apart)

    @cached_property
    def averaged(self) -> list[ScoreColumn]:
        """The columns over which an average is taken."""
        return averaged(self.columns)

    @property
    def n_averaged(self) -> int:
        """How many columns an average has."""
        return len(self.averaged)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The position of each row by its id."""
        return {row.id: place for place, row in enumerate(self.rows)}

    @cached_property
    def by_model(self) -> Mapping[str, Sequence[BoardRow]]:
        """The rows of each model, without baselines."""
        return _grouped((row.model, row) for row in self.rows if not row.is_baseline)

    @cached_property
    def made_from(self) -> Mapping[str, Sequence[BoardRow]]:
        """The rows of derived models, by the name of their base."""
        return _grouped((str(base), row) for row in self.rows if (base := row.facts.get("base")) and base != row.model)

    def column(self, key: str) -> ScoreColumn | None:
        """Return a score column by its key; None where there is none."""
        return next((column for column in self.columns if column.key == key), None)

    def rows_of(self, model: str) -> Sequence[BoardRow]:
        """Return all rows of one model."""
        return self.by_model.get(model, ())


def _grouped(pairs: Iterable[tuple[str, BoardRow]]) -> dict[str, list[BoardRow]]:
    groups: dict[str, list[BoardRow]] = {}
    for key, row in pairs:
        groups.setdefault(key, []).append(row)
    return groups


def row_id(parts: Mapping[str, JsonValue]) -> str:
    """Return a short id of the parts that identify a row; equal parts have the same id on every machine."""
    from assaymark.records import content_hash

    return content_hash(dict(parts)).rpartition(":")[2][:12]
