"""The question-blind floor of a run: asked for on request, kept with the run, shown beside its values."""

from collections.abc import Callable
from typing import Any

from evalstone.api.run import Run
from evalstone.audit.question_blind import question_blind_baseline
from evalstone.errors import DataError
from evalstone.models.model import Model
from evalstone.report.evidence.from_store import save_summary
from evalstone.runner.plan import PreparedRun, render_of

__all__ = ["add_question_blind"]


def add_question_blind(
    run: Run, model: Model, prepared: PreparedRun, notify: Callable[[str], None] = lambda _: None
) -> None:
    """Ask each multiple choice task of a run without its questions, and keep what that scores with the run.

    Args:
        run: stored and summarised.
        model: the run's.
        prepared: the run's plan and tasks.
        notify: told of each task that cannot be asked so, with the reason.
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
