"""The table of baselines beside a run's values, and the warning where a value is not above them."""

from collections.abc import Sequence
from textwrap import shorten

from assaymark.documents.blocks import Cell, Cells, Table, table
from assaymark.documents.numbers import shown_value
from assaymark.records import Estimate
from assaymark.results.estimate_texts import chance_cell, value_words
from assaymark.results.evidence.baselines import (
    BLIND,
    CONSTANT,
    CONSTANT_CHOICE,
    CONSTANT_TEXT,
    ONLY_CHOICE,
    highest_baseline,
)
from assaymark.results.views.cells import TableLine

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
    """Return warnings: one choice was always picked; a value above chance is not above the highest baseline."""
    only = estimate.details.get(ONLY_CHOICE)
    notes = [] if only is None else [f"all {estimate.n:,} picks are choice {only + 1}, whatever the question"]
    baseline = highest_baseline(estimate)
    if baseline is None or estimate.low is None or estimate.chance is None or baseline[0] == "chance":
        return notes
    if estimate.low <= baseline[1] and estimate.low > estimate.chance:
        shown = shown_value(baseline[1], proportion=True)
        notes.append(f"above chance, not significantly above {baseline[0]} ({shown})")
    return notes


def baselines_table(rows: Sequence[TableLine]) -> Table | None:
    """Return the headline value and the baselines of each task whose majority class is known; None without any."""
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
    body: list[Cells] = []
    for row in known:
        name = Cell(row.label, depth=row.depth, role="group" if row.is_group else "")
        body.append((name, value_words(row.any_cell), *baseline_cells(row.any_cell)[:n_baselines]))
    return table(("baselines", "value", *HEADERS[:n_baselines]), body) if body else None


def _stands_for_task(row: TableLine) -> bool:
    return row.any_cell is not None and bool(row.any_cell.details.get("primary", True))
