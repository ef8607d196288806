"""The contents of a report about stored runs, read from the store before it is rendered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assaymark.errors import UsageError
from assaymark.report.comparison.compare import compare_runs, distinct_labels
from assaymark.report.comparison.records import Comparison
from assaymark.report.comparison.stored_runs import matched_evidence
from assaymark.report.documents.blocks import Example
from assaymark.report.documents.examples import failure_examples, regression_examples
from assaymark.report.evidence.from_store import run_evidence, run_view
from assaymark.report.evidence.records import RunView
from assaymark.report.views.layout import leaf_estimates, table_rows
from assaymark.scoring.metrics import CONFIDENCE
from assaymark.statistics.calibration import CalibrationError, calibration_error
from assaymark.store import RunRow, Store
from assaymark.tasks.catalog import LIBRARY
from assaymark.tasks.describe import find_card_named

__all__ = ["FEWEST_CALIBRATED", "CalibrationCurve", "ReportContents", "report_contents"]

FEWEST_CALIBRATED = 100  # answers; a curve of fewer is mostly noise


@dataclass(frozen=True, slots=True)
class CalibrationCurve:
    """A run's accuracy by confidence, over all its multiple-choice tasks."""

    label: str
    n_tasks: int
    error: CalibrationError


@dataclass(frozen=True, slots=True)
class ReportContents:
    """One or more runs, and their comparison."""

    views: tuple[RunView, ...]
    rows: tuple[RunRow, ...]
    comparison: Comparison | None = None
    not_compared: str = ""  # why there is no comparison of several runs
    curves: tuple[CalibrationCurve, ...] = ()
    examples: tuple[tuple[str, tuple[Example, ...]], ...] = ()  # (heading, examples)
    cards: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # benchmark cards by task or group


def report_contents(store: Store, run_ids: Sequence[str]) -> ReportContents:
    """Return the contents of a report of these runs; with two or more, the later ones are compared with the first.

    Raises: UsageError for a run named twice.
    """
    if len(set(run_ids)) < len(run_ids):
        raise UsageError("the same run was named twice; name each run once")
    evidence = [run_evidence(store, run_id) for run_id in run_ids]
    labels = distinct_labels(evidence)
    views = [replace(run_view(store, run_id), label=label) for run_id, label in zip(run_ids, labels, strict=True)]
    rows = tuple(store.run(run_id) for run_id in run_ids)
    comparison, why = None, ""
    if len(run_ids) > 1:
        try:
            comparison = compare_runs(matched_evidence(evidence, [(store, run_id) for run_id in run_ids]))
        except UsageError as error:
            why = str(error)
    curves = [_curve(store, row, label) for row, label in zip(rows, labels, strict=True)]
    return ReportContents(
        views=tuple(views),
        rows=rows,
        comparison=comparison,
        not_compared=why,
        curves=tuple(curve for curve in curves if curve is not None),
        examples=tuple(_examples(store, rows, views, comparison)),
        cards=_cards(rows, views),
    )


def _examples(
    store: Store, rows: Sequence[RunRow], views: Sequence[RunView], comparison: Comparison | None
) -> list[tuple[str, tuple[Example, ...]]]:
    """Return the failures of a single run, or each later run's failures on samples that the first one got right."""
    if len(rows) == 1 or comparison is None:
        found = [
            (f"{view.label}: answered wrongly" if len(views) > 1 else "Answered wrongly",
             tuple(failure_examples(store, row.run_id, leaf_estimates(view))))
            for row, view in zip(rows, views, strict=True)
        ]  # fmt: skip
    else:
        found = [
            (f"Right in {pair.labels[0]}, wrong in {pair.labels[1]}",
             tuple(regression_examples(store, row.run_id, pair, len(comparison.pairs))))
            for row, pair in zip(rows[1:], comparison.pairs, strict=True)
        ]  # fmt: skip
    return [(heading, examples) for heading, examples in found if examples]


def _curve(store: Store, row: RunRow, label: str) -> CalibrationCurve | None:
    """Return the curve over all multiple-choice answers; None if there are too few."""
    pairs: list[tuple[float, float]] = []
    n_tasks = 0
    for task in row.tasks:
        own = [score.parts for score in store.scores(row.run_id, task) if score.metric == CONFIDENCE and score.parts]
        pairs += [(float(parts[0]), float(parts[1])) for parts in own]
        n_tasks += bool(own)
    if len(pairs) < FEWEST_CALIBRATED:
        return None
    return CalibrationCurve(label, n_tasks, calibration_error([p[0] for p in pairs], [p[1] for p in pairs]))


def _cards(rows: Sequence[RunRow], views: Sequence[RunView]) -> dict[str, Mapping[str, Any]]:
    """Return the cards of the tasks and groups at the top of the table, by name."""
    found: dict[str, Mapping[str, Any]] = {}
    for line in table_rows(views, primary_only=True):
        if not line.is_top or not line.metric:
            continue
        sources = [row.extra.get("tasks", {}).get(line.name, {}).get("source") for row in rows]
        folder = Path(next((source for source in sources if source), LIBRARY / "none")).parent
        if card := find_card_named(line.name, (), folder):
            found[line.name] = card
    return found
