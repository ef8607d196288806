"""Traces as answered rows: the inputs and output of the root span, the documents and the tool calls.

Whoever has a token of the project can send traces, so their texts are read into bounded records and never run.
"""

import json
from collections.abc import Sequence

from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered
from assaymark.applications.tool_calls import ToolCall
from assaymark.applications.traces.dialects import first_of
from assaymark.applications.traces.otlp import read_span
from assaymark.applications.traces.steps import INPUTS, OUTPUTS, ChatMessage, Step, step_of
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceRow, tree_of
from assaymark.errors import AssaymarkError, DataError
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue
from assaymark.store import Store

MOST_STEPS = 5000  # of a trace that is scored
MOST_DOCUMENTS = 500
_SEARCHES = ("retriever", "reranker")


def read_trace(store: Store, project: int, trace_id: bytes) -> tuple[TraceRow, list[Step]]:
    """Return a trace and its steps in the order of the tree.

    Raises: UnknownName if it does not exist (any more); DataError for more steps than are scored; HashMismatch.
    """
    trace = TraceLog(store).trace(project, trace_id)
    if trace.n_spans > MOST_STEPS:
        raise DataError(f"the trace has {trace.n_spans:,} steps; at most {MOST_STEPS:,} are scored")
    rows = TraceLog(store).spans(project, trace_id)
    return trace, [step_of(read_span(rows[node.at])) for node in tree_of(rows)]


def answered_trace(trace: TraceRow, steps: Sequence[Step]) -> Answered:
    """Return a trace as an answered row, whose id is the trace's.

    Raises: DataError for a trace without an output, with the error of its root.
    """
    inputs, output = inputs_and_output(steps)
    if output is None:
        why = next((step.error for step in steps if step.error), "")
        raise DataError(f"the trace has no output{f': {why[:500]}' if why else ''}")
    known = [n for n in (trace.n_input, trace.n_output) if n is not None]
    contexts = contexts_of(steps)
    metadata = {"trace_id": trace.trace_id.hex(), "version": trace.version, "session": trace.session}
    row = Row(
        id=trace.trace_id.hex(),
        inputs=inputs,
        contexts=contexts,
        metadata={name: value for name, value in metadata.items() if value is not None},
    )
    return Answered(
        row,
        output,
        latency_s=trace.seconds,
        cost=None if trace.n_unpriced else trace.cost,
        n_tokens=sum(known) if known else None,
        trace_id=trace.trace_id.hex(),
        contexts=contexts,
        calls=_calls(steps),
    )


def inputs_and_output(steps: Sequence[Step]) -> tuple[JsonValue, JsonValue]:
    """Return the application's input and output, each None if no step has it.

    They are the root's. If the root has none, as that of a web framework, they are the first input and the last output
    of the model calls below it.
    """
    if not steps:
        return None, None
    root = steps[0]
    below = [step for step in steps if step.kind in {"llm", "agent", "chain"}]
    inputs = _inputs(root)
    if inputs is None:
        inputs = next((value for step in below if (value := _inputs(step)) is not None), None)
    output = _output(root)
    if output is None and not root.error:
        output = next((value for step in reversed(below) if (value := _output(step)) is not None), None)
    return inputs, output


def _inputs(step: Step) -> JsonValue:
    if step.input_messages:
        asked = [message for message in step.input_messages if message.role != "system"]
        if len(asked) == 1:
            return _text(asked[0]) or None
        return [{"role": message.role, "content": _text(message)} for message in step.input_messages]
    return _recorded(step, step.input, INPUTS)


def _output(step: Step) -> JsonValue:
    if step.output_messages:
        last = step.output_messages[-1]
        if text := _text(last):
            return text
        calls: list[JsonValue] = [
            {"name": part.name, "arguments": part.text} for part in last.parts if part.kind == "call"
        ]
        return {"tool_calls": calls} if calls else None
    return _recorded(step, step.output, OUTPUTS)


def _recorded(step: Step, text: str, names: Sequence[str]) -> JsonValue:
    """Return what a step recorded: an empty text is one, and not another step's."""
    return "" if first_of(step.span.attributes, names) == "" else as_value(text)


def _text(message: ChatMessage) -> str:
    return "\n".join(part.text for part in message.parts if part.kind in {"text", "result"})


def as_value(text: str) -> JsonValue:
    """Return the mapping or list that a text is as JSON, else the text; None for an empty one."""
    if text.lstrip()[:1] in {"{", "["}:
        try:
            value: JsonValue = parse_json(text)
            json.dumps(value, allow_nan=False)  # NaN is no JSON, and no other program reads it
        except (ValueError, RecursionError, AssaymarkError):
            return text
        return value
    return text or None


def contexts_of(steps: Sequence[Step]) -> tuple[str, ...] | None:
    """Return the texts of the retrieved documents, each once; those of rerankers if there are any."""
    for kind in reversed(_SEARCHES):
        texts = [document.text for step in steps if step.kind == kind for document in step.documents if document.text]
        if texts:
            return tuple(dict.fromkeys(texts))[:MOST_DOCUMENTS]
    return None


def _calls(steps: Sequence[Step]) -> tuple[ToolCall, ...] | None:
    """Return the calls of tools, in the order of the tree; None without any."""
    calls = []
    for step in steps:
        if step.tool is not None and step.tool.name:
            arguments = as_value(step.tool.arguments)
            calls.append(ToolCall(step.tool.name, arguments if isinstance(arguments, dict) else None))
    return tuple(calls) or None
