"""Rows of two compared runs side by side, and differences by part: for a terminal, as HTML and as JSON."""

import html
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType

from assaymark.records import JsonValue
from assaymark.results.comparison.records import PairComparison
from assaymark.results.comparison.row_pairs import PartDifference, RowPair
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, counted
from assaymark.results.views.cells import plain_table
from assaymark.results.views.comparison_tables import shown_cells

MOST_ROWS = 20  # that are printed
LONGEST_CELL = 300  # characters of an answer
_HEADERS = ("difference", "interval", "p", "n")


def rows_table(rows: Sequence[RowPair], pair: PairComparison) -> RenderableType:
    """Return the rows for a terminal, those that got worse first."""
    table = plain_table()
    for name in ("row", *pair.labels, "scores"):
        table.add_column(name, overflow="fold")
    for row in rows[:MOST_ROWS]:
        asked = f"{row.row}: {_cut(row.inputs)}" + (f"\nexpected {_cut(row.expected)}" if row.expected else "")
        answers = [_answer(*each) for each in _sides(row)]
        table.add_row(Text(asked), *map(Text, answers), Text("\n".join(_scores(row))))
    title = f"{counted(len(rows), 'row')}, those that got worse first"
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if len(rows) > MOST_ROWS:
        parts.append(Text(f"and {len(rows) - MOST_ROWS:,} more (--json)", style="dim"))
    return Group(*parts)


def _sides(row: RowPair) -> tuple[tuple[str | None, str | None], tuple[str | None, str | None]]:
    return (row.first_answer, row.first_error), (row.second_answer, row.second_error)


def _answer(answer: str | None, error: str | None) -> str:
    return f"failed: {_cut(error)}" if error is not None else NOTHING if answer is None else _cut(answer)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def _scores(row: RowPair) -> list[str]:
    return [f"{score.metric} {_number(score.first)} → {_number(score.second)}" for score in row.scores]


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def parts_table(name: str, parts: Sequence[PartDifference], pair: PairComparison) -> RenderableType:
    """Return the differences by part for a terminal."""
    table = plain_table()
    table.add_column(name, overflow="fold")
    table.add_column("score", overflow="fold")
    for label in (*pair.labels, *_HEADERS):
        table.add_column(label, justify="right", no_wrap=label not in pair.labels)
    for part in parts:
        table.add_row(Text(part.part), Text(part.line.metric), *shown_cells(part.line)[1:7])
    return Group(Text(f"Differences by {name}; p after Holm's correction over all of them", style="bold"), table)


def rows_to_json(rows: Sequence[RowPair]) -> JsonValue:
    """Return the rows with stable names."""
    return [{**asdict(row), "is_new_failure": row.is_new_failure} for row in rows]


def parts_to_json(parts: Sequence[PartDifference]) -> JsonValue:
    """Return the differences by part with stable names."""
    return [{"part": part.part, **asdict(part.line), "gain": part.line.gain} for part in parts]


def rows_html(rows: Sequence[RowPair], pair: PairComparison) -> str:
    """Return the first rows of a pair of runs as HTML for a notebook; every text is escaped."""
    lines = [
        _row("td", [f"{row.row}: {_cut(row.inputs)}", _cut(row.expected), *(_answer(*each) for each in _sides(row)),
                    "; ".join(_scores(row))])
        for row in rows[:MOST_ROWS]
    ]  # fmt: skip
    if not lines:
        return ""
    header = _row("th", ["row", "expected", *pair.labels, "scores"])
    title = f"{counted(len(rows), 'row')}, those that got worse first"
    more = f" (the first {MOST_ROWS})" if len(rows) > MOST_ROWS else ""
    return f"<details open><summary>{title}{more}</summary><table>{header}{''.join(lines)}</table></details>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
