"""Trajectories of agents as traces, so that the pages of traces show them: an agent's span with calls and commands.

A trajectory has the model's texts and what commands printed. Neither is trusted: both pass the same reader and the same
redaction as spans that an application sends.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from assaymark.applications.traces.otlp import traces_request
from assaymark.applications.traces.receiving import receive_spans
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.errors import UnknownName
from assaymark.records import JsonValue
from assaymark.store.connection import OpenStore
from assaymark.swe.grading_log import StoredAttempt, trace_id_of

LONGEST_TEXT = 200_000  # characters of one message
NANOSECONDS = 1_000_000_000


def store_traces(store: OpenStore, project: str, attempts: Sequence[StoredAttempt]) -> int:
    """Store the trajectories of attempts in a project, which is made where it is missing; return how many there are.

    Raises: StoreError.
    """
    log = TraceLog(store)
    try:
        number = log.project_id(project)
    except UnknownName:
        log.add_project(project)
        number = log.project_id(project)
    for attempt in attempts:
        resource = {"attributes": _attributes({"service.name": "assaymark swe"})}
        spans = list(trajectory_spans(attempt))
        body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "swe"}, "spans": spans}]}]}
        request = traces_request(json.dumps(body).encode(), "application/json")
        receive_spans(log, number, request, Redaction())
    return len(attempts)


def trajectory_spans(attempt: StoredAttempt) -> Iterator[dict[str, JsonValue]]:
    """Yield an attempt's spans as OTLP's JSON: the whole, then each call of the model and each command."""
    trajectory: Mapping[str, JsonValue] = attempt.trajectory
    listed = trajectory.get("messages")
    messages = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    times = [time for each in messages if (time := _time_of(each)) is not None]
    start, end = (times[0], times[-1]) if times else (0.0, 0.0)
    trace, root = trace_id_of(attempt.key), _span_id(attempt.key, 0)
    issue = next((each for each in messages if each.get("role") == "user"), {})
    info = trajectory.get("info")
    submission = info.get("submission") if isinstance(info, Mapping) else None
    yield _span(trace, root, "", attempt.instance_id, start, end, {
        "openinference.span.kind": "AGENT", "session.id": attempt.instance_id, "input.value": issue.get("content"),
        "output.value": submission, "swe.exit_status": attempt.exit_status, "swe.calls": attempt.n_calls,
    })  # fmt: skip
    before, earlier = start, messages[0] if messages else {}
    for number, message in enumerate(messages, start=1):
        time = _time_of(message)
        after = before if time is None else time
        role, extra = message.get("role"), message.get("extra") or {}
        if role == "assistant":
            facts = {
                "openinference.span.kind": "LLM",
                "llm.model_name": attempt.model,
                "llm.cost.total": extra.get("cost"),
            }
            facts |= _messages("input", earlier) | _messages("output", message)
            yield _span(trace, _span_id(attempt.key, number), root, "model", before, after, facts)
        elif role == "user" and earlier.get("role") == "assistant":
            actions = (earlier.get("extra") or {}).get("actions") or [{}]
            command = actions[0].get("command") if isinstance(actions[0], Mapping) else None
            facts = {"openinference.span.kind": "TOOL", "tool.name": "bash", "input.value": command,
                     "output.value": message.get("content")}  # fmt: skip
            is_failed = extra.get("returncode") not in (0, None)
            yield _span(trace, _span_id(attempt.key, number), root, "bash", before, after, facts, is_failed=is_failed)
        before, earlier = after, message


def _time_of(message: Mapping[str, JsonValue]) -> float | None:
    extra = message.get("extra")
    time = extra.get("timestamp") if isinstance(extra, Mapping) else None
    return float(time) if isinstance(time, int | float) and 0 < time < 1e11 else None


def _span_id(key: str, number: int) -> str:
    return hashlib.sha256(f"swe span {key} {number}".encode()).hexdigest()[:16]


def _messages(side: str, message: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    name = f"llm.{side}_messages.0.message"
    return {f"{name}.role": message.get("role"), f"{name}.content": message.get("content")}


def _span(
    trace: str,
    span: str,
    parent: str,
    name: str,
    start: float,
    end: float,
    facts: Mapping[str, JsonValue],
    *,
    is_failed: bool = False,
) -> dict[str, JsonValue]:
    return {
        "traceId": trace, "spanId": span, "parentSpanId": parent, "name": name,
        "startTimeUnixNano": str(int(start * NANOSECONDS)), "endTimeUnixNano": str(int(end * NANOSECONDS)),
        "attributes": _attributes(facts), "status": {"code": 2 if is_failed else 1},
    }  # fmt: skip


def _attributes(facts: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    made: list[dict[str, JsonValue]] = []
    for key, value in facts.items():
        if isinstance(value, str):
            made.append({"key": key, "value": {"stringValue": value[:LONGEST_TEXT]}})
        elif isinstance(value, int) and not isinstance(value, bool):
            made.append({"key": key, "value": {"intValue": str(value)}})
        elif isinstance(value, float):
            made.append({"key": key, "value": {"doubleValue": value}})
    return made
