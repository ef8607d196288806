"""The question-blind floor: the same model and choices, with the question taken out of the prompt.

What it scores then it owes to the choices alone: their length, their wording, or a habit of the answer key.
"""

from collections.abc import Sequence

from evalstone.audit.items import items_of, without_question
from evalstone.errors import DataError
from evalstone.models.model import Model
from evalstone.records import JsonValue, Output, Render, Request
from evalstone.scoring.metrics import accuracies_over_choices
from evalstone.statistics.intervals import wilson
from evalstone.tasks.bound import BoundTask

__all__ = ["question_blind_baseline"]

FEWEST_SHARE = 0.9  # of the samples: a floor of a part would be another task's


def question_blind_baseline(
    model: Model, bound: BoundTask, render: Render | None = None
) -> dict[str, dict[str, JsonValue]]:
    """Ask a task without its questions and return metric -> value, low, high and n.

    Shots and options stay as the run has them. Answers go by log-likelihoods only.

    Raises: DataError where the task has no choices, or its questions cannot be told from its prompts.
    """
    metrics = [metric.name for metric in bound.metrics if metric.name in accuracies_over_choices()]
    items = items_of(bound, render)
    made = {item.index: without_question(bound, item, render) for item in items}
    requests = [request for request in made.values() if request is not None]
    if not metrics or len(requests) < FEWEST_SHARE * len(items):
        raise DataError(
            f"task {bound.plan.name}: the question can be taken out of {len(requests)} of {len(items)} prompts; a "
            "question-blind floor needs a multiple choice task whose rows hold the question"
        )
    outputs: dict[str, list[Output]] = {request.id: [] for request in requests}
    for output in model.answer(requests):
        outputs[output.request_id].append(output)
    credits_ = {metric: _credits(bound, requests, outputs, metric) for metric in metrics}
    if not all(credits_.values()):
        raise DataError(f"task {bound.plan.name}: no prompt without its question was answered")
    return {metric: _floor(values) for metric, values in credits_.items()}


def _floor(credits_: Sequence[float]) -> dict[str, JsonValue]:
    interval = wilson(sum(credits_), len(credits_))
    value = sum(credits_) / len(credits_)
    return {"value": value, "low": interval.low, "high": interval.high, "n": len(credits_)}


def _credits(
    bound: BoundTask, requests: Sequence[Request], outputs: dict[str, list[Output]], metric: str
) -> list[float]:
    """Return what each answered request's pick is worth; failed ones are left out."""
    samples = {sample.index: sample for sample in bound.samples()}
    found = []
    for request in requests:
        answers = sorted(outputs[request.id], key=lambda output: output.ask_index)
        if len(answers) < len(request.queries) or any(output.error for output in answers):
            continue
        scores = {score.metric: score for score in bound.score(request, samples[request.sample_index], answers)}
        score = scores[metric]
        detail = score.detail if isinstance(score.detail, dict) else {}
        value = detail.get("credit", score.value)
        if value is not None:
            found.append(float(value))
    return found
