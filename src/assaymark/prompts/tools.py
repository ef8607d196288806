"""Tools that a model may call: their declarations as OpenAI's API has them, and as text in a prompt.

A declaration is `{"type": "function", "function": {"name", "description", "parameters"}}`, or only the inner object.
Chat templates and servers get the former, with names that OpenAI accepts. A model without tools in its template gets
BFCL's published system prompt, with the declarations as they are.

Source: OpenAI's API reference (`tools`); BFCL v4 (ShishirPatil/gorilla 6ea57973, bfcl_eval/constants/default_prompts.py
    and model_handler/utils.py: convert_to_tool, formulate_system_prompt).
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from assaymark.errors import DataError, MalformedSample
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue, Row

ToolsOf = Callable[[Row], list[dict[str, JsonValue]]]

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_EXPECTED = "expected a JSON schema with a name, and parameters of type object"
_SYSTEM_PROMPT = """\
You are an expert in composing functions.You are given a question and a set of possible functions. Based on the \
question, you will need to make one or more function/tool calls to achieve the purpose. If none of the functions can \
be used, point it out. If the given question lacks the parameters required by the function, also point it out.

You should only return the function calls in your response.

If you decide to invoke any of the function(s), you MUST put it in the format of [func_name1(params_name1=\
params_value1, params_name2=params_value2...), func_name2(params)].  You SHOULD NOT include any other text in the \
response.

At each turn, you should try your best to complete the tasks requested by the user within the current turn. Continue \
to output functions to call until you have fulfilled the user's request to the best of your ability. Once you have no \
more functions to call, the system will consider the current turn complete and proceed to the next turn or task.

Here is a list of functions in json format that you can invoke.
{functions}
"""


def shown_name(name: str) -> str:
    """Return a function's name as OpenAI's API accepts it: other signs than letters, digits, _ and - become _."""
    return _NOT_IN_NAMES.sub("_", name)


def resolve_tools(field: object, columns: Collection[str]) -> ToolsOf:
    """Return the function for `doc_to_tools`: the declarations of a row, checked, each without its `type: function`.

    Raises: DataError for a field that is neither a column, nor a function, nor a list of declarations.
    """
    if callable(field):
        return lambda row: declarations_in(field(row))
    if isinstance(field, list):
        declarations = declarations_in(field)
        return lambda _: declarations
    if not isinstance(field, str) or field not in columns:
        raise DataError(f"doc_to_tools is {field!r:.80}; expected a column, a list or a function")
    return lambda row: declarations_in(row[field])


def declarations_in(value: object) -> list[dict[str, JsonValue]]:
    """Return the declarations in a value: a list, or its JSON text.

    Raises: MalformedSample naming the first that is none, and what is wrong with it.
    """
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except (ValueError, RecursionError) as error:
            raise MalformedSample(f"tools are {value!r:.80}, which is not JSON: {error}") from None
    if not isinstance(value, list):
        raise MalformedSample(f"tools are {value!r:.80}; expected a list of declarations of functions")
    declarations = [_declaration(each, number) for number, each in enumerate(value, start=1)]
    names = [str(each["name"]) for each in declarations]
    by_shown_name: dict[str, str] = {}
    for name in names:
        other = by_shown_name.setdefault(shown_name(name), name)
        if names.count(name) > 1 or other != name:
            raise MalformedSample(f"two tools are called {other}" + ("" if other == name else " once signs are _"))
    return declarations


def _declaration(value: object, number: int) -> dict[str, JsonValue]:
    """Return one declaration without its outer object. Raises: MalformedSample."""
    if isinstance(value, Mapping) and "function" in value:
        if value.get("type", "function") != "function":
            raise MalformedSample(f"tool {number} has type {value['type']!r:.40}; expected function")
        value = value["function"]
    if not isinstance(value, Mapping):
        raise MalformedSample(f"tool {number} is {value!r:.80}; {_EXPECTED}")
    name, parameters = value.get("name"), value.get("parameters")
    if not isinstance(name, str) or not name:
        raise MalformedSample(f"tool {number} has the name {name!r:.40}; {_EXPECTED}")
    where = f"tool {number} ({name})"
    if parameters is None:
        return {key: each for key, each in value.items() if key != "parameters"}
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") not in ("object", "dict"):
        raise MalformedSample(f"{where} has parameters {parameters!r:.80}; expected an object of type object")
    properties, required = parameters.get("properties") or {}, parameters.get("required") or []
    if not isinstance(properties, Mapping) or not all(isinstance(each, Mapping) for each in properties.values()):
        raise MalformedSample(f"{where} has properties {properties!r:.80}; expected a schema for each parameter")
    unknown = [each for each in required if each not in properties] if isinstance(required, list) else [required]
    if unknown:
        raise MalformedSample(f"{where} requires {unknown[0]!r:.40}, which is none of its properties")
    return dict(value)


def tools_for_template(declarations: Sequence[Mapping[str, JsonValue]]) -> str | None:
    """Return declarations as the JSON of OpenAI's `tools`, with names that it accepts; None for an empty list."""
    if not declarations:
        return None
    no_parameters = {"type": "object", "properties": {}}
    named = [{**each, "name": shown_name(str(each["name"]))} for each in declarations]
    functions = [each if "parameters" in each else {**each, "parameters": no_parameters} for each in named]
    tools = [{"type": "function", "function": function} for function in functions]
    return json.dumps(tools, ensure_ascii=False)  # in the order of the row: the model reads it


def tools_prompt(declarations: Sequence[Mapping[str, JsonValue]]) -> str:
    """Return BFCL's system prompt, which lists the declarations and asks for Python's call syntax."""
    return _SYSTEM_PROMPT.replace("{functions}", json.dumps(declarations, indent=4))
