"""Forecast of a target's evaluation: the calls of the target, and the judge's requests with their cost.

There are no answers yet, so a judge's prompts are made with the expected values in their place, and a scorer's later
prompts are assumed to be as long as its first. Stored answers are not counted again.
"""

from dataclasses import dataclass, replace
from typing import Unpack

from assaymark.applications.evaluate import PreparedApplication, prepare_application
from assaymark.applications.judging_scores import MOST_TOKENS
from assaymark.applications.rows import Source
from assaymark.applications.scorer import Answered, JudgedScorer
from assaymark.documents.numbers import counted
from assaymark.judges.judge import open_judge
from assaymark.judges.judged_answers import JudgePromptWriter, ask
from assaymark.models.cost.bill import CostForecast, cost_forecast
from assaymark.models.cost.prices import find_price
from assaymark.models.lending import lent
from assaymark.models.model import Model
from assaymark.records import GenerationSettings, JsonValue, Message, Request
from assaymark.records.json_values import json_fields
from assaymark.runs.evaluate_options import EvaluateKeywords
from assaymark.runs.stored import existing_store
from assaymark.runs.targets import TargetForecast
from assaymark.settings import store_location
from assaymark.store import Store

ASSUMED = "answers are not known yet: prompts are measured with the expected ones, later steps as the first"
UNKNOWN_ANSWER = "x" * 400  # stands for an answer of a row without an expected value


@dataclass(frozen=True, slots=True)
class JudgeForecast:
    """The requests of one judged scorer. n_steps: prompts for one answer, at most."""

    scorer: str
    n_steps: int
    n_requests: int
    cost: CostForecast


def plan_application(target: object, rows: Source, **keywords: Unpack[EvaluateKeywords]) -> TargetForecast:
    """Forecast the requests of `evaluate_application` with these arguments; nothing is called, sent or stored.

    Raises: UsageError and DataError for whatever does not fit, as `evaluate_application` before its first call.
    """
    ready = prepare_application(target, rows, **keywords)
    requests, store = list(ready.task.requests()), keywords.get("store")
    n_stored = (len(requests) - len(_pending(ready, requests, str(store) if store else None))) * ready.repeats
    n_calls = len(requests) * ready.repeats
    forecasts: list[JudgeForecast] = []
    judge_name: str | None = None
    if ready.judged:
        judge = keywords.get("judge")
        with lent(judge):
            model = open_judge(judge, keywords.get("judge_args") or "", 1)
            judge_name = model.identity.name
            forecasts = [_of_judge(scorer, ready, requests, model) for scorer in ready.judged]
    name = ready.model.identity.name
    stored = f", {n_stored:,} of them stored already" if n_stored else ""
    lines = [f"{name}: {counted(len(requests), 'row')}, {counted(n_calls, 'call')}{stored}"]
    for each in forecasts:
        steps = f" in up to {each.n_steps} steps" if each.n_steps > 1 else ""
        lines.append(f"{each.scorer}: {counted(each.n_requests, 'request')} to {judge_name}{steps}")
    if forecasts:
        total = forecasts[0].cost
        for each in forecasts[1:]:
            total += each.cost
        lines += total.lines
        lines.append(ASSUMED)
        if total.price is None:
            lines.append(f"the price of {judge_name} is not known, so neither is the cost")
    judged: list[JsonValue] = []
    for each in forecasts:
        price = None if each.cost.price is None else str(each.cost.price)
        judged.append({**json_fields(each), "cost": {**json_fields(each.cost), "price": price}})
    content: dict[str, JsonValue] = {
        "target": name,
        "run_key": ready.prepared.plan.key,
        "n_rows": len(requests),
        "n_calls": n_calls,
        "n_stored": n_stored,
        "scorers": [*ready.scored],
        "judge": judge_name,
        "judged": judged,
    }
    return TargetForecast(content, (*lines, f"run key {ready.prepared.plan.key}"))


def _pending(ready: PreparedApplication, requests: list[Request], store: str | None) -> list[Request]:
    """Return the requests that the run's store does not have answered."""
    if not Store.exists(store_location(store)):
        return requests
    with existing_store(store) as opened:
        key = ready.prepared.plan.key
        row = next((row for row in opened.runs() if row.plan.key == key), None)
        return requests if row is None else opened.unanswered(row.run_id, requests)


def _of_judge(scorer: JudgedScorer, ready: PreparedApplication, requests: list[Request], model: Model) -> JudgeForecast:
    writer, settings = JudgePromptWriter(model), GenerationSettings(max_tokens=MOST_TOKENS)
    asked: list[Request] = []
    for sample, _ in zip(ready.task.samples(), requests, strict=True):
        row = ready.rows[sample.index]
        output = row.expected if row.expected is not None else UNKNOWN_ANSWER
        answered = replace(Answered(row, output), contexts=row.contexts if row.contexts is not None else ())
        prompt = next(scorer.steps(answered), None)
        if prompt is not None:
            asked.append(ask((Message.of_text("user", prompt),), writer, settings, sample))
    n_steps = max(1, len(getattr(scorer, "PROMPTS", ())))
    cost = cost_forecast(model, asked * (n_steps * ready.repeats), find_price(model.identity))
    return JudgeForecast(scorer.facts.name, n_steps, len(asked) * n_steps * ready.repeats, cost)
