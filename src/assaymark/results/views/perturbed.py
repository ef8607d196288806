"""The table of the effects of perturbations on a run's scores: each beside the same samples unperturbed."""

from collections.abc import Sequence

from assaymark.documents.blocks import Cell, Cells, Column, Table, table
from assaymark.documents.numbers import NOTHING, shown_difference, shown_value
from assaymark.records import with_filter
from assaymark.results.evidence.records import FOLD_ABOVE, PerturbedScore

HEADERS = ("metric", "n", "as it is", "perturbed", "difference", "95% interval", "broken", "mended")


def shown_scores(scores: Sequence[PerturbedScore]) -> list[PerturbedScore]:
    """Return the results by each task's main metric; of many tasks only their groups, where there are any."""
    primary = [score for score in scores if score.is_primary]
    tasks = {score.task for score in primary if score.n_tasks == 1}
    groups = [score for score in primary if score.n_tasks > 1]
    return groups if groups and len(tasks) > FOLD_ABOVE else primary


def perturbed_name(score: PerturbedScore) -> str:
    """Return the name of a result's perturbation, or of the worst case of a family."""
    return f"worst of {score.by}" if score.is_worst else score.by


def perturbed_cells(score: PerturbedScore) -> list[str]:
    """Return the cells under `HEADERS`."""
    metric = with_filter(score.metric, score.filter)
    return [
        metric,
        f"{score.n:,}",
        shown_value(score.original, proportion=score.is_share),
        shown_value(score.value, proportion=score.is_share),
        shown_difference(score.difference, proportion=score.is_share),
        difference_interval(score),
        f"{score.n_broken:,}",
        f"{score.n_mended:,}",
    ]


def difference_interval(score: PerturbedScore) -> str:
    """Return the interval of the difference: `-4.1 to +1.2`."""
    if score.difference_low is None or score.difference_high is None:
        return NOTHING
    low, high = (
        shown_difference(end, proportion=score.is_share) for end in (score.difference_low, score.difference_high)
    )
    return f"{low} to {high}"


def perturbed_table(scores: Sequence[PerturbedScore]) -> Table | None:
    """Return the table, the perturbations of a task below its name; None for a run without perturbations."""
    body: list[Cells] = []
    last = None
    for score in shown_scores(scores):
        if score.task != last:
            pooled = f" ({score.n_tasks} tasks, samples pooled)" if score.n_tasks > 1 else ""
            body.append((Cell(score.task + pooled, role="group"), *("" for _ in HEADERS)))
            last = score.task
        body.append((Cell(perturbed_name(score), depth=1), *perturbed_cells(score)))
    return table(("perturbations", Column(HEADERS[0], "text"), *HEADERS[1:]), body) if body else None
