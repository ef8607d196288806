"""Strict parsing of a judge's replies into records. Nothing is guessed from the words around the JSON.

A reply ends with one JSON object. Neither the judge nor the texts that it quotes are trusted: a reply that does not
have exactly the requested form raises `Unread`, and the answer is then not scored.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.limits.nesting import is_deeper
from assaymark.scoring.choice_letters import outside_reasoning

LONGEST_REPLY = 50_000  # characters of its end that are read
MOST_STATEMENTS = 500
LONGEST_STATEMENT = 5_000
_DECODER = json.JSONDecoder()


class Unread(Exception):
    """A reply that does not have the requested form; the message describes it."""


def last_object(reply: str) -> Mapping[str, object]:
    """Return the last JSON object of a reply, of those that are not inside another one, nor in its reasoning.

    Raises: Unread if there is none.
    """
    answer = outside_reasoning(reply)
    if answer is None:
        raise Unread("the judge's reply ended while it reasoned")
    text = answer[-LONGEST_REPLY:]
    latest: Mapping[str, object] | None = None
    if is_deeper(text, 100):
        raise Unread("the judge's reply is nested too deeply")
    at = text.find("{")
    n_tries = 0
    while at >= 0 and n_tries < 1000:  # each failed try may read to the end
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end, n_tries = at + 1, n_tries + 1
        else:
            latest = value
        at = text.find("{", end)
    if latest is None:
        raise Unread(f"the judge's reply has no JSON object: {_end_of_reply(reply)}")
    return latest


def _end_of_reply(reply: str) -> str:
    text = " ".join(reply.split())
    return repr(text if len(text) <= 120 else f"... {text[-120:]}")


def _only_field(reply: str, name: str) -> object:
    """Return the value of the only field that the last object may have."""
    value = last_object(reply)
    if set(value) != {name}:
        raise Unread(f"the judge's object has the fields {', '.join(map(str, value))[:200] or 'none'}; expected {name}")
    return value[name]


def _is_yes(value: object) -> bool:
    word = value.strip().lower() if isinstance(value, str) else None
    if word not in ("yes", "no"):
        raise Unread(f"the judge's verdict is {str(value)[:80]!r}; expected yes or no")
    return word == "yes"


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements into which a judge has divided a text."""

    texts: tuple[str, ...]

    @classmethod
    def read(cls, reply: str) -> "Statements":
        """Read a reply. Raises: Unread."""
        texts = _only_field(reply, "statements")
        if not isinstance(texts, list) or not all(isinstance(each, str) and each.strip() for each in texts):
            raise Unread(f"the judge's statements are {str(texts)[:80]!r}; expected a list of texts")
        if len(texts) > MOST_STATEMENTS or any(len(each) > LONGEST_STATEMENT for each in texts):
            raise Unread(f"the judge made {len(texts):,} statements; expected at most {MOST_STATEMENTS}, of "
                         f"{LONGEST_STATEMENT:,} characters")  # fmt: skip
        return cls(tuple(each.strip() for each in texts))


@dataclass(frozen=True, slots=True)
class GeneratedQuestions:
    """Questions that a judge made from an answer, and whether it finds the answer evasive."""

    texts: tuple[str, ...]
    is_evasive: bool

    @classmethod
    def read(cls, reply: str, n: int) -> "GeneratedQuestions":
        """Read a reply with n questions. Raises: Unread."""
        value = last_object(reply)
        if set(value) != {"questions", "evasive"}:
            raise Unread(f"the judge's object has the fields {', '.join(map(str, value))[:200] or 'none'}; expected "
                         "questions, evasive")  # fmt: skip
        texts = value["questions"]
        if not isinstance(texts, list) or not all(isinstance(each, str) and each.strip() for each in texts):
            raise Unread(f"the judge's questions are {str(texts)[:80]!r}; expected a list of texts")
        if len(texts) != n or any(len(each) > LONGEST_STATEMENT for each in texts):
            raise Unread(f"the judge made {len(texts):,} questions; expected {n}, of at most {LONGEST_STATEMENT:,} "
                         "characters")  # fmt: skip
        return cls(tuple(each.strip() for each in texts), _is_yes(value["evasive"]))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One verdict for each of several things, or the only one."""

    are_yes: tuple[bool, ...]

    @classmethod
    def read(cls, reply: str, things: Sequence[object]) -> "Verdicts":
        """Read a reply about several things. Raises: Unread, also for another number of verdicts than of things."""
        verdicts = _only_field(reply, "verdicts")
        if not isinstance(verdicts, list) or len(verdicts) != len(things):
            n = len(verdicts) if isinstance(verdicts, list) else "no list of"
            raise Unread(f"the judge gave {n} verdicts; expected {len(things)}")
        return cls(tuple(_is_yes(each) for each in verdicts))

    @classmethod
    def read_one(cls, reply: str) -> bool:
        """Read a reply with one verdict. Raises: Unread."""
        return _is_yes(_only_field(reply, "verdict"))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several descriptions."""

    letter: str

    @classmethod
    def read(cls, reply: str, letters: str) -> "Choice":
        """Read a reply. Raises: Unread."""
        letter = _only_field(reply, "choice")
        if not isinstance(letter, str) or len(letter) != 1 or letter not in letters:
            raise Unread(f"the judge's choice is {str(letter)[:80]!r}; expected one of {', '.join(letters)}")
        return cls(letter)
