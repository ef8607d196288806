"""Tasks with tools: the keys of their files, the expected calls, and a right answer as text.

Expected calls are `{"name": ..., "arguments": {...}}` (OpenAI's), with exact values, or BFCL's `{name: {parameter: [
acceptable values]}}`; a list of them, or its JSON text. An empty list expects that no function is called.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from assaymark.errors import DataError, MalformedSample
from assaymark.limits.nesting import parse_json
from assaymark.prompts.tools import ToolsOf, declarations_in, resolve_tools, shown_name
from assaymark.records import Row
from assaymark.scoring.call_match import OMISSIBLE, CallMatchRules, ExpectedCall
from assaymark.scoring.call_syntax import python_call_text, source_call_text
from assaymark.scoring.call_values import java_text, javascript_text
from assaymark.scoring.metric import ANY_CALL, CALL_MATCH
from assaymark.scoring.tool_calls import Language
from assaymark.tasks.messages import list_in
from assaymark.tasks.row_columns import ToolColumns
from assaymark.tasks.task import MetricSpec, PromptSpec


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The values that a task with tools needs from a row."""

    tools: ToolsOf  # what the model is told
    functions: ToolsOf  # by whose types calls are compared
    expected: Callable[[Row], tuple[ExpectedCall, ...]]
    rules: CallMatchRules
    in_prompt: bool  # whether the model is told by a system prompt, not by its template

    def answer(self, row: Row) -> str:
        """Return a right answer, of the first acceptable values, as a model would write it."""
        functions, expected = {each["name"]: each for each in self.functions(row)}, self.expected(row)
        calls: list[tuple[str, Mapping[str, object]]]
        calls = [(call.name, _arguments(functions.get(call.name) or {}, call)) for call in expected]
        language = self.rules.language
        if language != "python":
            calls = [
                (name, _in_source(functions[name], arguments, language, quotes=self.in_prompt))
                for name, arguments in calls
            ]
        if not self.in_prompt:
            named = [{"name": shown_name(name), "arguments": arguments} for name, arguments in calls]
            return json.dumps(named, ensure_ascii=False)
        write = python_call_text if language == "python" else source_call_text
        return f"[{', '.join(write(name, arguments) for name, arguments in calls)}]"


def tool_use_of(
    prompt: PromptSpec, metrics: Sequence[MetricSpec], load: Callable[[object], object], columns: Collection[str]
) -> ToolUse | None:
    """Return the tool settings of a task's file; None for a task without tools.

    Raises: DataError for a key that names no column.
    """
    if prompt.tools is None:
        return None
    tools = resolve_tools(load(prompt.tools), columns)
    options = next((metric.kwargs for metric in metrics if metric.name in (CALL_MATCH, ANY_CALL)), {})
    functions = options.get("functions")
    in_prompt = prompt.tools_in == "prompt"
    rules = CallMatchRules(
        "calls" if in_prompt else "any",
        cast("Language", options.get("language", "python")),
        str if in_prompt else shown_name,
        as_bfcl=functions is not None,  # compared by BFCL's own declarations
    )
    return ToolUse(
        tools=tools,
        functions=tools if functions is None else resolve_tools(functions, columns),
        expected=_resolve_expected(load(prompt.target), columns),
        rules=rules,
        in_prompt=in_prompt,
    )


def refuse_unfit_keys(spec: Mapping[str, object], source: object) -> None:
    """Raise DataError for keys that do not go with tools, or need them."""
    listed = spec.get("metric_list")
    items = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list | tuple) else []
    of_calls = [item for item in items if item.get("metric") in (CALL_MATCH, ANY_CALL)]
    if spec.get("doc_to_tools") is None:
        needy = [str(item["metric"]) for item in of_calls]
        needy += [key for key in ("tools_in", "simulator") if spec.get(key) is not None]
        if needy:
            raise DataError(f"{source}: {needy[0]} needs doc_to_tools, the functions that may be called")
        return
    fits = {
        "output_type": (spec.get("output_type", "generate_until") == "generate_until", "generate_until"),
        "simulator": (spec.get("simulator") in (None, "bfcl"), "bfcl"),
        "repeats": (spec.get("simulator") is None or spec.get("repeats", 1) == 1, "1 with a simulator"),
        "tools_in": (spec.get("tools_in", "template") in ("template", "prompt"), "template or prompt"),
        "doc_to_text": ((spec.get("doc_to_messages") is None) != (spec.get("doc_to_text") is None),
                        "this or doc_to_messages, not both"),
        **{key: (not spec.get(key), "none") for key in ("doc_to_turns", "doc_to_choice", "gen_prefix", "num_fewshot")},
    }  # fmt: skip
    for key, (is_fit, expected) in fits.items():
        if not is_fit:
            raise DataError(f"{source}: {key} is {spec.get(key)!r:.80}; expected {expected} with doc_to_tools")
    for item in of_calls:
        language = item.get("language", "python")
        if language not in get_args(Language):
            raise DataError(f"{source}: language is {language!r:.40}; expected {', '.join(get_args(Language))}")


# --------------------------------------------------------------------------------------- expected calls


def _resolve_expected(field: object, columns: Collection[str]) -> Callable[[Row], tuple[ExpectedCall, ...]]:
    if callable(field):
        return lambda row: expected_calls(field(row))
    if field is None or field == "":  # only `any_call` needs none
        return lambda _: ()
    if not isinstance(field, str) or field not in columns:
        raise DataError(f"doc_to_target is {field!r:.80}; expected a column or a function that gives expected calls")
    return lambda row: expected_calls(row[field])


def expected_calls(value: object) -> tuple[ExpectedCall, ...]:
    """Return expected calls; none for an empty list, or null.

    Raises: MalformedSample for a value that is not a list of calls.
    """
    return tuple(_expected_call(each) for each in ([] if value is None else list_in(value, "expected calls")))


def _expected_call(value: object) -> ExpectedCall:
    call = value.get("function") if isinstance(value, Mapping) and set(value) <= {"id", "type", "function"} else value
    if isinstance(call, Mapping) and isinstance(call.get("name"), str) and set(call) <= {"name", "arguments"}:
        arguments = call.get("arguments") or {}
        parsed = _as_object(arguments) if isinstance(arguments, str) else arguments
        if isinstance(parsed, Mapping):
            return ExpectedCall(call["name"], {key: [_alternatives(each)] for key, each in parsed.items()})
    elif isinstance(call, Mapping) and len(call) == 1:
        (name, allowed), *_ = call.items()
        if isinstance(allowed, Mapping) and all(isinstance(each, list) for each in allowed.values()):
            return ExpectedCall(str(name), allowed)
    raise MalformedSample(
        f'an expected call is {value!r:.120}; expected {{"name": ..., "arguments": {{...}}}} or '
        "{name: {parameter: [acceptable values]}}"
    )


def _as_object(text: str) -> object:
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return None


def _alternatives(value: object) -> object:
    """Return an exact value in BFCL's form: each value of an object is a list of acceptable ones."""
    if isinstance(value, Mapping):
        return {key: [each] for key, each in value.items()}
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        return [_alternatives(each) for each in value]
    return value


# ------------------------------------------------------------------------------------- a right answer


def _arguments(function: Mapping[str, object], expected: ExpectedCall) -> dict[str, object]:
    """Return the first acceptable value of each parameter; one that may only be left out is left out."""
    parameters = _object(function.get("parameters"))
    properties, required = _object(parameters.get("properties")), parameters.get("required")
    arguments: dict[str, object] = {}
    for name, allowed in expected.allowed.items():
        values = [value for value in allowed if value != OMISSIBLE]
        if name not in properties and OMISSIBLE in allowed:
            continue  # a slip of some of BFCL's rows
        if values or (allowed and isinstance(required, list) and name in required):
            arguments[name] = _first(values[0] if values else allowed[0], _object(properties.get(name)))
    return arguments


def _object(value: object) -> Mapping[str, object]:
    """Return an object of a JSON schema; an empty one for null."""
    return value if isinstance(value, Mapping) else {}


def _first(value: object, schema: Mapping[str, object]) -> object:
    """Return a value with the first acceptable value of each key, where it is an object or a list of objects."""
    kind, items = schema.get("type"), schema.get("items")
    item = items.get("type") if isinstance(items, Mapping) else None
    may_be_form = kind in ("dict", "object", "HashMap", None)
    if may_be_form and isinstance(value, Mapping) and all(isinstance(each, list) for each in value.values()):
        stated = {key: [each for each in allowed if each != OMISSIBLE] for key, allowed in value.items()}
        return {key: allowed[0] for key, allowed in stated.items() if allowed}
    if isinstance(value, list) and item in ("dict", "object", None):
        return [_first(each, {}) for each in value]
    return value


def _in_source(
    function: Mapping[str, object], arguments: Mapping[str, object], language: Language, *, quotes: bool
) -> dict[str, str]:
    """Return arguments as source texts; texts in quotes for a call in source, without them for JSON."""
    properties = _object(_object(function["parameters"])["properties"])
    write = java_text if language == "java" else javascript_text
    source_texts = {}
    for name, value in arguments.items():
        schema = _object(properties.get(name))
        items = schema.get("items")
        text = write(value, str(schema.get("type")), items.get("type") if isinstance(items, Mapping) else None)
        source_texts[name] = f'"{text}"' if quotes and isinstance(value, str) and not set(text) & set('"\\') else text
    return source_texts


def faults_of_rows(rows: Iterable[Row], used: ToolColumns) -> list[str]:
    """Return the faults of declarations and expected calls in a user's file, by row."""
    faults = ((number, fault_of_row(row, used)) for number, row in enumerate(rows, start=1))
    return [f"row {number}{fault}" for number, fault in faults if fault is not None]


def fault_of_row(row: Row, used: ToolColumns) -> str | None:
    """Return the fault of a row's declarations or expected calls, to be written after its location."""
    try:
        names = {each["name"] for each in declarations_in(row[used.tools])}
        absent = [each.name for each in expected_calls(row[used.calls]) if each.name not in names]
    except MalformedSample as error:
        return f": {error}"
    return f": a call of {absent[0]} is expected, which is not among its tools" if absent else None
