"""Answers that the model criticises and then revises: three requests for a sample, of which the last is scored.

The first request is the task's own. The second shows question and answer alone and asks for a critique; the third is
the first conversation, followed by the answer, and by a message with the critique that asks for a better one.

Source: inspect-ai 0.3.285, solver/_critique.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assaymark.prompts.templates import compile_template
from assaymark.records import Message, Output, Render, Request, Row

ANSWER, CRITIQUE = "answer_to_criticise", "critique_of_answer"
"""The names under which the templates have what the model said."""
LAST_TURN = 2


class SelfCritique:
    """The turns of one task's conversations. `templates` has those of the two later messages."""

    def __init__(self, templates: Mapping[str, object]) -> None:
        self._critique = compile_template(str(templates["critique"]), "self_critique.critique")
        self._revision = compile_template(str(templates["revision"]), "self_critique.revision")
        self._first: dict[int, tuple[Request, str]] = {}  # by sample; a run, also a resumed one, begins with turn 0

    def next(self, request: Request, row: Row, outputs: Sequence[Output], render: Render | None) -> Request | None:
        """Return the request after one that `outputs` answer; None after the last, or where there is no answer.

        Raises: MalformedSample for a row that lacks what the templates need.
        """
        if request.turn == LAST_TURN or not outputs or outputs[0].text is None:
            return None
        said = outputs[0].text
        if request.turn == 0:
            self._first[request.sample_index] = (request, said)
            messages: tuple[Message, ...] = (Message.of_text("user", self._critique({**row, ANSWER: said})),)
        else:
            first, answer = self._first.pop(request.sample_index)
            asked = self._revision({**row, ANSWER: answer, CRITIQUE: said})
            messages = (*first.messages, Message.of_text("assistant", answer), Message.of_text("user", asked))
        segments = () if render is None else (render(messages, False),)
        return replace(request, segments=segments, messages=messages, turn=request.turn + 1)
