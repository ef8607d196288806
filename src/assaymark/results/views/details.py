"""Additions of `--details` to a run's table: calibration, baselines and the minimum detectable effect (MDE).

The MDE is that of a paired comparison with another model; it warns against ranking models by small differences. A
warning says where a value is not above its baselines.
"""

from collections.abc import Sequence
from textwrap import shorten

from assaymark.documents.blocks import Cell, Cells, Table, table
from assaymark.documents.numbers import shown_value
from assaymark.errors import few
from assaymark.records import Estimate
from assaymark.results.estimate_texts import chance_cell, is_proportion, value_words
from assaymark.results.evidence.baselines import (
    BLIND,
    CONSTANT,
    CONSTANT_CHOICE,
    CONSTANT_TEXT,
    ONLY_CHOICE,
    highest_baseline,
)
from assaymark.results.evidence.records import RunView
from assaymark.results.views.cells import TableLine, leaf_estimates
from assaymark.statistics.power import mde_paired_binary

HEADERS = ("chance", "majority class", "question-blind")
LONGEST_TEXT = 24  # characters of a choice beside its baseline
DISAGREEMENT = 0.2  # assumed share of samples on which two models differ; a comparison shows the measured one
CALIBRATION_HEADERS = ("calibration\nerror", "expected\nby chance")
FEWEST_CALIBRATED = 50  # with fewer samples the error is mostly noise
MAX_NAMED = 4  # tasks that are listed by name


def detail_tables(rows: Sequence[TableLine], *, details: bool) -> list[Table]:
    """Return the tables of calibration and of baselines that are not empty.

    Without `details` only the baselines are returned, and only if the run has a question-blind baseline.
    """
    has_blind = any(row.any_cell is not None and BLIND in row.any_cell.details for row in rows)
    tables = (_calibration(rows) if details else None, baselines_table(rows) if details or has_blind else None)
    return [table for table in tables if table is not None]


def foot_lines(views: Sequence[RunView]) -> list[str]:
    """Return the line under a table with the range of minimum detectable effects over tasks.

    Every task that a comparison tests is included, even if its group hides it in the table.
    """
    sizes: dict[str, int] = {}
    for cell in [estimate for view in views for estimate in leaf_estimates(view)]:
        if is_proportion(cell) and cell.n > 0:
            label = str(cell.details.get("alias") or cell.task)
            sizes[label] = min(cell.n, sizes.get(label, cell.n))
    if not sizes:
        return []
    effects = {label: mde_paired_binary(n, DISAGREEMENT) for label, n in sizes.items()}
    enough = {label: mde for label, mde in effects.items() if mde <= DISAGREEMENT}
    too_small = [label for label in effects if label not in enough]
    parts = []
    if enough:
        ends = [min(enough, key=enough.__getitem__), max(enough, key=enough.__getitem__)]
        named = [f"{100 * enough[label]:.1f} points on {label}" for label in ends]
        parts.append(named[0] if enough[ends[0]] == enough[ends[1]] else f"from {named[0]} to {named[1]}")
    if too_small:
        parts.append(f"none on {few(too_small, MAX_NAMED)} (too few samples)")
    if_so = f"if the models disagree on {DISAGREEMENT:.0%} of the answers"
    return [f"Minimum detectable effect (power 80%), {if_so}: {'; '.join(parts)}."]


def _calibrated(row: TableLine) -> bool:
    return row.any_cell is not None and row.is_first and row.any_cell.details.get("brier") is not None


def _calibration_headers(rows: Sequence[TableLine]) -> tuple[str, ...]:
    """Return the headers after the Brier score's, if any row has a number in these columns."""
    return CALIBRATION_HEADERS if any(any(_calibration_cells(row)[1:]) for row in rows) else ()


def _calibration_cells(row: TableLine) -> list[str]:
    if not _calibrated(row) or row.any_cell is None:
        return ["", "", ""]
    details = row.any_cell.details
    known = [details.get("calibration_error"), details.get("calibration_error_null")]
    if row.any_cell.n < FEWEST_CALIBRATED:
        known = [None, None]
    return [f"{details['brier']:.3f}", *("" if error is None else f"{100 * error:.1f}%" for error in known)]


def _calibration(rows: Sequence[TableLine]) -> Table | None:
    calibrated = [row for row in rows if _calibrated(row)]
    headers = ("multiclass\nBrier score", *_calibration_headers(calibrated))
    body = [(row.label, *_calibration_cells(row)[: len(headers)]) for row in calibrated]
    return table(("calibration", *headers), body) if body else None


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
