"""Tasks of several turns: what the user says next, once the model has answered.

Every turn is a request of its own, so a run that is killed between turns goes on where it stood. The model sees its
own earlier answers, thoughts left out, as a chat template takes them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalstone.prompts.prompter import Layout
from evalstone.prompts.templates import Row
from evalstone.records import Message, Output, Render, Request, TextPart

__all__ = ["next_turn", "reference_of"]


def next_turn(
    layout: Layout, request: Request, row: Row, outputs: Sequence[Output], render: Render | None
) -> Request | None:
    """Return the turn that follows `request`, which `outputs` answer; None where none does, or there is no answer.

    Raises: MalformedSample for a row whose turns are no list of texts.
    """
    if layout.turns is None or not outputs or outputs[0].text is None:
        return None
    turn, said = request.turn + 1, layout.turns(row)
    if turn >= len(said):
        return None
    answer = Message("assistant", (TextPart(outputs[0].text),))
    messages = (*request.messages, answer, Message("user", (TextPart(said[turn]),)))
    segments = () if render is None else (render(messages, False),)
    target = reference_of(layout, layout.target(row), turn)
    return replace(request, segments=segments, messages=messages, turn=turn, target=target)


def reference_of(layout: Layout, target: Any, turn: int) -> str:
    """Return what is logged as the reference: of a conversation that of the turn, where there is a list of them."""
    if layout.turns is None or not isinstance(target, list):
        return str(target)
    return str(target[turn]) if turn < len(target) else ""
