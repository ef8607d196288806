"""Tools of a chat: what a request declares, and the calls in the text that the model wrote.

A call of a function that the request did not declare, and a text that begins as a call does but cannot be read, stay
texts: the client sees what the model wrote, and nothing is repaired.

Source: OpenAI's API reference (`tools`, `tool_choice`, `tool_calls`).
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assaymark.errors import MalformedSample
from assaymark.prompts.tools import declarations_in, tools_for_template
from assaymark.scoring.tool_calls import ToolCall, UnreadableAnswer, read_calls

__all__ = ["SpokenText", "Tools", "spoken", "tools_in"]

MOST_TOOLS = 128
_BLOCK = "<tool_call>"


@dataclass(frozen=True, slots=True)
class Tools:
    """Declared functions: as JSON for the template, and their names in it."""

    shown: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class SpokenText:
    """An answer: its text, and its calls as OpenAI's `tool_calls`. content: None where there are calls alone."""

    content: str | None
    calls: tuple[Mapping[str, Any], ...]


def tools_in(given: Any, choice: Any) -> Tools | None:
    """Return the tools of a request; None for none, or where it forbids calls.

    Raises: ValueError that says what is wrong with them, or for a choice that forces a call.
    """
    if choice not in (None, "auto", "none"):
        raise ValueError(
            f"tool_choice={json.dumps(choice)[:80]} is not supported by this host; the model decides (auto), or none"
        )
    if not given:
        return None
    if not isinstance(given, list) or len(given) > MOST_TOOLS:
        raise ValueError(f"tools are no list of at most {MOST_TOOLS} declarations of functions")
    try:
        declared = declarations_in(given)
    except MalformedSample as error:
        raise ValueError(str(error)) from error
    shown = tools_for_template(declared)
    if shown is None or choice == "none":
        return None
    return Tools(shown, frozenset(one["function"]["name"] for one in json.loads(shown)))


def spoken(text: str, tools: Tools) -> SpokenText:
    """Return the calls of declared functions in a text, and the text before them; without any the text alone."""
    try:
        found = read_calls(text)
    except UnreadableAnswer:
        found = ()
    if not found or any(call.name not in tools.names for call in found):
        return SpokenText(text, ())
    before = text.partition(_BLOCK)[0].strip() if _BLOCK in text else ""
    return SpokenText(before or None, tuple(_call(one) for one in found))


def _call(one: ToolCall) -> Mapping[str, Any]:
    arguments = json.dumps(dict(one.arguments), ensure_ascii=False)
    function = {"name": one.name, "arguments": arguments}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}
