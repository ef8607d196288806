"""A conversation with one model, or with two side by side. The page holds the history; the server stores nothing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assaymark.records import JsonValue
from assaymark.web.posts import Posted

__all__ = ["ChatPage", "ChatProblem", "Round", "blank_page", "page_of", "settled"]

LONGEST_TEXT = 8_000  # characters of a question or a system prompt
LONGEST_HISTORY = 200_000  # characters of all messages
MOST_ROUNDS = 100
SIDES = ("first", "second")


class ChatProblem(Exception):
    """What was sent cannot be asked; the message is for the visitor."""


@dataclass(frozen=True, slots=True)
class Round:
    """A question, the answer of each model by name, and why a model's answer is missing."""

    question: str
    answers: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChatPage:
    """What the page shows. names: all endpoints; chosen: those asked; text: a question that is not answered."""

    names: tuple[str, ...]
    chosen: tuple[str, ...]
    rounds: tuple[Round, ...] = ()
    system: str = ""
    text: str = ""
    problem: str = ""
    token: str = field(default="", repr=False)
    longest_text: int = LONGEST_TEXT

    @property
    def history(self) -> str:
        """The questions with their answers, for the form."""
        return json.dumps([[one.question, dict(one.answers)] for one in self.rounds if one.answers], ensure_ascii=False)

    def side(self, index: int) -> str:
        """Return the name of a chosen model, "" where there is none."""
        return self.chosen[index] if index < len(self.chosen) else ""

    def messages(self, name: str) -> list[dict[str, str]]:
        """Return what a model is asked: the system prompt, the questions that it answered, and the new one."""
        found = [("system", self.system)] if self.system else []
        for one in self.rounds:
            if name in one.answers:
                found += [("user", one.question), ("assistant", one.answers[name])]
        return [{"role": role, "content": text} for role, text in (*found, ("user", self.text))]

    def to_json(self) -> JsonValue:
        """Return the models that can be asked, and the conversation."""
        rounds: list[JsonValue] = [
            {"question": one.question, "answers": dict(one.answers), "problems": dict(one.problems)}
            for one in self.rounds
        ]
        return {"models": list(self.names), "system": self.system, "rounds": rounds, "problem": self.problem or None}


def blank_page(names: Sequence[str], chosen: Sequence[str] = ()) -> ChatPage:
    """Return a page without messages; without a choice the first model is chosen."""
    wanted = [name for name in dict.fromkeys(chosen) if name in names][: len(SIDES)]
    return ChatPage(tuple(names), tuple(wanted or names[:1]))


def page_of(names: Sequence[str], posted: Posted) -> ChatPage:
    """Return the page that a form describes, with its question not answered yet.

    Raises: ChatProblem.
    """
    chosen = [name for name in dict.fromkeys(posted.text(side) for side in SIDES) if name]
    for name in chosen:
        if name not in names:
            raise ChatProblem(f"there is no model '{name[:64]}' here")
    if not chosen:
        raise ChatProblem("choose a model")
    system, text = posted.text("system"), posted.text("text")
    for what, value in (("the system prompt", system), ("the question", text)):
        if len(value) > LONGEST_TEXT:
            raise ChatProblem(f"{what} has {len(value):,} characters; at most {LONGEST_TEXT:,} are allowed")
    if not text:
        raise ChatProblem("write a question first")
    return ChatPage(tuple(names), tuple(chosen), _rounds(posted.text("history"), names), system, text)


def _rounds(text: str, names: Sequence[str]) -> tuple[Round, ...]:
    """Return the rounds of a form's history. Raises: ChatProblem for anything else."""
    try:
        given: Any = json.loads(text) if text else []
        found = tuple(
            Round(_text(question), {name: _text(answers[name]) for name in answers}) for question, answers in given
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ChatProblem("the conversation that this page holds cannot be read; begin a new one") from None
    if any(name not in names for one in found for name in one.answers):
        raise ChatProblem("the conversation names a model that is not here; begin a new one")
    n_characters = sum(len(one.question) + sum(map(len, one.answers.values())) for one in found)
    if len(found) > MOST_ROUNDS or n_characters > LONGEST_HISTORY:
        raise ChatProblem("this conversation is too long; begin a new one")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def settled(page: ChatPage, answers: Mapping[str, tuple[str, str]]) -> ChatPage:
    """Return the page after its question, from each model's (answer, problem).

    Where no model answered, the question stays in its field and is no round.
    """
    given = {name: answer for name, (answer, problem) in answers.items() if not problem}
    problems = {name: problem for name, (_, problem) in answers.items() if problem}
    if not given:
        return replace(page, problem="; ".join(problems.values()))
    return replace(page, rounds=(*page.rounds, Round(page.text, given, problems)), text="")
