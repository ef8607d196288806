"""The sealed tasks of a board, and an alarm if a model does better on a task's preview than on its sealed rows.

Rows of a preview can get into training data; sealed ones cannot. The advantage of each model and task is tested
one-sided, and p is corrected over all tests of the board (Holm), so that a board without any exposure raises an alarm
with a probability of at most 5%.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from assaymark.documents.blocks import Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import shown_value
from assaymark.leaderboard.stored import StoredRun, StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.records import Estimate
from assaymark.results.estimate_texts import is_proportion
from assaymark.statistics.exposure import Exposure, compare_parts
from assaymark.statistics.multiplicity import holm

ALPHA = 0.05
FEWEST = 5  # rows of each part


@dataclass(frozen=True, slots=True)
class SealedView:
    """The published part of a sealed task."""

    task: str
    version: str
    commitment: str | None
    public_fraction: float
    valid_until: str
    is_over: bool  # the rows should have been replaced by now


@dataclass(frozen=True, slots=True)
class ModelExposure:
    """One model on both parts of one task."""

    model: str
    run_id: str
    task: str
    metric: str
    is_share: bool  # in [0, 1]
    parts: Exposure  # its difference and bound: larger is an advantage on the preview, whatever the metric's direction
    p_adjusted: float  # Holm, over all tests of the board

    json_keys = (
        "model run=run_id task metric n_public=parts.n_public n_private=parts.n_private public=parts.public "
        "private=parts.private difference=parts.difference low=parts.low p=parts.p p_adjusted method=parts.method "
        "alarm=is_alarm"
    )

    @property
    def is_alarm(self) -> bool:
        """Whether the model does significantly better on the preview."""
        return self.p_adjusted < ALPHA


def sealed_views(table: BoardTable, runs: StoredRuns | None) -> tuple[SealedView, ...]:
    """Return the sealed tasks that a board's runs have, by name."""
    if runs is None:
        return ()
    seals = [seal for seal in runs.seals() if seal.is_closed]
    if not seals:
        return ()
    names = {estimate.task for _, estimate in _measured(table, runs)}
    today = datetime.now(UTC).date().isoformat()
    return tuple(
        SealedView(seal.task, seal.version, seal.commitment, seal.public_fraction, seal.valid_until,
                   bool(seal.valid_until) and seal.valid_until < today)
        for seal in seals if seal.task in names
    )  # fmt: skip


def exposures(table: BoardTable, runs: StoredRuns | None) -> tuple[ModelExposure, ...]:
    """Return each model's scores on the two parts of each sealed task with a preview, the largest advantage first.

    Parts of fewer than FEWEST rows are not compared.
    """
    if runs is None or not any(seal.is_closed and seal.public_fraction for seal in runs.seals()):
        return ()
    compared: list[ModelExposure] = []
    for run, estimate in _measured(table, runs):
        parts = runs.parts_of(run.run_id, estimate)
        if parts is None or min(len(part) for part in parts) < FEWEST:
            continue
        sign = 1.0 if estimate.higher_is_better else -1.0
        public, private = (sign * np.asarray(part, dtype=np.float64) for part in parts)
        tested = compare_parts(public, private)
        parts_compared = replace(tested, public=sign * tested.public, private=sign * tested.private)
        compared.append(
            ModelExposure(
                run.model, run.run_id, estimate.task, estimate.metric, is_proportion(estimate), parts_compared, tested.p
            )
        )
    if not compared:
        return ()
    adjusted = holm([each.parts.p for each in compared]).tolist()
    with_holm = [replace(each, p_adjusted=p) for each, p in zip(compared, adjusted, strict=True)]
    return tuple(sorted(with_holm, key=lambda each: (each.p_adjusted, -each.parts.difference)))


def _measured(table: BoardTable, runs: StoredRuns) -> list[tuple[StoredRun, Estimate]]:
    """Return the primary estimate of each task of the board's columns in each of its measured runs."""
    names = {task for column in table.columns for task in column.tasks}
    used = {run_id for row in table.rows if row.origin == "measured" for run_id in row.run_ids}
    return [
        (run, estimate)
        for run in runs.runs()
        if run.run_id in used
        for estimate in run.estimates
        if estimate.details.get("primary")
        and estimate.details.get("kind", "task") == "task"
        and {estimate.task, *estimate.details.get("path", ())} & names
    ]


def exposure_document(rows: Sequence[ModelExposure]) -> Document:
    """Return the comparisons, then a line for each alarm, or that there is none."""
    body = []
    for each in rows:
        parts, is_share = each.parts, each.is_share
        body.append((
            each.model, each.task,
            shown_value(parts.public, proportion=is_share), f"{parts.n_public:,}",
            shown_value(parts.private, proportion=is_share), f"{parts.n_private:,}",
            shown_value(parts.difference, proportion=is_share), shown_value(parts.low, proportion=is_share),
            f"{each.p_adjusted:.3g}", "alarm" if each.is_alarm else "",
        ))  # fmt: skip
    columns = ("model", "task", "public", "n", "private", "n", "difference", "at least (95%)", "p (Holm)", "")
    lines = [Paragraph(line) for line in exposure_lines(rows)]
    return document([table(columns, body, n_text=2)] if body else [], lines)


def exposure_lines(rows: Sequence[ModelExposure]) -> list[str]:
    """Return a line for each alarm, or that there is none."""
    alarms = [each for each in rows if each.is_alarm]
    if not rows:
        why = "a run whose rows were rewritten (--target, a copy of the file, another task's shots) has no preview"
        return [f"no run of the board has {FEWEST} rows or more on both sides of a sealed task's preview; {why}"]
    if not alarms:
        return [f"no model does significantly better on a preview (Holm over {len(rows)} tests, 5%)"]
    return [
        f"alarm: {each.model} does better on the public rows of {each.task} than on its sealed ones "
        f"(p = {each.p_adjusted:.2g} after Holm): they may have been in its training data"
        for each in alarms
    ]
