"""Calibration of generated answers: their probability by the model, compared with their accuracy.

As in HELM, the confidence of an answer is its probability: exp of the sum of its tokens' log-probabilities, without
that of the end of text. Stored answers have no log-probabilities, so the run's model scores each text once after its
stored prompt. This needs a backend that scores texts; the tokens of the text may differ from the generated ones. If
neither the prompt ends nor the text begins with a space, the tokenizer may have removed one from the text
(SentencePiece), so both forms are scored and the more probable one counts. The scores are stored like an audit's
answers.
Source: HELM 63754d05, metrics/evaluate_reference_metrics.py (`max_prob`), basic_metrics.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

from assaymark.audit.calibration import ALL, FEWEST, CalibrationAudit, calibration_of
from assaymark.audit.diagnosis import score_by
from assaymark.audit.notebook import CalibrationAudits
from assaymark.audit.stored import StoredAudit, ask_again, audit_plan, stored_audit, stored_parts
from assaymark.errors import DataError, UsageError
from assaymark.models.lending import gives_back
from assaymark.models.model import Model
from assaymark.records import GenerateQuery, JsonValue, LoglikelihoodQuery, QueryKind, Request, ScoreStatus
from assaymark.records.json_values import json_of
from assaymark.results.estimate_texts import is_proportion
from assaymark.results.evidence.from_store import find_estimate
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import RunOpener
from assaymark.runs.run import Run
from assaymark.runs.stored import AuditKind, stored_line
from assaymark.store import RunRow, SampleRecord, Store

if TYPE_CHECKING:
    from assaymark.documents.document import Document

ANSWERS = "calibration of answers"
RIGHT = "exact_match"  # HELM's measure of a right answer, used where the task has it


@dataclass(frozen=True, slots=True)
class AnswerConfidences:
    """The answers of one task, or why they have no confidence."""

    task: str
    metric: str  # which decides whether an answer is right
    confidences: tuple[float, ...]
    credits: tuple[float, ...]
    n_unknown: int  # answers whose probability or score is not known
    why_not: str = ""


def answer_confidence(nats: float) -> float:
    """Return the probability of an answer, HELM's `max_prob`, from the sum of its tokens' log-probabilities."""
    return math.exp(min(nats, 0.0))  # rounding may leave a sum just above 0


def _calibrations(answers: Sequence[AnswerConfidences]) -> CalibrationAudits:
    """Return the calibration of each task with enough answers, and of all pooled. Raises: DataError for too few."""
    pairs = {each.task: list(zip(each.confidences, each.credits, strict=True)) for each in answers}
    pooled = [pair for own in pairs.values() for pair in own]
    if len(pooled) < FEWEST:
        reasons = [
            f"{each.task}: {each.why_not or f'{len(each.confidences)} answers with a known probability and score'}"
            for each in answers
        ]
        raise DataError(
            f"{len(pooled)} generated answers whose probability and score are known; expected {FEWEST} "
            f"({'; '.join(reasons[:5])}); calibration needs about 300 for a useful estimate"
        )
    audits = [_of_answers(task, own) for task, own in pairs.items() if len(own) >= FEWEST]
    if sum(map(bool, pairs.values())) > 1:
        audits.append(_of_answers(ALL, pooled))
    return CalibrationAudits(audits)


def _of_answers(task: str, pairs: Sequence[tuple[float, float]]) -> CalibrationAudit:
    return replace(calibration_of(task, pairs), of="answers")


def _stored_calibration(_store: Store, row: RunRow) -> "tuple[JsonValue, Document]":
    from assaymark.audit.documents import calibration_document

    audits = _calibrations(stored_parts(row, AnswerConfidences))
    return json_of(audits), calibration_document(audits)


answers_kind = AuditKind(_stored_calibration)


@gives_back
def audit_answer_calibration(
    run: Run,
    tasks: Sequence[str] = (),
    *,
    model: object = None,
    announce: Callable[[str], None] = lambda _: None,
    **options: Unpack[EvaluateOptions],
) -> CalibrationAudits:
    """Return the calibration of a stored run's generated answers, by task.

    Args:
        run: a stored run with results.
        tasks: some of its tasks; without any, all of them.
        model: the run's model, loaded, if its name does not load it.
        announce: called with a line for each task that is left out, and with the id of the stored audit.
        options: those that are no part of a plan: data_dir, include_path, workers.

    Raises: UsageError for an imported run, one of an application, a model that cannot score texts, or another model
        than the run's; UnknownName for a task that it does not have; DataError where too few answers can be used.
    """
    again = ask_again(run, tasks, options, model, "audit_answer_calibration")
    if QueryKind.LOGLIKELIHOOD not in again.model.answers:
        raise UsageError(
            f"{again.model.identity.name} gives no log-probabilities of texts, so the probability of its answers is "
            "not known; use local weights, or a server whose /v1/completions has echo and logprobs (local-completions)"
        )
    plan = audit_plan(again.prepared.plan, ANSWERS, {"run": run.id})
    opener = RunOpener(run.store, plan, options.get("wait", True), announce, bound=again.prepared.bound)
    with stored_audit(opener, again.model, options.get("command")) as audit:
        answers = [
            audit.part(task, AnswerConfidences, partial(_confidences, audit, run, again.model, task))
            for task in (bound.plan.name for bound in again.prepared.bound)
            if not tasks or task in tasks
        ]
    for each in answers:
        if each.why_not or each.n_unknown:
            announce(f"{each.task}: {each.why_not or f'{each.n_unknown:,} answers without probability or score'}")
    announce(stored_line(run.store, audit.run_id, "audit"))
    return _calibrations(answers)


def _confidences(audit: StoredAudit, run: Run, model: Model, task: str) -> AnswerConfidences:
    estimates = [each for each in run.estimates if each.task == task and each.metric == RIGHT]
    estimate = estimates[0] if estimates else find_estimate(run.estimates, task)
    if not is_proportion(estimate):
        return AnswerConfidences(task, estimate.metric, (), (), 0, f"{estimate.metric} does not say what is right")
    records = list(run.store.samples(run.id, task))
    why = next(filter(None, map(_why_not, records)), "")
    if why or not records:
        return AnswerConfidences(task, estimate.metric, (), (), 0, why or "no answers")
    requests, credits_ = {}, {}
    n_unknown = 0
    for record in records:
        score = score_by(record, (estimate.metric, estimate.filter))
        text = record.outputs[0].text if record.outputs else None
        if text is None or score is None or score.value is None or score.status is ScoreStatus.FAILED:
            n_unknown += 1
            continue
        request = replace(record.request, queries=_queries(record.request, text))
        requests[request.id], credits_[request.id] = request, score.value
    nats = _nats(audit, list(requests.values()))
    known = {name: value for name, value in nats.items() if value is not None}
    return AnswerConfidences(
        task,
        estimate.metric,
        tuple(answer_confidence(value) for value in known.values()),
        tuple(credits_[name] for name in known),
        n_unknown + len(nats) - len(known),
        "" if known or not nats else f"{model.identity.name} scored none of its answers",
    )


def _why_not(record: SampleRecord) -> str:
    """Return why a task's answers have no probability, from one of its records."""
    query = record.request.queries[0]
    if not isinstance(query, GenerateQuery):
        return "it generates no answers"
    if record.request.turn > 0:
        return "an answer is a whole conversation"
    if len(record.outputs) > 1:
        return f"an answer is {len(record.outputs)} texts"
    if any(output.reasoning or output.tool_calls for output in record.outputs):
        return "reasoning or calls of functions are a part of the answers, and not of their texts"
    return ""


def _queries(request: Request, text: str) -> tuple[LoglikelihoodQuery, ...]:
    """Return the texts that the model may have written if `text` is stored; none for an empty text."""
    prompt = "".join(request.segments)
    is_joined = bool(text) and not text[0].isspace() and bool(prompt) and not prompt[-1].isspace()
    texts = [text, f" {text}"] if is_joined else [text] if text else []
    return tuple(LoglikelihoodQuery(at, each) for at, each in enumerate(texts))


def _nats(audit: StoredAudit, requests: Sequence[Request]) -> dict[str, float | None]:
    """Return the log-probability of each request's text; that of an empty text is 0, as in HELM."""
    known: dict[str, list[float]] = {request.id: [] for request in requests}
    for output in audit.answer([request for request in requests if request.queries]):
        if output.total_nats is not None:
            known[output.request_id].append(output.total_nats)
    return {
        request.id: max(known[request.id], default=0.0) if len(known[request.id]) == len(request.queries) else None
        for request in requests
    }
