"""Experiments: versions of an application side by side, for a program and a notebook.

`assaymark.experiment(first, second)` compares stored runs row by row; printing it shows the differences and the rows
that got worse first, and a notebook shows the same as HTML. The command is `assaymark compare --rows --by tag`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assaymark.documents import ShownAsDocument
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields
from assaymark.results.comparison.records import Comparison
from assaymark.results.comparison.row_pairs import PartDifference, RowPair
from assaymark.runs.comparison import compare_runs, differences_by_part, rows_of_pairs
from assaymark.runs.run import Run

if TYPE_CHECKING:
    from assaymark.documents.document import Document


@dataclass(frozen=True)
class Experiment(ShownAsDocument):
    """The second and every later run against the first. rows: of each pair, those that got worse first."""

    comparison: Comparison
    rows: tuple[tuple[RowPair, ...], ...]

    @property
    def verdict(self) -> str:
        """The verdict, one sentence for each pair."""
        return self.comparison.verdict

    def by(self, name: str) -> list[list[PartDifference]]:
        """Return for each pair the difference of each score on each part of the rows.

        name: "tag", "split", or a name in the rows' metadata.

        Raises: UsageError where no row has that name.
        """
        return differences_by_part(name, self.comparison, self.rows)

    def to_json(self) -> JsonValue:
        """Return differences and rows with stable names."""
        from assaymark.results.comparison.document import comparison_to_json

        rows: list[JsonValue] = [[json_fields(row, "is_new_failure") for row in rows] for rows in self.rows]
        return {**comparison_to_json(self.comparison), "rows": rows}

    def document(self) -> "Document":
        """Return the differences and the first rows."""
        from assaymark.documents.document import document
        from assaymark.results.comparison.document import comparison_document
        from assaymark.results.comparison.row_pairs import rows_blocks

        pairs = zip(self.rows, self.comparison.pairs, strict=True)
        return document(comparison_document(self.comparison).blocks, *(rows_blocks(rows, pair) for rows, pair in pairs))


def experiment(first: Run, *others: Run) -> Experiment:
    """Compare versions of an application, or any runs of the same rows, with the first of them.

    Args:
        first: the version that the others are compared with.
        others: the others, such as `assaymark.open_run("last")`.

    Raises: UsageError without another run, for the same run twice, or for runs of different rows.
    """
    runs: Sequence[Run] = (first, *others)
    comparison = compare_runs(runs)
    return Experiment(comparison, tuple(map(tuple, rows_of_pairs(runs, comparison))))
