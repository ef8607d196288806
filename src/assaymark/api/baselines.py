"""The question-blind baseline of a run: computed on request, and stored with the run."""

from collections.abc import Callable
from typing import Any

from assaymark.api.run import Run
from assaymark.audit.question_blind import question_blind_baseline
from assaymark.errors import DataError
from assaymark.models.model import Model
from assaymark.report.evidence.from_store import save_summary
from assaymark.runner.plan import PreparedRun, render_of

__all__ = ["add_question_blind"]


def add_question_blind(
    run: Run, model: Model, prepared: PreparedRun, notify: Callable[[str], None] = lambda _: None
) -> None:
    """Evaluate the multiple-choice tasks of a run without their questions, and store the scores with the run.

    Args:
        run: a run that is stored and summarised.
        model: the run's model.
        prepared: the run's plan and tasks.
        notify: called with a line for each task that cannot be evaluated without its questions.
    """
    extra = dict(run.row.extra)
    found: dict[str, Any] = dict(extra.get("question_blind") or {})
    chat = prepared.options.bind.apply_chat_template
    for bound in prepared.bound:
        name = bound.plan.name
        if bound.task.output_type != "multiple_choice" or name in found:
            continue
        try:
            found[name] = question_blind_baseline(model, bound, render_of(model) if chat else None)
        except DataError as error:
            notify(str(error))
    if found != extra.get("question_blind"):
        run.store.save_estimates(run.id, run.estimates, {**extra, "question_blind": found})
        save_summary(run.store, run.id, prepared.selection, prepared.bound)
