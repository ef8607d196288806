"""A baseline that is computed with every run: always the first choice."""

from collections.abc import Callable

from assaymark.models.model import Model
from assaymark.runs.plan import PreparedRun
from assaymark.runs.run import Run
from assaymark.tasks.rescoring import choice_queries, gold_choices


def first_choice(run: Run, model: Model, prepared: PreparedRun, notify: Callable[[str], None]) -> None:
    """Store, for each task with choices, how often the first one is right."""
    shares = {}
    for bound in prepared.bound:
        pairs = list(zip(bound.requests(), bound.samples(), strict=True))
        golds = [gold_choices(bound, request, sample) for request, sample in pairs if choice_queries(request)]
        if golds:
            shares[bound.plan.name] = sum(0 in gold for gold in golds) / len(golds)
    if shares:
        run.store.save_estimates(run.id, run.estimates, {**run.row.extra, "first_choice": shares})
