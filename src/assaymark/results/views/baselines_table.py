"""The table of baselines beside a run's values, and the warning where a value is not above them."""

from collections.abc import Sequence
from textwrap import shorten

from rich.console import RenderableType
from rich.padding import Padding

from assaymark.records import Estimate
from assaymark.results.console import Text
from assaymark.results.evidence.baselines import (
    BLIND,
    CONSTANT,
    CONSTANT_CHOICE,
    CONSTANT_TEXT,
    highest_baseline,
)
from assaymark.results.numbers import shown_value
from assaymark.results.views.cells import TableLine, chance_cell, plain_table, value_words

HEADERS = ("chance", "majority class", "question-blind")
LONGEST_TEXT = 24  # characters of a choice beside its baseline


def baseline_cells(estimate: Estimate | None) -> list[str]:
    """Return the three baselines as text; empty where unknown."""
    if estimate is None:
        return ["", "", ""]
    details = estimate.details
    constant, position, blind = details.get(CONSTANT), details.get(CONSTANT_CHOICE), details.get(BLIND)
    majority = "" if constant is None else shown_value(constant, proportion=True)
    if position is not None:
        text = details.get(CONSTANT_TEXT)
        majority += (
            f" (choice {position + 1})" if text is None else f" ({shorten(text, LONGEST_TEXT, placeholder=' …')})"
        )
    return [chance_cell(estimate), majority, "" if blind is None else shown_value(blind["value"], proportion=True)]


def baseline_notes(estimate: Estimate) -> list[str]:
    """Return a warning where a value above chance is not significantly above the highest baseline."""
    baseline = highest_baseline(estimate)
    if baseline is None or estimate.low is None or estimate.chance is None or baseline[0] == "chance":
        return []
    if estimate.low <= baseline[1] and estimate.low > estimate.chance:
        return [f"above chance, not significantly above {baseline[0]} ({shown_value(baseline[1], proportion=True)})"]
    return []


def baseline_rows(rows: Sequence[TableLine]) -> tuple[tuple[str, ...], list[tuple[TableLine, list[str]]]]:
    """Return headers, and the headline value and baselines of each task whose majority class is known."""
    of_name: dict[tuple[str, str], TableLine] = {}
    for row in rows:
        cell, key = row.any_cell, (row.name, row.label)
        if cell is None or cell.details.get(CONSTANT) is None:
            continue
        if key not in of_name or (_stands_for_task(row) and not _stands_for_task(of_name[key])):
            of_name[key] = row
    known = list(of_name.values())
    with_blind = any(row.any_cell and row.any_cell.details.get(BLIND) for row in known)
    n_baselines = 3 if with_blind else 2
    return ("value", *HEADERS[:n_baselines]), [
        (row, [value_words(row.any_cell), *baseline_cells(row.any_cell)[:n_baselines]]) for row in known
    ]


def _stands_for_task(row: TableLine) -> bool:
    return row.any_cell is not None and bool(row.any_cell.details.get("primary", True))


def baselines_table(rows: Sequence[TableLine]) -> RenderableType | None:
    """Return a table of the baselines, one line per task; None where no task has choices."""
    headers, known = baseline_rows(rows)
    if not known:
        return None
    table = plain_table()
    table.add_column("baselines", overflow="fold")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for row, cells in known:
        table.add_row(Text("  " * row.depth + row.label), *cells)
    return Padding(table, (1, 1, 0, 1))
