"""The question-blind baseline: the same model and choices, with the question removed from the prompt.

The score without the question comes from the choices alone: their length, their wording, or a bias of the answer key.
"""

from collections.abc import Callable, Mapping, Sequence

from assaymark.audit.items import items_of, without_question
from assaymark.errors import DataError
from assaymark.models.model import Model
from assaymark.records import BlindScore, Output, Render, Request
from assaymark.results.evidence.from_store import save_summary
from assaymark.runs.plan import PreparedRun, render_of
from assaymark.runs.run import Run
from assaymark.scoring.metrics import accuracies_over_choices
from assaymark.statistics.intervals import wilson
from assaymark.tasks.bound import BoundTask

FEWEST_SHARE = 0.9  # of the samples: a baseline over a part would be that of another task


def question_blind_baseline(model: Model, bound: BoundTask, render: Render | None = None) -> dict[str, BlindScore]:
    """Evaluate a task without its questions and return metric -> value, low, high and n.

    Shots and options are those of the run. The model is queried for log-likelihoods only.

    Raises: DataError if the task has no choices, or its questions cannot be separated from its prompts.
    """
    metrics = [metric.name for metric in bound.metrics if metric.name in accuracies_over_choices()]
    items = items_of(bound, render)
    made = {item.index: without_question(bound, item, render) for item in items}
    requests = [request for request in made.values() if request is not None]
    if not metrics or len(requests) < FEWEST_SHARE * len(items):
        raise DataError(
            f"task {bound.plan.name}: the question can be removed from {len(requests)} of {len(items)} prompts; a "
            "question-blind baseline needs a multiple-choice task whose rows contain the question"
        )
    outputs: dict[str, list[Output]] = {request.id: [] for request in requests}
    for output in model.answer(requests):
        outputs[output.request_id].append(output)
    credits_ = {metric: _credits(bound, requests, outputs, metric) for metric in metrics}
    if not all(credits_.values()):
        raise DataError(f"task {bound.plan.name}: no prompt without its question was answered")
    return {metric: _baseline(values) for metric, values in credits_.items()}


def _baseline(credits_: Sequence[float]) -> BlindScore:
    interval = wilson(sum(credits_), len(credits_))
    value = sum(credits_) / len(credits_)
    return {"value": value, "low": interval.low, "high": interval.high, "n": len(credits_)}


def _credits(
    bound: BoundTask, requests: Sequence[Request], outputs: dict[str, list[Output]], metric: str
) -> list[float]:
    """Return the credit of each answered request's pick; failed requests are excluded."""
    samples = {sample.index: sample for sample in bound.samples()}
    credit_values = []
    for request in requests:
        answers = sorted(outputs[request.id], key=lambda output: output.ask_index)
        if len(answers) < len(request.queries) or any(output.error for output in answers):
            continue
        scores = {score.metric: score for score in bound.score(request, samples[request.sample_index], answers)}
        score = scores[metric]
        detail = score.detail if isinstance(score.detail, dict) else {}
        value = detail.get("credit", score.value)
        if value is not None:
            credit_values.append(float(value))
    return credit_values


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
    extra = run.row.extra
    baselines: dict[str, Mapping[str, BlindScore]] = dict(extra.get("question_blind") or {})
    chat = prepared.options.bind.apply_chat_template
    for bound in prepared.bound:
        name = bound.plan.name
        if bound.task.output_type != "multiple_choice" or name in baselines:
            continue
        try:
            baselines[name] = question_blind_baseline(model, bound, render_of(model) if chat else None)
        except DataError as error:
            notify(str(error))
    if baselines != extra.get("question_blind"):
        run.store.save_estimates(run.id, run.estimates, {**extra, "question_blind": baselines})
        save_summary(run.store, run.id, prepared.selection, prepared.bound)
