"""Rows of two compared runs side by side, and differences by part: for a terminal, as HTML and as JSON."""

import html
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType

from assaymark.records import JsonValue
from assaymark.results.comparison.records import Comparison, PairComparison
from assaymark.results.comparison.row_pairs import PartDifference, RowPair
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, counted
from assaymark.results.views.cells import plain_table
from assaymark.results.views.comparison_tables import ordered_lines, shown_cells

__all__ = ["comparison_html", "parts_table", "parts_to_json", "rows_table", "rows_to_json"]

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
        answers = [_shown(*each) for each in _sides(row)]
        table.add_row(Text(asked), *map(Text, answers), Text("\n".join(_scores(row))))
    title = f"{counted(len(rows), 'row')}, those that got worse first"
    parts: list[RenderableType] = [Text(title, style="bold"), table]
    if len(rows) > MOST_ROWS:
        parts.append(Text(f"and {len(rows) - MOST_ROWS:,} more (--json)", style="dim"))
    return Group(*parts)


def _sides(row: RowPair) -> tuple[tuple[str | None, str | None], tuple[str | None, str | None]]:
    return (row.first_answer, row.first_error), (row.second_answer, row.second_error)


def _shown(answer: str | None, error: str | None) -> str:
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


def comparison_html(comparison: Comparison, rows: Sequence[Sequence[RowPair]]) -> str:
    """Return a comparison with its rows as HTML for a notebook; every text is escaped.

    Args:
        comparison: of two or more runs.
        rows: of each pair.
    """
    blocks: list[str] = []
    for pair, own in zip(comparison.pairs, rows, strict=True):
        header = _row("th", ["score", *pair.labels, *_HEADERS, "gained / lost"])
        lines = [_row("td", [_line_name(cells[0], line.metric, line.kind), *cells[1:]])
                 for line, depth in ordered_lines(pair) if (cells := shown_cells(line, depth))]  # fmt: skip
        blocks.append(f"<p><b>{html.escape(pair.verdict)}</b></p><table>{header}{''.join(lines)}</table>")
        table_rows = [
            _row("td", [f"{row.row}: {_cut(row.inputs)}", _cut(row.expected), *(_shown(*each) for each in _sides(row)),
                        "; ".join(_scores(row))])
            for row in own[:MOST_ROWS]
        ]  # fmt: skip
        if table_rows:
            header = _row("th", ["row", "expected", *pair.labels, "scores"])
            title = f"{counted(len(own), 'row')}, those that got worse first"
            more = f" (the first {MOST_ROWS})" if len(own) > MOST_ROWS else ""
            table = f"<table>{header}{''.join(table_rows)}</table>"
            blocks.append(f"<details open><summary>{title}{more}</summary>{table}</details>")
    return "".join(blocks)


def _line_name(name: str, metric: str, kind: str) -> str:
    return f"{name} {metric}" if kind == "task" else name


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
