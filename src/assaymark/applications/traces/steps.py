"""The step of a span in any dialect: its messages, documents, tool call, input and output.

OpenTelemetry's GenAI conventions have messages as lists of parts, in attributes or in events; OpenInference and
traceloop flatten them into attributes with positions in their names. Here they all become the same records.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace

from assaymark.applications.traces.dialects import facts_of, first_of, parsed, text_of
from assaymark.applications.traces.otlp import ReadSpan
from assaymark.applications.traces.trace_rows import SpanFacts
from assaymark.records import JsonValue

LONGEST_JSON = 64 << 20  # characters of an attribute: the span itself is smaller
DEEPEST_KEY = 12  # parts of a flattened name
MOST_LISTED = 10_000  # messages, documents or parts of one step
_DETAILS = "gen_ai.client.inference.operation.details"
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a message. kind: text, reasoning, call, result or file. name: of a tool, or the type of a file."""

    kind: str
    text: str
    name: str = ""
    id: str = ""

    json_keys = "type=kind text name? id?"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a chat."""

    role: str
    parts: tuple[MessagePart, ...]
    finish: str = ""

    json_keys = "role parts finish_reason?=finish"


@dataclass(frozen=True, slots=True)
class Document:
    """A document that a search returned."""

    id: str
    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class ToolExchange:
    """A call of a tool and its result."""

    name: str
    arguments: str
    result: str
    id: str = ""

    json_keys = "name arguments result"


INPUTS = ("input.value", "traceloop.entity.input", "gen_ai.embeddings.input")
OUTPUTS = ("output.value", "traceloop.entity.output")
"""Attributes of what a step was given, and of what it returned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(SpanFacts):
    """A span as a step of an application. error: why it failed, "" where it did not."""

    span: ReadSpan
    input_messages: tuple[ChatMessage, ...]
    output_messages: tuple[ChatMessage, ...]
    documents: tuple[Document, ...]
    tool: ToolExchange | None
    input: str
    output: str
    error: str

    json_keys = (
        "trace_id=span.trace_id span_id=span.span_id parent_id=span.parent_id name=span.name kind "
        "started_ns=span.started ended_ns=span.ended model input_tokens=n_input output_tokens=n_output cost user "
        "session is_error=span.is_error error input_messages output_messages documents tool input output "
        "attributes=span.attributes events=span.events links=span.links dropped=span.n_dropped resource=span.resource "
        "scope=span.scope"
    )


def step_of(span: ReadSpan) -> Step:
    """Return the step of a span."""
    attributes = dict(span.attributes)
    for event in span.events:
        if event.name == _DETAILS:
            attributes = {**event.attributes, **attributes}
    facts = facts_of(attributes, span.resource)
    questions, answers = _messages(attributes, span)
    return Step(
        **asdict(facts),
        span=span,
        input_messages=questions,
        output_messages=answers,
        documents=tuple(_documents(attributes)),
        tool=_tool(attributes) if facts.kind == "tool" else None,
        input=_as_text(first_of(attributes, INPUTS)),
        output=_as_text(first_of(attributes, OUTPUTS)),
        error=_error(span),
    )


def _error(span: ReadSpan) -> str:
    raised = next((event for event in reversed(span.events) if event.name == "exception"), None)
    texts: list[str | None] = [span.status]
    if raised is not None:
        kind = text_of(raised.attributes, ("exception.type",)) or ""
        said = text_of(raised.attributes, ("exception.message",)) or ""
        texts.append(f"{kind}: {said}".strip(": "))
    texts.append(text_of(span.attributes, ("error.message", "error.type")))
    return next((text for text in texts if text), "failed" if span.is_error else "") if span.is_error or raised else ""


# -------------------------------------------------------------------------------------------- messages


def _messages(
    attributes: Mapping[str, JsonValue], span: ReadSpan
) -> tuple[tuple[ChatMessage, ...], tuple[ChatMessage, ...]]:
    """Return the messages that were sent and those that came back, of the first dialect that has any."""
    questions = [
        *_of_instructions(attributes.get("gen_ai.system_instructions")),
        *_of_list(attributes.get("gen_ai.input.messages")),
    ]
    answers = _of_list(attributes.get("gen_ai.output.messages"))
    if not questions and not answers:
        questions = _of_flat(attributes, "llm.input_messages.", "message")
        answers = _of_flat(attributes, "llm.output_messages.", "message")
    if not questions and not answers:
        questions = _of_flat(attributes, "gen_ai.prompt.", "")
        answers = _of_flat(attributes, "gen_ai.completion.", "")
    if not questions and not answers:
        questions, answers = _of_events(span)
    return tuple(questions[:MOST_LISTED]), tuple(answers[:MOST_LISTED])


def _of_instructions(value: JsonValue) -> list[ChatMessage]:
    parts = parsed(value, LONGEST_JSON)
    if parts is None:
        return []
    read = _parts(parts)
    return [ChatMessage("system", read)] if read else []


def _of_list(value: JsonValue) -> list[ChatMessage]:
    """Return the messages of GenAI's attributes: a list, or its JSON."""
    messages = parsed(value, LONGEST_JSON)
    if isinstance(messages, str):
        return [ChatMessage("", (MessagePart("text", messages),))] if messages else []
    entries = [messages] if isinstance(messages, dict) else messages if isinstance(messages, list) else []
    return [_message(each) for each in entries if isinstance(each, dict)]


def _message(value: Mapping[str, object]) -> ChatMessage:
    """Return a message with parts, or in the form of chat APIs."""
    parts = _parts(value.get("parts") if value.get("parts") is not None else value.get("content"))
    parts += tuple(_call(call) for call in _dicts(value.get("tool_calls")))
    if value.get("role") == "tool" and value.get("tool_call_id"):
        parts = tuple(
            replace(part, kind="result", id=str(value["tool_call_id"])) if part.kind == "text" else part
            for part in parts
        )
    return ChatMessage(_as_text(value.get("role")), parts, _as_text(value.get("finish_reason")))


def _parts(value: JsonValue) -> tuple[MessagePart, ...]:
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        return (MessagePart("text", _as_text(value)),)
    return tuple(_part(part) for part in value[:MOST_LISTED])


def _part(part: JsonValue) -> MessagePart:
    """Return a part of GenAI's conventions, of a chat API, or of OpenInference's."""
    if not isinstance(part, dict):
        return MessagePart("text", _as_text(part))
    kind = part.get("type")
    if kind in {"reasoning", "thinking"}:
        return MessagePart("reasoning", _as_text(first_of(part, ("content", "text", "thinking"))))
    if kind in {"tool_call", "tool_use", "function"}:
        return _call(part)
    if kind in {"tool_call_response", "tool_result"}:
        result = first_of(part, ("response", "result", "content"))
        return MessagePart("result", _as_text(result), id=_as_text(first_of(part, ("id", "tool_use_id"))))
    if kind in {"blob", "uri", "file", "image", "image_url", "input_audio"}:
        source = first_of(part, ("uri", "file_id", "filename", "url"))
        media = _as_text(first_of(part, ("mime_type", "modality"))) or str(kind)
        return MessagePart("file", _as_text(source)[:500] if source is not None else f"{kind}, not shown", media)
    return MessagePart("text", _as_text(first_of(part, ("content", "text")) if kind or "text" in part else part))


def _call(call: Mapping[str, object]) -> MessagePart:
    inner = call.get("function")
    function = inner if isinstance(inner, dict) else call
    arguments = first_of(function, ("arguments", "input"))
    return MessagePart("call", _as_text(arguments), _as_text(function.get("name")), _as_text(call.get("id")))


def _of_flat(attributes: Mapping[str, JsonValue], prefix: str, inner: str) -> list[ChatMessage]:
    """Return messages whose fields are attributes, as `llm.input_messages.0.message.role`."""
    messages = []
    for item in _objects_by_position(_nested(attributes, prefix)):
        fields = item.get(inner) if inner else item
        if not isinstance(fields, dict):
            continue
        parts = _parts(parsed(fields.get("content")) if prefix.startswith("gen_ai") else fields.get("content"))
        for content in _objects_by_position(fields.get("contents")):
            parts += (_flat_content(content.get("message_content")),)
        for call in _objects_by_position(fields.get("tool_calls")):
            inside = call.get("tool_call")
            parts += (_call(inside if isinstance(inside, dict) else call),)
        if (call_id := fields.get("tool_call_id")) is not None:
            parts = tuple(replace(part, kind="result", id=_as_text(call_id)) for part in parts)
        messages.append(ChatMessage(_as_text(fields.get("role")), parts, _as_text(fields.get("finish_reason"))))
    return messages


def _flat_content(content: object) -> MessagePart:
    if not isinstance(content, dict):
        return MessagePart("text", _as_text(content))
    if "text" in content:
        return MessagePart("reasoning" if content.get("type") == "reasoning" else "text", _as_text(content["text"]))
    return MessagePart(
        "file", f"{_as_text(content.get('type')) or 'content'}, not shown", _as_text(content.get("type"))
    )


def _of_events(span: ReadSpan) -> tuple[list[ChatMessage], list[ChatMessage]]:
    """Return the messages of events, one each, as earlier versions of GenAI's conventions have them."""
    questions, answers = [], []
    for event in span.events:
        body = {name.removeprefix("gen_ai.event."): parsed(value) for name, value in event.attributes.items()}
        content = body.get("content")  # some have all of the message there
        if isinstance(content, dict):
            body = {**body, **content}
        if event.name in _EVENT_ROLES:
            body.setdefault("role", _EVENT_ROLES[event.name])
            if event.name == "gen_ai.tool.message":
                body.setdefault("tool_call_id", body.get("id"))
            questions.append(_message(body))
        elif event.name == "gen_ai.choice":
            message = body.get("message")
            message = message if isinstance(message, dict) else body
            finish = body.get("finish_reason")
            answers.append(replace(_message({"role": "assistant", **message}), finish=_as_text(finish)))
        elif event.name in {"gen_ai.content.prompt", "gen_ai.content.completion"}:
            value = first_of(event.attributes, ("gen_ai.prompt", "gen_ai.completion"))
            (questions if event.name.endswith("prompt") else answers).extend(_of_list(value))
    return questions, answers


# --------------------------------------------------------------------------------- documents and tools


def _documents(attributes: Mapping[str, JsonValue]) -> Iterator[Document]:
    listed = parsed(attributes.get("gen_ai.retrieval.documents"), LONGEST_JSON)
    for each in _dicts(listed)[:MOST_LISTED]:
        yield _document(each)
    for prefix in ("retrieval.documents.", "reranker.output_documents."):
        for item in _objects_by_position(_nested(attributes, prefix)):
            if isinstance(document := item.get("document"), dict):
                yield _document(document)


def _document(fields: Mapping[str, object]) -> Document:
    score = fields.get("score")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    return Document(
        _as_text(fields.get("id")),
        _as_text(first_of(fields, ("content", "text", "page_content"))),
        float(score) if is_number and isinstance(score, int | float) else None,
    )


def _tool(attributes: Mapping[str, JsonValue]) -> ToolExchange:
    names = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
    arguments = ("gen_ai.tool.call.arguments", "tool.parameters", "input.value", "traceloop.entity.input")
    results = ("gen_ai.tool.call.result", *OUTPUTS)
    call_id = text_of(attributes, ("gen_ai.tool.call.id", "tool_call.id", "tool.id")) or ""
    return ToolExchange(
        text_of(attributes, names) or "",
        _as_text(first_of(attributes, arguments)),
        _as_text(first_of(attributes, results)),
        call_id,
    )


# ---------------------------------------------------------------------------------------------- values


def _nested(attributes: Mapping[str, JsonValue], prefix: str) -> dict[str, object]:
    """Return attributes whose names begin with a prefix as objects inside objects."""
    root: dict[str, object] = {}
    for name, value in attributes.items():
        if not name.startswith(prefix):
            continue
        steps = name[len(prefix) :].split(".", DEEPEST_KEY)
        here = root
        for step in steps[:-1]:
            below = here.setdefault(step, {})
            if not isinstance(below, dict):
                below = here[step] = {"": below}
            here = below
        here[steps[-1]] = value
    return root


def _objects_by_position(value: JsonValue) -> list[dict[str, JsonValue]]:
    """Return the objects under positions 0, 1, ... in their order."""
    if not isinstance(value, dict):
        return []
    positions = sorted(int(key) for key in value if key.isascii() and key.isdigit() and len(key) < 7)
    return [value[str(at)] for at in positions[:MOST_LISTED] if isinstance(value.get(str(at)), dict)]


def _dicts(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _as_text(value: object) -> str:
    """Return a value as text: texts as they are, others as JSON; "" for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
