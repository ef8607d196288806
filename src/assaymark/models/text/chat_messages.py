"""Messages as the JSON that chat templates and servers take."""

import json
from typing import Any

from assaymark.records import Message, ResultPart

__all__ = ["message_json"]


def message_json(message: Message, content: Any, *, for_template: bool) -> dict[str, Any]:
    """Return a message with this content, its calls of tools as `tool_calls`, and a tool's result with the call's id.

    Arguments of calls are objects for templates, and JSON texts for servers.

    Source: OpenAI's API reference (`tool_calls`, `tool_call_id`); transformers 5.x, docs chat_extras (arguments are
        objects, and a result has the function's `name`).
    """
    made: dict[str, Any] = {"role": message.role, "content": content}
    if message.calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.loads(call.arguments) if for_template else call.arguments,
                },
            }
            for call in message.calls
        ]
    for part in message.parts:
        if isinstance(part, ResultPart):
            made["tool_call_id"] = part.call_id
            if for_template:
                made["name"] = part.name
    return made
