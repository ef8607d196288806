"""A run's tasks, or the subjects of its own ones, sorted by score, and those significantly below the others."""

from collections.abc import Sequence

from assaymark.documents.blocks import Block, Cell, Column, Drawn, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import shown_p
from assaymark.records import Estimate
from assaymark.results.estimate_texts import chance_cell, is_proportion
from assaymark.results.evidence.records import RunView
from assaymark.results.evidence.summarise import MOST_SUBJECTS
from assaymark.results.views.cells import heading_blocks, number_cells, subject_estimates
from assaymark.statistics.groups import compare_shares
from assaymark.statistics.multiplicity import holm

LEVEL = 0.05  # of the family of tests


def weak_subjects(leaves: Sequence[Estimate]) -> list[tuple[Estimate, float]]:
    """Return the tasks whose accuracy is significantly below that of the run's other tasks, smallest p first.

    Each task is compared with all others of the same metric together by a one-sided score test; p is corrected by
    Holm's method over all of these tests. Tied choices count by their credit, rounded to whole answers per task.
    Source: Pearson 1900 (score test); Holm 1979.
    """
    shares = [leaf for leaf in leaves if is_proportion(leaf) and leaf.higher_is_better and leaf.value is not None]
    tested: list[tuple[Estimate, float]] = []
    for leaf in shares:
        others = [
            share
            for share in shares
            if share is not leaf and (share.metric, share.filter) == (leaf.metric, leaf.filter)
        ]
        n_others = sum(estimate.n for estimate in others)
        if not n_others or not leaf.n:
            continue
        right_others = sum(_n_right(estimate) for estimate in others)
        comparison = compare_shares(right_others, n_others, _n_right(leaf), leaf.n)
        tested.append((leaf, comparison.p / 2 if comparison.difference < 0 else 1 - comparison.p / 2))
    adjusted = holm([p for _, p in tested]) if tested else ()
    weak = [(leaf, float(p)) for (leaf, _), p in zip(tested, adjusted, strict=True) if p < LEVEL]
    return sorted(weak, key=lambda pair: pair[1])


def _n_right(leaf: Estimate) -> int:
    return round((leaf.value or 0.0) * leaf.n)


def subject_notes(view: RunView, group: str | None = None) -> list[str]:
    """Return a line with the subjects that are significantly below the others, or that there are none."""
    leaves = subject_estimates(view, group)
    if not any(leaf.details.get("path") for leaf in leaves):
        what = f"rows with 2 to {MOST_SUBJECTS} different values in a column subject, category or topic"
        return [f"no task of this run has subjects ({what}); its tasks are shown instead"]
    weak = weak_subjects(leaves)
    if not weak:
        return ["no subject is significantly below the others (one-sided tests, Holm's correction)"]
    weak_names = ", ".join(f"{_name(leaf)} (p {shown_p(p)})" for leaf, p in weak)
    return [f"significantly below the other subjects (one-sided tests, Holm's correction): {weak_names}"]


def _name(leaf: Estimate) -> str:
    return str(leaf.details.get("alias") or leaf.task)


def subject_document(view: RunView, group: str | None = None) -> Document:
    """Return every task or subject (of one group, or of the run), best first, with its interval drawn to scale."""
    leaves = sorted(
        (estimate for estimate in subject_estimates(view, group) if estimate.value is not None),
        key=lambda estimate: (estimate.metric, -(estimate.value or 0.0) * (1 if estimate.higher_is_better else -1)),
    )
    body = [(_name(leaf), *number_cells(leaf), chance_cell(leaf), Cell("", drawn=_drawn(leaf))) for leaf in leaves]
    drawn = [Column("", "drawn")] if any(map(is_proportion, leaves)) else []
    columns: list[str | Column] = ["subject", Column("value", is_main=True), "95% interval", "n", "chance", *drawn]
    shown = table(columns, [row[: len(columns)] for row in body])
    notes: list[Block] = [Paragraph(note, "facts") for note in subject_notes(view, group)]
    return document(heading_blocks(view), shown, notes)


def _drawn(estimate: Estimate) -> Drawn | None:
    if estimate.value is None or not is_proportion(estimate):
        return None
    return Drawn(estimate.value, estimate.low, estimate.high, estimate.chance)
