"""The results of a study as a table for a terminal."""

from rich.console import Group, RenderableType

from assaymark.arena.studies.results import StudyResults
from assaymark.report.console import Text
from assaymark.report.numbers import NOTHING, counted
from assaymark.report.views.cells import plain_table

__all__ = ["results_table"]

HEADERS = ("category", "models", "preferred", "95% interval", "comparisons", "ratings", "ties")


def results_table(found: StudyResults) -> RenderableType:
    """Return the preferences, then agreement and what was left out."""
    table = plain_table()
    for index, header in enumerate(HEADERS):
        table.add_column(header, justify="right" if index > 1 else "left", overflow="fold")
    for one in found.pairs:
        table.add_row(
            one.category, f"{one.first} over {one.second}", f"{100 * one.preferred:.0f}%",
            f"{100 * one.low:.0f}–{100 * one.high:.0f}%", str(one.n_comparisons), str(one.n_ratings), str(one.n_ties),
        )  # fmt: skip
    agreement = found.agreement
    alpha = NOTHING if agreement.alpha is None else f"{agreement.alpha:.2f}"
    if agreement.low is not None and agreement.high is not None:
        alpha += f" ({agreement.low:.2f} to {agreement.high:.2f})"
    lines = [
        (
            f"{found.n_finished} of {counted(found.n_raters, 'rater')} finished; "
            f"{found.n_ratings} of {found.n_assigned} ratings"
        ),
        (
            f"agreement: same choice in {_share(agreement.same)} of {counted(agreement.n_pairs, 'pair')} of ratings, "
            f"{_share(agreement.same_decided)} without ties; Krippendorff's alpha {alpha}"
        ),
        "preferred: ties are halves; the interval is Wilson's over comparisons, each the mean of its ratings",
    ]
    if found.failed_checks:
        lines.insert(1, f"left out: {', '.join(found.failed_checks)}, who failed an attention check")
    counts = [f"{name}: {', '.join(f'{choice} {n}' for choice, n in of.items())}" for name, of in found.answers.items()]
    return Group(table, *(Text(line) for line in [*lines, *counts]))


def _share(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.0f}%"
