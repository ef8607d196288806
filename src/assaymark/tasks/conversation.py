"""Tasks of several turns: the user's next message, once the model has answered.

Every turn is a request of its own, so a run that is killed between turns continues there. The model sees its own
earlier answers without their reasoning, as chat templates expect.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from assaymark.prompts.prompter import Layout
from assaymark.prompts.templates import Row
from assaymark.records import Message, Output, Render, Request, TextPart

__all__ = ["next_turn", "reference_of"]


def next_turn(
    layout: Layout, request: Request, row: Row, outputs: Sequence[Output], render: Render | None
) -> Request | None:
    """Return the turn after `request`, which `outputs` answer; None after the last turn, or where there is no answer.

    Raises: MalformedSample for a row whose turns are no list of texts.
    """
    if layout.turns is None or not outputs or outputs[0].text is None:
        return None
    turn, texts = request.turn + 1, layout.turns(row)
    if turn >= len(texts):
        return None
    answer = Message("assistant", (TextPart(outputs[0].text),))
    messages = (*request.messages, answer, Message("user", (TextPart(texts[turn]),)))
    segments = () if render is None else (render(messages, False),)
    target = reference_of(layout, layout.target(row), turn)
    return replace(request, segments=segments, messages=messages, turn=turn, target=target)


def reference_of(layout: Layout, target: Any, turn: int) -> str:
    """Return the reference as text, for logs; a conversation with a list of references has one for each turn."""
    if layout.turns is None or not isinstance(target, list):
        return str(target)
    return str(target[turn]) if turn < len(target) else ""
