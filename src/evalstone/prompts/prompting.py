"""One multiple-choice question put in three ways: by letter, by text, or with written reasoning before the letter.

letter: the choices are listed, and the answer is the letter that the model finds most probable. text: the choices are
not shown, and each is weighed as what follows the question. cot: the choices are listed, the model writes its
reasoning, and the letter is read from what it wrote.

A task file is written in one of the first two ways, and the others are made from what it renders: the question, the
choices, and the line that asks for the answer. A task put in its own way keeps its text to the byte.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from evalstone.errors import MalformedSample, PlanError
from evalstone.prompts.prompter import Layout
from evalstone.prompts.questions import LETTERS, are_letters, read_question
from evalstone.prompts.templates import Row

__all__ = [
    "COT_INSTRUCTION", "COT_STOPS", "PROMPTINGS", "Prompting", "instructed", "put_layout",
]  # fmt: skip

Prompting = Literal["letter", "text", "cot"]
PROMPTINGS: tuple[Prompting, ...] = get_args(Prompting)
COT_HEAD = "The following are multiple choice questions (with answers)."
COT_INSTRUCTION = (
    'Think step by step and then finish your answer with "the answer is (X)" where X is the correct letter choice.'
)
"""Source: MMLU-Pro (Wang et al. 2024, arXiv 2406.01574), the instruction of its chain-of-thought prompt."""
COT_STOPS = ("Question:", "</s>", "<|im_end|>", "<|eot_id|>")

_REASONING = "Let's think step by step."


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
        if self.prompting != "cot" and are_letters(own) == (self.prompting == "letter"):
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
        return list(read_question(self.own_text(row), own).choices) if are_letters(own) else own

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
