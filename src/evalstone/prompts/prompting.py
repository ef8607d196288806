"""One multiple-choice question put in three ways: by letter, by text, or with written reasoning before the letter.

letter: the choices are listed, and the answer is the letter that the model finds most probable. text: the choices are
not shown, and each is weighed as what follows the question. cot: the choices are listed, the model writes its
reasoning, and the letter is read from what it wrote.

A task file is written in one of the first two ways, and the others are made from what it renders: the question, the
choices, and the line that asks for the answer. A task put in its own way keeps its text to the byte.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from evalstone.errors import MalformedSample, PlanError
from evalstone.prompts.prompter import Layout
from evalstone.prompts.templates import Row

__all__ = [
    "COT_INSTRUCTION", "COT_STOPS", "LETTERS", "PROMPTINGS", "ChoiceQuestion", "Prompting", "instructed", "put_layout",
    "read_question",
]  # fmt: skip

Prompting = Literal["letter", "text", "cot"]
PROMPTINGS: tuple[Prompting, ...] = get_args(Prompting)
LETTERS = "ABCDEFGHIJ"  # as many as MMLU-Pro's questions have choices
COT_HEAD = "The following are multiple choice questions (with answers)."
COT_INSTRUCTION = (
    'Think step by step and then finish your answer with "the answer is (X)" where X is the correct letter choice.'
)
"""Source: MMLU-Pro (Wang et al. 2024, arXiv 2406.01574), the instruction of its chain-of-thought prompt."""
COT_STOPS = ("Question:", "</s>", "<|im_end|>", "<|eot_id|>")

_CUE = "Answer:"
_REASONING = "Let's think step by step."
_LAST_LINE = re.compile(r"\n([^\n]{1,60}:)[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A question taken apart: what is asked, what is offered, and the line that asks for the answer."""

    lead: str
    choices: tuple[str, ...]
    cue: str

    @property
    def listed(self) -> str:
        """The choices, one a line, each after its letter."""
        return "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, self.choices, strict=False))


def read_question(text: str, choices: Sequence[str]) -> ChoiceQuestion:
    """Return the question that a task renders; its choices are in the text where they are only letters outside it.

    Raises: MalformedSample where the choices are letters and the text does not list them.
    """
    if not _are_letters(choices):
        found = _LAST_LINE.search(text)
        lead, cue = (text[: found.start()], found[1]) if found else (text, _CUE)
        return ChoiceQuestion(lead, tuple(choice.strip() for choice in choices), cue)
    marks = _marks(text, len(choices))
    if marks is None:
        raise MalformedSample(
            f"the choices are the letters {', '.join(choices)}, and the prompt does not list what they stand for, one "
            f"a line after its letter; seen {text[-120:]!r}"
        )
    ends = [*(mark.start() for mark in marks[1:]), None]
    parts = [text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)]
    last, _, tail = parts[-1].partition("\n")
    texts = tuple(part.strip() for part in (*parts[:-1], last))
    return ChoiceQuestion(text[: marks[0].start()].rstrip("\n"), texts, tail.strip("\n") or _CUE)


def _are_letters(choices: Sequence[str]) -> bool:
    return len(choices) > 1 and [choice.strip(" ().") for choice in choices] == list(LETTERS[: len(choices)])


def _marks(text: str, n_choices: int) -> list[re.Match[str]] | None:
    """Return where each letter stands at the beginning of a line, in the last place where all follow one another."""
    firsts = list(_mark_of("A").finditer(text))
    for first in reversed(firsts):
        found = [first]
        for letter in LETTERS[1:n_choices]:
            mark = _mark_of(letter).search(text, found[-1].end())
            if mark is None:
                break
            found.append(mark)
        if len(found) == n_choices:
            return found
    return None


def _mark_of(letter: str) -> re.Pattern[str]:
    return re.compile(rf"(?m)^[ \t]*[(\[]?{letter}[.):\]][ \t]+")


def put_layout(layout: Layout, prompting: Prompting, *, shot: bool) -> Layout:
    """Return the layout that puts the same rows in this way, for the sample asked or for a shot.

    Its functions raise PlanError where choices are contexts, and MalformedSample for a row that cannot be put so.
    """
    if layout.choices is None:
        raise PlanError(f"put as {prompting}: the task offers no choices (it has no doc_to_choice)")
    put = _Put(layout, layout.choices, prompting)
    if prompting != "cot":
        return replace(layout, text=put.text, target=put.gold, choices=put.choices)
    said = "The answer is ({}).".format if shot else str
    return replace(layout, text=put.text, target=lambda row: _lettered(put.gold(row), said), choices=None)


@dataclass(frozen=True, slots=True)
class _Put:
    """A task's own layout, seen in another way."""

    layout: Layout
    own_choices: Callable[[Row], Any]
    prompting: Prompting

    def own(self, row: Row) -> list[str]:
        """Return the choices as the task file has them."""
        return [str(choice) for choice in self.own_choices(row)]

    def own_text(self, row: Row) -> str:
        """Return the prompt's text as the task file has it."""
        text = self.layout.text(row)
        if not isinstance(text, str):
            raise PlanError(f"put as {self.prompting}: the choices are contexts, which cannot be listed as answers")
        return text

    def text(self, row: Row) -> str:
        """Return the prompt's text; the task's own where it is put in this way already."""
        text, own = self.own_text(row), self.own(row)
        if self.prompting != "cot" and _are_letters(own) == (self.prompting == "letter"):
            return text
        asked = read_question(text, own)
        if self.prompting == "text":
            return f"{asked.lead}\n{asked.cue}"
        if len(own) > len(LETTERS):
            raise MalformedSample(f"{len(own)} choices; put as {self.prompting} there are letters for {len(LETTERS)}")
        if self.prompting == "letter":
            return f"{asked.lead}\n{asked.listed}\n{asked.cue}"
        lead = asked.lead if asked.lead.startswith("Question:") else f"Question: {asked.lead}"
        return f"{lead}\n{asked.listed}\nAnswer: {_REASONING}"

    def choices(self, row: Row) -> list[str]:
        """Return what is weighed: letters or texts."""
        own = self.own(row)
        if self.prompting == "letter":
            return list(LETTERS[: len(own)])
        return list(read_question(self.own_text(row), own).choices) if _are_letters(own) else own

    def gold(self, row: Row) -> Any:
        """Return the right choice's position, or several."""
        return _positions(self.layout.target(row), self.own(row))


def _positions(target: Any, choices: Sequence[str]) -> Any:
    """Return the right choice's position, or several; what is none of the choices is left as it is."""
    if isinstance(target, list):
        return [_positions(each, choices) for each in target]
    return choices.index(target) if isinstance(target, str) and target in choices else target


def _lettered(gold: Any, said: Callable[[str], str]) -> Any:
    if isinstance(gold, list):
        return [_lettered(each, said) for each in gold]
    if not isinstance(gold, int) or not 0 <= gold < len(LETTERS):
        return str(gold)
    return said(LETTERS[gold])


def instructed(description: Callable[[Row], Any]) -> Callable[[Row], str]:
    """Return the description with what the model is told to do before it answers with a letter."""

    def text(row: Row) -> str:
        own = str(description(row) or "").rstrip() or COT_HEAD
        return f"{own} {COT_INSTRUCTION}\n\n"

    return text
