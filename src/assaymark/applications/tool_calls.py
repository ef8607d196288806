"""Tool calls in answers and rows, and the tools that a row lists, in the providers' forms.

Answers and rows are not trusted: a value of no known form is not a call, and one that is too long is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assaymark.applications.rows import Row
from assaymark.errors import UsageError
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue

MOST_CALLS = 1000  # of one answer
_CALLS = ("tool_calls", "tools_called", "expected_tools", "reference_tool_calls", "expected_tool_calls")
_ARGUMENTS = ("arguments", "args", "input", "input_parameters", "parameters")
_SCHEMAS = ("parameters", "input_schema", "inputSchema")
_STEPS = ("steps", "intermediate_steps", "trajectory")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool. arguments: None if they are no JSON object, as models sometimes write them."""

    name: str
    arguments: Mapping[str, JsonValue] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool that may be called. schema: the JSON Schema of its arguments; None: it is not known."""

    name: str
    description: str = ""
    schema: Mapping[str, JsonValue] | None = None


def calls_in(value: JsonValue) -> list[ToolCall] | None:
    """Return the tool calls in an answer or an expected value; None if it has no place for any, as a text.

    Forms: a list of calls; a mapping with `tool_calls`, `tools_called` and the like; a message or `messages` of
    OpenAI's (`tool_calls` with `function`), Anthropic's (content blocks `tool_use`) or OpenTelemetry's (parts
    `tool_call`) form; any of them as JSON in a text.
    """
    if isinstance(value, str):
        if value.lstrip()[:1] not in ("{", "["):
            return None
        try:
            value = parse_json(value)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, list):
        return _of_list(value)
    if not isinstance(value, Mapping):
        return None
    if (call := _call(value)) is not None:
        return [call]
    for name in _CALLS:
        if name in value:
            calls = value[name]
            return _of_list(calls) if isinstance(calls, list) else None if calls else []
    for name in ("messages", "message", "content", "parts", "output", "response", "choices"):
        inner = value.get(name)
        if isinstance(inner, list | Mapping) and (calls := calls_in(inner)) is not None:
            return calls
    return [] if "role" in value else None


def has_unread_calls(value: JsonValue) -> bool:
    """Return whether an answer without readable calls has some that are cut off or in no known form."""
    if isinstance(value, str):
        return any(f'"{name}"' in value for name in _CALLS) and calls_in(value) is None
    if isinstance(value, Mapping):
        return any(value.get(name) for name in _CALLS) or any(map(has_unread_calls, value.values()))
    return isinstance(value, list) and any(map(has_unread_calls, value))


def _of_list(values: Sequence[object]) -> list[ToolCall] | None:
    """Return the calls in a list of calls, messages or content blocks; None where it holds something else."""
    calls: list[ToolCall] = []
    for value in values[:MOST_CALLS]:
        if isinstance(value, Mapping) and (call := _call(value)) is not None:
            calls.append(call)
        elif isinstance(value, Mapping) and (_is_block(value) or (inner := calls_in(value)) is not None):
            calls += [] if _is_block(value) else inner or []
        else:
            return None
    return calls[:MOST_CALLS]


def _is_block(value: Mapping[str, object]) -> bool:
    """Return whether a mapping is a part of a message that is not a call: a text, a result, reasoning."""
    return value.get("type") in ("text", "tool_result", "tool_call_response", "thinking", "reasoning", "image",
                                 "output_text")  # fmt: skip


def _call(value: Mapping[str, object]) -> ToolCall | None:
    function = value.get("function")
    inside = function if isinstance(function, Mapping) else value
    name = inside.get("name")
    if not isinstance(name, str) or not name or "role" in value:
        return None
    arguments = next((inside[each] for each in _ARGUMENTS if each in inside), None)
    if (
        arguments is None
        and inside is value
        and set(value) - {"name", "id", "type", "description", "reasoning", "output"}
    ):
        return None
    return ToolCall(name, _arguments(arguments))


def _arguments(arguments: object) -> Mapping[str, JsonValue] | None:
    """Return arguments: a mapping, or the JSON text of one; an empty value means none."""
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        try:
            arguments = parse_json(arguments)
        except (ValueError, RecursionError):
            return None
    if arguments is None:
        return {}
    return arguments if isinstance(arguments, Mapping) else None


def expected_calls(row: Row) -> list[ToolCall] | None:
    """Return the calls that a row expects: its expected value, or a column such as DeepEval's `expected_tools`."""
    calls = None if row.expected is None else calls_in(row.expected)
    if calls is not None:
        return calls
    named = next((row.metadata[name] for name in _CALLS[2:] if row.metadata.get(name) is not None), None)
    return calls_in(named) if isinstance(named, list) else None


def tools_in(value: object) -> tuple[Tool, ...] | None:
    """Return the tools of a list in OpenAI's, Anthropic's, MCP's or a plain form; None for anything else."""
    if isinstance(value, Mapping):
        value = value.get("tools")
    if not isinstance(value, list | tuple) or not value:
        return None
    tools = [_tool(each) for each in value]
    return None if any(each is None for each in tools) else tuple(each for each in tools if each is not None)


def _tool(value: object) -> Tool | None:
    if isinstance(value, str) and value:
        return Tool(value)
    if not isinstance(value, Mapping):
        return None
    function = value.get("function")
    inside = function if isinstance(function, Mapping) else value
    name, description = inside.get("name"), inside.get("description")
    schema = next((inside[each] for each in _SCHEMAS if isinstance(inside.get(each), Mapping)), None)
    if not isinstance(name, str) or not name:
        return None
    return Tool(name, description if isinstance(description, str) else "", schema)


def tools_of(row: Row) -> tuple[Tool, ...] | None:
    """Return the tools that a row lists: `tools` of its inputs or metadata."""
    inputs = row.inputs.get("tools") if isinstance(row.inputs, Mapping) else None
    return tools_in(inputs) or tools_in(row.metadata.get("tools"))


def given_tools(value: object, scorer: str) -> tuple[Tool, ...] | None:
    """Return the tools of a scorer's setting; None if it has none, so that each row's own are used.

    Raises: UsageError.
    """
    if value is None:
        return None
    tools = tools_in(value)
    if tools is None:
        raise UsageError(
            f"scorer {scorer}: tools are {value!r:.60}; expected a list of names, or of mappings with name and "
            "parameters"
        )
    return tools


def n_steps_in(value: JsonValue) -> int | None:
    """Return the steps that an answer reports; None where it reports none.

    They are the entries of `steps`, `intermediate_steps` or `trajectory`, a number under one of these names, or else
    the messages of the assistant.
    """
    if not isinstance(value, Mapping):
        return None
    for name in _STEPS:
        steps = value.get(name)
        if isinstance(steps, list):
            return len(steps)
        if isinstance(steps, int) and not isinstance(steps, bool) and steps >= 0:
            return steps
    messages = value.get("messages")
    if not isinstance(messages, list):
        return None
    roles = [each.get("role", each.get("type")) for each in messages if isinstance(each, Mapping)]
    return sum(role in ("assistant", "ai") for role in roles)
