"""OpenTelemetry's messages over HTTP in both encodings: reading into bounded records, and writing.

A request is a list of resources, each with scopes, each with spans (or log records). A request that cannot be decoded
is refused as a whole; a single span with an invalid id or an excessive size is rejected alone, and an attribute that is
nested too deep is left out alone, as the answer states.

Source: OTLP specification 1.x (https://opentelemetry.io/docs/specs/otlp/), opentelemetry-proto trace/v1, logs/v1. JSON
differs from protobuf's own mapping: ids are hexadecimal, not base64. `json_format` would silently read 32 hexadecimal
digits as base64 of 24 bytes, so they are translated first.
"""

import base64
import json
import math
import re
import zlib
from binascii import unhexlify
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from assaymark.applications.traces.message_size import SMALLER, TooLarge, check_json, count_fields
from assaymark.applications.traces.trace_rows import SpanRow
from assaymark.documents.numbers import counted
from assaymark.errors import DataError
from assaymark.limits.nesting import is_deeper, json_kind
from assaymark.records import JsonValue

PROTOBUF, JSON = "application/x-protobuf", "application/json"
LARGEST_BODY = 8 << 20  # bytes, compressed and unpacked: what is searched for secrets in about a second
MOST_SPANS = 5_000  # of a request; exporters send 512 at once unless told otherwise
DEEPEST_JSON = 100
DEEPEST_VALUE = 32  # of lists and maps in an attribute
TOO_DEEP = "(nested too deep)"  # what stands for such a value
_JSON_PART = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
UNPACKED_AT_ONCE = 1 << 20
_WINDOWS = {"gzip": 31, "deflate": 15}  # zlib's numbers of the formats
_IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened during a span. time: nanoseconds since 1970."""

    time: int
    name: str
    attributes: Mapping[str, JsonValue]

    json_keys = "name time_ns=time attributes"


@dataclass(frozen=True, slots=True)
class Link:
    """A span that another one names."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A span in plain values. Times in nanoseconds since 1970; ended: None while it runs."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    started: int
    ended: int | None
    is_error: bool
    status: str
    attributes: Mapping[str, JsonValue]
    events: Sequence[Event]
    links: Sequence[Link]
    n_dropped: int  # attributes and events that the sender dropped
    resource: Mapping[str, JsonValue]
    scope: str


# ---------------------------------------------------------------------------------------------- bodies


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body without its compression.

    Raises: TooLarge if it unpacks to more than is accepted; DataError for another compression or a damaged body.
    """
    if encoding in {"", "identity"}:
        return body
    if encoding not in _WINDOWS:
        raise DataError(f"the content encoding is '{encoding[:40]}'; expected gzip, deflate or none")
    largest = unpacked_size(body, encoding)
    stream = zlib.decompressobj(_WINDOWS[encoding])
    pieces: list[bytes] = []
    size = 0
    try:
        waiting = body
        while not stream.eof:
            piece = stream.decompress(waiting, UNPACKED_AT_ONCE)
            waiting = stream.unconsumed_tail
            size += len(piece)
            if size > largest:
                raise TooLarge(f"the body unpacks to more than {largest:,} bytes; {SMALLER}, as one stream")
            if not piece and not waiting and not stream.eof:
                raise DataError(f"the body ends before its {encoding} does; send it whole")
            pieces.append(piece)
    except zlib.error as error:
        raise DataError(f"the body is not {encoding}: {error}") from None
    if stream.unused_data:
        raise DataError(f"the body goes on after its {encoding} ends; send it as one stream")
    return b"".join(pieces)


def unpacked_size(body: bytes, encoding: str) -> int:
    """Return an upper bound of the size of an unpacked body: from gzip's last four bytes, else the limit."""
    if encoding not in _WINDOWS:
        return len(body)
    return min(LARGEST_BODY, int.from_bytes(body[-4:], "little")) if encoding == "gzip" else LARGEST_BODY


def traces_request(body: bytes, kind: str, notes: list[str] | None = None) -> ExportTraceServiceRequest:
    """Return a request to store spans; what was left out of it is added to `notes`.

    Raises: DataError for an invalid one; TooLarge for too many spans.
    """
    request = ExportTraceServiceRequest()
    _parse(request, body, kind, ("resourceSpans", "scopeSpans", "spans"), notes)
    n = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    if n > MOST_SPANS:
        raise TooLarge(f"the body has {n:,} spans; expected at most {MOST_SPANS:,}; {SMALLER}")
    return request


def logs_request(body: bytes, kind: str, notes: list[str] | None = None) -> ExportLogsServiceRequest:
    """Return a request to store log records; see `traces_request`. Raises: DataError for an invalid one."""
    request = ExportLogsServiceRequest()
    _parse(request, body, kind, ("resourceLogs", "scopeLogs", "logRecords"), notes)
    return request


def _parse(message: Message, body: bytes, kind: str, levels: tuple[str, str, str], notes: list[str] | None) -> None:
    """Parse a body into a message. Raises: DataError; TooLarge for more fields than are accepted."""
    try:
        if kind == PROTOBUF:
            count_fields(body, message.DESCRIPTOR)
            message.ParseFromString(body)
            return
        made = _json(body, [] if notes is None else notes)
        _translate_ids(made, levels)
        json_format.ParseDict(made, message, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError, RecursionError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"the body is no OTLP message: {reason}") from None


def _json(body: bytes, notes: list[str]) -> object:
    text = body.decode("utf-8")
    check_json(text)
    if is_deeper(text, DEEPEST_JSON):
        text, n_left_out = _without_deep_attributes(text)
        notes.append(f"left out {counted(n_left_out, 'attribute')}, nested deeper than {DEEPEST_JSON} levels")
    made = json.loads(text)
    if not isinstance(made, dict):
        raise TypeError(f"it is a JSON {json_kind(made)}; expected an object")
    return _without_surrogates(made) if "\\ud" in text.lower() else made


def _without_deep_attributes(text: str) -> tuple[str, int]:
    """Return JSON with a note for each attribute's value that is nested too deep, and their number.

    Raises: ValueError for brackets that are open at the end, or nested too deep outside of attributes.
    """
    kept: list[str] = []
    opened: list[int | None] = []  # for each open bracket: where it begins, if it is a value of an attribute
    at, n_left_out, deep, last = 0, 0, 0, ""  # deep: how many brackets stay open when the value ends; 0: it is shallow
    for part in _JSON_PART.finditer(text):
        if part[0] in "[{":
            opened.append(part.start() if last in {'"value"', '"body"'} else None)
            if len(opened) > DEEPEST_JSON and not deep:
                deep = next((n for n, start in enumerate(opened) if start is not None), 0)
                if not deep:
                    raise ValueError(f"nested deeper than {DEEPEST_JSON} levels")
                kept += text[at : opened[deep]], json.dumps({"stringValue": TOO_DEEP})
                n_left_out += 1
        elif part[0] in "]}" and opened:
            opened.pop()
            if deep and len(opened) == deep:
                at, deep = part.end(), 0
        last = part[0]
    if opened:
        raise ValueError("it ends within an object or array")
    return "".join([*kept, text[at:]]), n_left_out


def _without_surrogates(value: object) -> object:
    """Replace halves of surrogate pairs, which JSON's escapes can make and no protobuf string can hold."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(part) for key, part in value.items()}
    return [_without_surrogates(part) for part in value] if isinstance(value, list) else value


def _translate_ids(made: object, levels: tuple[str, str, str]) -> None:
    """Replace hexadecimal ids by base64, protobuf's JSON for bytes; other values become empty."""
    for resource in _objects_under(made, levels[0]):
        for scope in _objects_under(resource, levels[1]):
            for item in _objects_under(scope, levels[2]):
                _translate(item)
                for link in _objects_under(item, "links"):
                    _translate(link)


def _objects_under(value: object, name: str) -> list[dict[str, JsonValue]]:
    parts = value.get(name) if isinstance(value, dict) else None
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    parts = parts if parts is not None else value.get(snake) if isinstance(value, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _translate(item: dict[str, object]) -> None:
    for name in _IDS:
        if isinstance(text := item.get(name), str):
            try:
                item[name] = base64.b64encode(unhexlify(text)).decode()
            except ValueError:
                item[name] = ""


def encoded_answer(kind: str, noun: str, n_rejected: int, message: str) -> bytes:
    """Return the body of an answer to a request that was carried out, in whole or in part.

    Args:
        kind: of encoding.
        noun: spans or logs.
        n_rejected: of them, how many were not stored.
        message: the reason, or another message for the sender; "" for none.
    """
    answer = ExportTraceServiceResponse() if noun == "spans" else ExportLogsServiceResponse()
    if n_rejected or message:
        field = "rejected_spans" if noun == "spans" else "rejected_log_records"
        setattr(answer.partial_success, field, n_rejected)
        answer.partial_success.error_message = message
    made = json_format.MessageToJson(answer, indent=None).encode() if kind == JSON else answer.SerializeToString()
    return bytes(made)


def encoded_status(kind: str, code: int, message: str) -> bytes:
    """Return the body of a refusal: google.rpc.Status, whose code is one of gRPC's."""
    if kind == JSON:
        return json.dumps({"code": code, "message": message}).encode()
    text = message.encode()
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text  # fields 1 (int32) and 2 (string)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


# ---------------------------------------------------------------------------------------------- values


def is_id(value: bytes, size: int) -> bool:
    """Return whether these bytes are a valid id of that length, which is not all zeros."""
    return len(value) == size and any(value)


def id_of(text: str, size: int) -> bytes | None:
    """Return a valid id of that many bytes from its hexadecimal digits; None if it is none."""
    try:
        read = bytes.fromhex(text) if len(text) == 2 * size else b""
    except ValueError:
        return None
    return read if is_id(read, size) else None


def attributes_of(pairs: Sequence[KeyValue]) -> dict[str, JsonValue]:
    """Return attributes as plain values; the last value of a repeated key counts."""
    return {pair.key: value_of(pair.value) for pair in pairs}


def value_of(value: AnyValue, depth: int = 0) -> JsonValue:
    """Return the value of an attribute; bytes as base64, and a note in place of values nested too deeply."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        if depth >= DEEPEST_VALUE:
            return TOO_DEEP
        return [value_of(part, depth + 1) for part in value.array_value.values]
    if kind == "kvlist_value":
        if depth >= DEEPEST_VALUE:
            return TOO_DEEP
        return {pair.key: value_of(pair.value, depth + 1) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    plain: JsonValue = getattr(value, kind)
    if isinstance(plain, float) and not math.isfinite(plain):
        return str(plain)
    return plain


def read_span(row: SpanRow) -> ReadSpan:
    """Return a stored span in plain values."""
    span, source = Span.FromString(row.body), ResourceSpans.FromString(row.source)
    scope = source.scope_spans[0].scope if source.scope_spans else None
    return ReadSpan(
        trace_id=row.trace_id.hex(),
        span_id=row.span_id.hex(),
        parent_id=None if row.parent_id is None else row.parent_id.hex(),
        name=span.name,
        started=row.started,
        ended=row.ended,
        is_error=row.is_error,
        status=span.status.message,
        attributes=attributes_of(span.attributes),
        events=tuple(Event(each.time_unix_nano, each.name, attributes_of(each.attributes)) for each in span.events),
        links=tuple(Link(link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        n_dropped=span.dropped_attributes_count + span.dropped_events_count,
        resource=attributes_of(source.resource.attributes),
        scope="" if scope is None else f"{scope.name} {scope.version}".strip(),
    )


# ---------------------------------------------------------------------------------------------- export


def spans_json(rows: Sequence[SpanRow]) -> dict[str, list[dict[str, JsonValue]]]:
    """Return spans as the JSON of an OTLP request, which any receiver takes."""
    by_source: dict[bytes, list[SpanRow]] = {}
    for row in rows:
        by_source.setdefault(row.source, []).append(row)
    return {"resourceSpans": [_resource_json(source, of_source) for source, of_source in by_source.items()]}


def _resource_json(source: bytes, rows: Sequence[SpanRow]) -> dict[str, JsonValue]:
    resource = ResourceSpans.FromString(source)
    scope = resource.scope_spans[0] if resource.scope_spans else resource.scope_spans.add()
    scope.spans.extend(Span.FromString(row.body) for row in rows)
    made = json_format.MessageToDict(resource, use_integers_for_enums=True)
    spans = [span for scope in made.get("scopeSpans", ()) for span in scope.get("spans", ())]
    for each in [*spans, *(link for span in spans for link in span.get("links", ()))]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in each:
                each[name] = base64.b64decode(each[name]).hex()
    content: dict[str, JsonValue] = made
    return content


def source_of(resource: ResourceSpans, scope: ScopeSpans) -> bytes:
    """Return the serialised resource and scope of spans, as stored."""
    kept = ResourceSpans(resource=resource.resource, schema_url=resource.schema_url)
    kept.scope_spans.append(ScopeSpans(scope=scope.scope, schema_url=scope.schema_url))
    return bytes(kept.SerializeToString(deterministic=True))
