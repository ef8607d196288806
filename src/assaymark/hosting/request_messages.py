"""Read the messages of a chat request into records, with the calls of tools and their results.

Source: OpenAI's API reference (chat completions: messages).
"""

import json
from collections.abc import Mapping
from typing import Literal, cast

from assaymark.hosting.bad_request import BadRequest, wrong
from assaymark.limits.nesting import parse_json
from assaymark.records import CallPart, JsonValue, Message, ResultPart, TextPart

MOST_MESSAGES = 4_096
MOST_CALLS = 128  # in one message
DEPTH = 20
ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
WITHOUT_EFFECT = frozenset({"refusal", "audio", "annotations", "function_call", "reasoning_content"})
OF_ROLE: Mapping[str, frozenset[str]] = {"assistant": frozenset({"tool_calls"}), "tool": frozenset({"tool_call_id"})}


def read_messages(value: object) -> tuple[Message, ...]:
    """Return the messages of a request. Raises: BadRequest with the place of the fault."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_MESSAGES:
        raise wrong("messages", value, 'a list such as [{"role": "user", "content": "Hello"}]')
    called: dict[str, str] = {}  # names of the functions called so far, by the call's id
    messages = []
    for index, message in enumerate(value):
        messages.append(_message(f"messages[{index}]", message, called))
        called |= {call.id: call.name for call in messages[-1].calls}
    return tuple(messages)


def _message(place: str, message: object, called: Mapping[str, str]) -> Message:
    if not isinstance(message, dict) or str(message.get("role")) not in ROLES:
        raise wrong(place, message, f"an object with a role ({', '.join(ROLES)}) and a content")
    role = cast("Literal['system', 'user', 'assistant', 'tool']", ROLES[str(message["role"])])
    _refuse_unknown(place, message, role)
    if role == "tool":
        return Message(role, (_result(place, message, called),))
    calls = _calls(f"{place}.tool_calls", message.get("tool_calls"))
    if calls and message.get("content") in (None, ""):
        return Message(role, calls)
    return Message(role, (*_texts(place, message.get("content")), *calls))


def _refuse_unknown(place: str, message: Mapping[str, object], role: str) -> None:
    known = {"role", "content", "name"} | OF_ROLE.get(role, frozenset())
    # clients send a message back as they received it, with fields that are null
    strange = sorted(
        name for name, value in message.items() if name not in known and not (name in WITHOUT_EFFECT and not value)
    )
    if strange:
        raise BadRequest(f"{place} has {', '.join(strange)[:80]}, which this host does not support", place)


def _texts(place: str, content: object) -> tuple[TextPart, ...]:
    if isinstance(content, str):
        return (TextPart(content),)
    if isinstance(content, list) and content:
        if all(isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
               for part in content):  # fmt: skip
            return tuple(TextPart(part["text"]) for part in content)
        raise BadRequest(f"{place} contains a part that is not a text; this host takes texts only", place)
    raise wrong(f"{place}.content", content, "a text")


def _calls(place: str, calls: object) -> tuple[CallPart, ...]:
    """Return the calls of an assistant's message. Raises: BadRequest."""
    if calls is None or calls == []:
        return ()
    if not isinstance(calls, list) or len(calls) > MOST_CALLS:
        raise wrong(place, calls, f"a list of at most {MOST_CALLS} calls of functions")
    return tuple(_call(f"{place}[{number}]", call) for number, call in enumerate(calls))


def _call(place: str, call: JsonValue) -> CallPart:
    function = call.get("function") if isinstance(call, dict) and call.get("type", "function") == "function" else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise wrong(place, call, 'an object such as {"id": "1", "type": "function", "function": {"name": "f", '
                    '"arguments": "{}"}}')  # fmt: skip
    for name, value in (("id", call.get("id")), ("function.name", function.get("name"))):
        if not isinstance(value, str) or not value:
            raise wrong(f"{place}.{name}", value, "a text")
    try:
        arguments = parse_json(function["arguments"], DEPTH)
    except (KeyError, TypeError, ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise wrong(f"{place}.function.arguments", function.get("arguments"), "the JSON text of an object")
    return CallPart(call["id"], function["name"], json.dumps(arguments, ensure_ascii=False))


def _result(place: str, message: Mapping[str, object], called: Mapping[str, str]) -> ResultPart:
    """Return a tool's result. Raises: BadRequest, also where no earlier message has made the call."""
    text = "".join(part.text for part in _texts(place, message.get("content")))
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str) or call_id not in called:
        expected = "the id of a call in an earlier message" + (f": {', '.join(called)}"[:200] if called else "")
        raise wrong(f"{place}.tool_call_id", call_id, expected)
    return ResultPart(call_id, called[call_id], text)
