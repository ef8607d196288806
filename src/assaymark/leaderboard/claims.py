"""What others claim of a model, beside what was measured: numbers of a paper or a model card, from a board's file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assaymark.leaderboard.board import CitedScores
from assaymark.leaderboard.rows import Cell, Claim, Row, ScoreColumn

__all__ = ["with_claims"]


def with_claims(rows: Sequence[Row], claims: Sequence[CitedScores], columns: Sequence[ScoreColumn]) -> list[Row]:
    """Return the rows with the claims of their models; a claim of a benchmark that was not measured is left out."""
    by_model: dict[str, list[CitedScores]] = {}
    for one in claims:
        by_model.setdefault(one.name.lower(), []).append(one)
    return [
        replace(row, cells=_claimed(row.cells, by_model[row.model.lower()], columns))
        if row.model.lower() in by_model and not row.is_baseline
        else row
        for row in rows
    ]


def _claimed(
    cells: Mapping[str, Cell], claims: Sequence[CitedScores], columns: Sequence[ScoreColumn]
) -> dict[str, Cell]:
    found = dict(cells)
    for column in columns:
        cell = found.get(column.key)
        one = next((claim for claim in claims if column.title in claim.scores), None)
        if cell is not None and one is not None:
            value = float(one.scores[column.title]) / (100.0 if column.is_share else 1.0)
            low, high = cell.number.low, cell.number.high
            is_outside = low is not None and high is not None and not low <= value <= high
            found[column.key] = replace(cell, claim=Claim(value, one.source, is_outside))
    return found
