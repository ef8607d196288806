"""Rows of two compared runs side by side, and differences by part, as blocks and as JSON."""

from collections.abc import Sequence

from assaymark.documents.blocks import Block, Cell, Cells, Heading, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.errors import clipped
from assaymark.results.comparison.document import shown_cells
from assaymark.results.comparison.records import PairComparison
from assaymark.results.comparison.row_pairs import PartDifference, RowPair

MOST_ROWS = 20  # that are printed
LONGEST_CELL = 300  # characters of an answer
_HEADERS = ("difference", "interval", "p", "n")


def rows_blocks(rows: Sequence[RowPair], pair: PairComparison) -> list[Block]:
    """Return the rows, those that got worse first."""
    body: list[Cells] = []
    for row in rows[:MOST_ROWS]:
        asked = Cell(f"{row.row}: {_cut(row.inputs)}", f"expected {_cut(row.expected)}" if row.expected else "")
        sides = ((row.first_answer, row.first_error), (row.second_answer, row.second_error))
        scores = [f"{score.metric} {_number(score.first)} → {_number(score.second)}" for score in row.scores]
        body.append((asked, *(_answer(*each) for each in sides), "\n".join(scores)))
    if not body:
        return []
    heading = Heading(f"{counted(len(rows), 'row')}, those that got worse first", 4)
    more = [Paragraph(f"and {len(rows) - MOST_ROWS:,} more (--json)", "facts")] if len(rows) > MOST_ROWS else []
    return [heading, table(("row", *pair.labels, "scores"), body, n_text=len(pair.labels) + 2), *more]


def _answer(answer: str | None, error: str | None) -> str:
    return f"failed: {_cut(error)}" if error is not None else NOTHING if answer is None else _cut(answer)


def _cut(text: str) -> str:
    return clipped(text, LONGEST_CELL)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def parts_document(name: str, parts: Sequence[PartDifference], pair: PairComparison) -> Document:
    """Return the differences by part."""
    heading = Heading(f"Differences by {name}; p after Holm's correction over all of them", 4)
    body = [(part.part, part.line.metric, *shown_cells(part.line)[1:7]) for part in parts]
    return document(heading, table((name, "score", *pair.labels, *_HEADERS), body, n_text=2))
