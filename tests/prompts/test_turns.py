"""Turns: delimiters and answers, in plain text and in a chat."""

import pytest

from assaymark.errors import MalformedSample
from assaymark.prompts.prompter import Piece, chat_messages, join, question_pieces, shot_pieces


def plain(pieces: tuple[Piece, ...]) -> str:
    """Return pieces as plain text."""
    return "".join(piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [("a", "b", "a-b"), ("a ", "b", "a b"), ("a", "\nb", "a\nb"), ("", "b", "b"), ("a", None, "a"), (None, None, "")],
)
def test_join_spares_white_space(before: str | None, after: str | None, expected: str) -> None:
    """A delimiter is inserted between two texts unless one is empty or there is white space already."""
    assert join(before, after, "-") == expected


def shot(question: str, answer: object, choices: list[str] | None = None, prefix: str | None = None) -> str:
    """Return one shot as plain text with the usual delimiters."""
    return plain(shot_pieces(question, answer, choices, prefix, target_delimiter=" ", fewshot_delimiter="\n\n"))


def test_answers_of_every_kind() -> None:
    """An index selects a choice, the first of several targets is used, a text is itself."""
    assert shot("Q:", 1, ["no", "yes"]) == "Q: yes\n\n"
    assert shot("Q:", 0, ["no", "yes"]) == "Q: no\n\n"
    assert shot("Q:", ["one", "two"]) == "Q: one\n\n"
    assert shot("Q:", "text") == "Q: text\n\n"


def test_an_empty_answer_leaves_the_question_alone() -> None:
    """If a shot's answer is empty, nothing follows its question, not even a delimiter."""
    assert shot("Q:", "") == "Q:"
    assert shot("Q:", None) == "Q:"


def test_the_beginning_of_an_answer_is_joined() -> None:
    """A gen_prefix precedes the answer, with a space unless there is white space."""
    assert shot("Q", "x", None, "Answer:") == "Q Answer: x\n\n"
    assert shot("Q\n", "x", None, "Answer: ") == "Q\nAnswer: x\n\n"
    assert plain(question_pieces("Q", "Answer:", " ")) == "Q Answer:"
    assert plain(question_pieces("", "Answer:", " ")) == "Answer:"
    assert plain(question_pieces("Q", None, " ")) == "Q"


def test_values_that_are_not_texts_are_errors() -> None:
    """Questions and answers that are numbers, and choices out of range, are refused."""
    with pytest.raises(MalformedSample, match=r"question is 3.*int"):
        question_pieces(3, None, " ")
    with pytest.raises(MalformedSample, match=r"answer is 4.*int"):
        shot("Q", 4)
    with pytest.raises(MalformedSample, match="choice 4; it has 2"):
        shot("Q", 4, ["a", "b"])


PIECES = [
    Piece("system", "Be brief."),
    Piece("user", "Q1", " "),
    Piece("assistant", "a1", "\n\n"),
    Piece("user", "Q2", " "),
]


def test_a_chat_of_turns_has_no_delimiters() -> None:
    """Each piece is a message, without its delimiter."""
    messages = chat_messages(PIECES, multiturn=True)
    assert [(m.role, m.text) for m in messages] == [
        ("system", "Be brief."),
        ("user", "Q1"),
        ("assistant", "a1"),
        ("user", "Q2"),
    ]


def test_a_chat_of_one_message_keeps_inner_delimiters() -> None:
    """All turns go into one user message; the delimiter at its end is removed, a begun answer is separate."""
    item = chat_messages(PIECES, multiturn=False)
    assert [(m.role, m.text) for m in item] == [("system", "Be brief."), ("user", "Q1 a1\n\nQ2")]
    begun = chat_messages([*PIECES[1:], Piece("assistant", "So")], multiturn=False)
    assert [(m.role, m.text) for m in begun] == [("user", "Q1 a1\n\nQ2"), ("assistant", "So")]
