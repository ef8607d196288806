"""Declarations of tools are checked, and shown as OpenAI's API has them or as BFCL's prompt lists them."""

import hashlib
import json
from typing import Any

import pytest

from assaymark.errors import DataError, MalformedSample, UsageError
from assaymark.prompts.presets import PromptPreset
from assaymark.prompts.tools import declarations_in, resolve_tools, shown_name, tools_for_template, tools_prompt
from assaymark.records import Message, TextPart

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "weather.get", "description": "The weather.", "parameters": PARAMETERS}


def test_both_forms_of_a_declaration_are_read() -> None:
    """With and without OpenAI's outer object, and as JSON text; names become those that OpenAI accepts."""
    whole = [{"type": "function", "function": TOOL}]
    assert declarations_in(whole) == declarations_in([TOOL]) == declarations_in(json.dumps(whole)) == [TOOL]
    result = json.loads(tools_for_template([TOOL, {"name": "now"}]) or "")
    assert result[0] == {"type": "function", "function": {**TOOL, "name": "weather_get"}}
    assert result[1]["function"] == {"name": "now", "parameters": {"type": "object", "properties": {}}}
    assert list(result[0]["function"]) == [
        "name",
        "description",
        "parameters",
    ]  # in the row's order: the model reads it
    assert tools_for_template([]) is None
    assert shown_name("a.b/c d-e_1") == "a_b_c_d-e_1"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "tools are 7; expected a list"),
        ("[{", "which is not JSON"),
        ([3], "tool 1 is 3; expected a JSON schema with a name"),
        ([{"type": "retrieval", "function": TOOL}], "tool 1 has type 'retrieval'; expected function"),
        ([{"title": "x"}], "tool 1 has the name None"),
        ([TOOL, {"name": ""}], "tool 2 has the name ''"),
        ([{**TOOL, "parameters": "city"}], r"tool 1 \(weather.get\) has parameters 'city'; expected an object"),
        ([{**TOOL, "parameters": {"type": "array"}}], "expected an object of type object"),
        ([{**TOOL, "parameters": {"properties": ["city"]}}], "expected a schema for each parameter"),
        ([{**TOOL, "parameters": {"properties": {"city": "string"}}}], "expected a schema for each parameter"),
        ([{**TOOL, "parameters": {"required": ["town"]}}], "requires 'town', which is none of its properties"),
        ([TOOL, TOOL], "two tools are called weather.get"),
        ([TOOL, {"name": "weather_get"}], "two tools are called weather.get once signs are _"),
    ],
)
def test_a_schema_that_is_none_is_named(value: Any, message: str) -> None:
    """The message has the tool, what is wrong with it, and what was expected."""
    with pytest.raises(MalformedSample, match=message):
        declarations_in(value)


def test_tools_come_from_a_column_a_list_or_a_function() -> None:
    """As other parts of a prompt do; a template gives none."""
    for field in ("tools", [TOOL], lambda row: row["tools"]):
        assert resolve_tools(field, {"tools"})({"tools": [TOOL]}) == [TOOL]
    with pytest.raises(DataError, match=r"doc_to_tools is '\{\{tools\}\}'; expected a column, a list or a function"):
        resolve_tools("{{tools}}", {"tools"})


def test_the_system_prompt_is_bfcls() -> None:
    """Its text is bfcl-eval 2026.3.23's (`formulate_system_prompt` with the default format, no functions)."""
    assert (
        hashlib.sha256(tools_prompt([]).encode()).hexdigest()
        == "5dfc2aec2c5c5d5d9eec29b0020d0a7be1a70cccd74b62fbdcfcb5261d1ffb73"
    )
    assert tools_prompt([TOOL]).endswith(f"that you can invoke.\n{json.dumps([TOOL], indent=4)}\n")


def test_a_preset_refuses_tools() -> None:
    """No published format has a place for them, and a prompt without them would be another task."""
    preset = PromptPreset("plain", {"user": ("", ""), "assistant": ("", "")}, "")
    with pytest.raises(UsageError, match="prompt preset plain has no place for tools; omit it, or use a task"):
        preset.render([Message("user", (TextPart("Hi"),))], tools="[]")
