"""Turns of a prompt: the text of each role, and the delimiter that follows it in a plain-text prompt.

The same pieces make a plain prompt (each with its delimiter, joined) and a chat (as messages without delimiters, or all
in one user message). The rules for delimiters are lm-evaluation-harness 0.4.13's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from assaymark.errors import MalformedSample
from assaymark.records import Message, TextPart


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of one role."""

    role: Literal["system", "user", "assistant"]
    content: str
    delimiter: str = ""

    @property
    def text(self) -> str:
        """The text in a plain prompt."""
        return self.content + self.delimiter


def join(before: str | None, after: str | None, delimiter: str = " ") -> str:
    """Return both texts with the delimiter between, unless one is empty or there is white space between them."""
    if not before:
        return after or ""
    if not after:
        return before
    return before + after if before[-1].isspace() or after[0].isspace() else before + delimiter + after


def question_pieces(question: Any, gen_prefix: str | None, target_delimiter: str) -> tuple[Piece, ...]:
    """Return the turn to be answered: the question, and the beginning of an answer if the task defines one."""
    text = _text(question, "question")
    if not gen_prefix:
        return (Piece("user", text),)
    seam = text == "" or text[-1].isspace() or gen_prefix[0].isspace()
    return (Piece("user", text, "" if seam else target_delimiter), Piece("assistant", gen_prefix))


def shot_pieces(
    question: Any,
    answer: Any,
    choices: Sequence[str] | None,
    gen_prefix: str | None,
    *,
    target_delimiter: str,
    fewshot_delimiter: str,
) -> tuple[Piece, ...]:
    """Return an answered turn; an empty answer means that nothing follows the question.

    Raises: MalformedSample if question or answer is not a text after the choices were looked up.
    """
    if answer is None or answer == "":
        return question_pieces(question, gen_prefix, target_delimiter)
    text = _text(question, "question")
    if choices and isinstance(answer, int):
        if not -len(choices) <= answer < len(choices):
            raise MalformedSample(f"a shot's answer is choice {answer}; it has {len(choices)} choices")
        answer = choices[answer]
    elif isinstance(answer, list):
        answer = answer[0] if answer else ""
    if not gen_prefix:
        seam = target_delimiter
    else:
        seam = "" if text == "" or text[-1].isspace() or gen_prefix[0].isspace() else target_delimiter
    reply = join(gen_prefix, _text(answer, "answer"), " ")
    return (Piece("user", text, seam), Piece("assistant", reply, fewshot_delimiter))


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise MalformedSample(f"the {what} is {value!r:.80}, of type {type(value).__name__}; expected a text")
    return value


def chat_messages(pieces: Sequence[Piece], *, multiturn: bool) -> tuple[Message, ...]:
    """Return the pieces as messages: one each, or (not `multiturn`) all questions and answers in one user message.

    The single message contains the delimiters, except the one before the model's own turn.
    """
    if multiturn:
        return tuple(_message(piece.role, piece.content) for piece in pieces)
    head = [pieces[0]] if pieces[0].role == "system" else []
    turns = pieces[len(head) :]
    tail = [turns[-1]] if turns[-1].role == "assistant" else []
    merged = turns[: len(turns) - len(tail)]
    text = "".join(piece.text for piece in merged[:-1]) + (merged[-1].content if merged else "")
    return (
        *(_message(piece.role, piece.content) for piece in head),
        _message("user", text),
        *(_message(piece.role, piece.content) for piece in tail),
    )


def _message(role: Literal["system", "user", "assistant"], text: str) -> Message:
    return Message(role, (TextPart(text),))
