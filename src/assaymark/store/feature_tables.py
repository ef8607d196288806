"""The tables of features, which `verify` checks and the migrations create.

A feature defines its tables beside its rules, on `schema.metadata`, and registers them under the kind `tables`; the
migrations of all of them are one chain, in `store/migrations`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVarTuple

from sqlalchemy import Row, Select, Table

from assaymark.registry import Registry
from assaymark.store.connection import OpenStore

Columns = TypeVarTuple("Columns")  # of a query
REGISTRY: Registry["FeatureTables"] = Registry("tables", "tables of a feature")


@dataclass(frozen=True, slots=True)
class FeatureTables:
    """The tables of one subject of a feature.

    log_problems: what is wrong with an append-only log among them (a line for each problem), beside the checksums of
    its rows; `log` is the table that the problems are reported of.
    """

    tables: tuple[Table, ...]
    log: str = ""
    log_problems: Callable[[OpenStore], list[str]] | None = None


def feature_tables() -> list[FeatureTables]:
    """Return the tables of all features, imported."""
    return [REGISTRY.load(name) for name in REGISTRY]


class FeatureLog:
    """What a feature keeps in its tables of a store. May be used by several threads and processes."""

    def __init__(self, store: OpenStore) -> None:
        """Use the store's database."""
        self._database = store.database

    def _rows(self, statement: Select[*Columns]) -> Sequence[Row[*Columns]]:
        with self._database.reading() as connection:
            return connection.execute(statement).all()
