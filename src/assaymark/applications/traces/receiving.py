"""Receiving OTLP requests: each span is checked, redacted and stored by itself.

A span with invalid ids is rejected alone; the others of its request are stored. Spans that
arrive out of order, without their parent or with a wrong clock are stored as they are: the tree is built on reading.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from assaymark.applications.traces.dialects import facts_of, searched_text
from assaymark.applications.traces.otlp import Event, attributes_of, is_id, source_of
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.span_adding import message_digest
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import NewSpan, TraceScore
from assaymark.records import JsonValue, canonical_json

LARGEST_SOURCES = 8 << 20  # bytes of a request's resources and scopes, a resource again for each of its scopes
MOST_SEARCHED = 4000  # characters of a span
LARGEST_TIME = 2**63 - 1
EVALUATION = "gen_ai.evaluation.result"


@dataclass(frozen=True, slots=True)
class Received:
    """The outcome of a request. message: why spans were rejected, and what was left out; "" if nothing was."""

    n_stored: int
    n_rejected: int
    message: str

    def with_notes(self, notes: Sequence[str]) -> "Received":
        """Return it with more for the sender to know."""
        return replace(self, message="; ".join([*([self.message] if self.message else []), *notes]))


class _Rejections:
    """Counts rejections by reason."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, reason: str) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + 1

    @property
    def n(self) -> int:
        return sum(self._counts.values())

    @property
    def message(self) -> str:
        return "; ".join(f"{n:,}: {reason}" for reason, n in self._counts.items())


def receive_spans(
    log: TraceLog,
    project: int,
    request: ExportTraceServiceRequest,
    redaction: Redaction = Redaction(),  # noqa: B008 - frozen
) -> Received:
    """Store the spans of a request; when this returns they are on the disk and can be read.

    Raises: StoreBusy, StoreError; nothing is stored then.
    """
    rejections = _Rejections()
    added = log.add_spans(project, list(_read_spans(request, rejections, redaction.of_request())))
    for _ in added.refused:
        rejections.add("its trace has as many spans as are stored of one")
    return Received(added.n_new + added.n_same + added.n_conflicts, rejections.n, rejections.message)


def _read_spans(request: ExportTraceServiceRequest, rejections: _Rejections, redaction: Redaction) -> Iterator[NewSpan]:
    """Yield the spans of a request that can be stored; add the others to the rejections."""
    n_bytes = 0  # of resources and scopes, which are stored once for each scope
    for resource in request.resource_spans:
        of_resource: dict[str, JsonValue] | None = None
        for scope in resource.scope_spans:
            source: bytes | None = None
            for span in scope.spans:
                reason = _fault(span)
                if not reason and source is None:  # what has no span costs nothing
                    n_bytes += resource.resource.ByteSize() + scope.scope.ByteSize()
                    if n_bytes > LARGEST_SOURCES:
                        reason = (
                            f"resources and scopes of its request have more than {LARGEST_SOURCES:,} bytes together"
                        )
                if reason:
                    rejections.add(reason)
                    continue
                if of_resource is None:
                    redaction.resource(resource)
                    of_resource = attributes_of(resource.resource.attributes)
                if source is None:
                    redaction.scope(scope)
                    source = source_of(resource, scope)
                yield _new_span(span, of_resource, source, redaction)


def _fault(span: Span) -> str:
    """Return why a span cannot be stored; "" if it can."""
    if not is_id(span.trace_id, 16):
        return "the trace id is not 16 bytes, or zero"
    if not is_id(span.span_id, 8):
        return "the span id is not 8 bytes, or zero"
    if span.parent_span_id and len(span.parent_span_id) != 8:
        return "the parent's id is not 8 bytes"
    return ""


def _new_span(span: Span, resource: dict[str, JsonValue], source: bytes, redaction: Redaction) -> NewSpan:
    redaction.span(span)
    attributes = attributes_of(span.attributes)
    events = [Event(event.time_unix_nano, event.name, attributes_of(event.attributes)) for event in span.events]
    is_root = not any(span.parent_span_id)
    return NewSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=None if is_root else span.parent_span_id,
        name=span.name,
        started=min(span.start_time_unix_nano, LARGEST_TIME),
        ended=min(span.end_time_unix_nano, LARGEST_TIME) or None,
        is_error=span.status.code == Status.STATUS_CODE_ERROR or "error.type" in attributes,
        source=source,
        body=span.SerializeToString(deterministic=True),
        text=searched_text(span.name, attributes, events, MOST_SEARCHED),
        **asdict(facts_of(attributes, resource)),
    )


def receive_logs(
    log: TraceLog,
    project: int,
    request: ExportLogsServiceRequest,
    redaction: Redaction = Redaction(),  # noqa: B008 - frozen
) -> Received:
    """Store the results of evaluations among the log records of a request; other records are rejected.

    Raises: StoreBusy, StoreError; nothing is stored then.
    """
    rejections = _Rejections()
    scores: list[TraceScore] = []
    redaction = redaction.of_request()
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                redaction.attributes(record.attributes)
                made = _score(record)
                if isinstance(made, str):
                    rejections.add(made)
                else:
                    scores.append(made)
    once = {score.digest: score for score in scores}  # a score that was sent twice is one
    log.add_scores(project, list(once.values()))
    return Received(len(scores), rejections.n, rejections.message)


def _score(record: LogRecord) -> TraceScore | str:
    """Return the result of an evaluation in a log record, or the reason why there is none."""
    attributes = attributes_of(record.attributes)
    event = record.event_name or attributes.get("event.name")
    if event != EVALUATION:
        return f"only events called {EVALUATION} are stored"
    name = attributes.get("gen_ai.evaluation.name")
    if not isinstance(name, str) or not name:
        return "the evaluation has no gen_ai.evaluation.name"
    trace_id = record.trace_id if is_id(record.trace_id, 16) else None
    span_id = record.span_id if trace_id is not None and is_id(record.span_id, 8) else None
    response = attributes.get("gen_ai.response.id")
    response_id = response if isinstance(response, str) and response else None
    if trace_id is None and response_id is None:
        return "the evaluation names neither a span nor a gen_ai.response.id"
    value = attributes.get("gen_ai.evaluation.score.value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    observed = min(record.time_unix_nano or record.observed_time_unix_nano, LARGEST_TIME)
    identity: JsonValue = {
        "trace": None if trace_id is None else trace_id.hex(),
        "span": None if span_id is None else span_id.hex(),
        "response": response_id,
        "observed": observed,
        "attributes": {key: part for key, part in sorted(attributes.items()) if key.startswith("gen_ai.evaluation.")},
    }
    return TraceScore(
        digest=message_digest(canonical_json(identity)),
        trace_id=trace_id,
        span_id=span_id,
        response_id=response_id,
        name=name,
        value=float(value) if is_number and isinstance(value, int | float) else None,
        label=_text(attributes.get("gen_ai.evaluation.score.label")),
        explanation=_text(attributes.get("gen_ai.evaluation.explanation")),
        error=_text(attributes.get("error.type")),
        observed=observed,
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None
