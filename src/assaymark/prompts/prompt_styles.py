"""Prompt styles of multiple-choice questions: letter, text and cot (chain of thought).

letter: the choices are listed, and the answer is the letter with the highest log-likelihood. text: the choices are not
shown, and each is scored as a continuation of the question. cot: the choices are listed, the model generates its
reasoning, and the letter is extracted from the generated text.

A task file has one of the first two styles; the others are derived from its rendered text: the question, the choices,
and the cue line before the answer. In its own style a task's text is unchanged to the byte.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from assaymark.errors import MalformedSample, PlanError
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import LETTERS, are_letters, read_question
from assaymark.prompts.templates import Row

__all__ = [
    "COT_INSTRUCTION", "COT_STOPS", "PROMPT_STYLES", "PromptStyle", "instructed", "styled_layout",
]  # fmt: skip

PromptStyle = Literal["letter", "text", "cot"]
PROMPT_STYLES: tuple[PromptStyle, ...] = get_args(PromptStyle)
COT_HEAD = "The following are multiple choice questions (with answers)."
COT_INSTRUCTION = (
    'Think step by step and then finish your answer with "the answer is (X)" where X is the correct letter choice.'
)
"""Source: MMLU-Pro (Wang et al. 2024, arXiv 2406.01574), the instruction of its chain-of-thought prompt."""
COT_STOPS = ("Question:", "</s>", "<|im_end|>", "<|eot_id|>")

_REASONING = "Let's think step by step."


def styled_layout(layout: PromptFields, prompt_style: PromptStyle, *, shot: bool) -> PromptFields:
    """Return the layout of the same rows in this prompt style, for the evaluated sample or for a shot.

    Its functions raise PlanError if the choices are contexts, and MalformedSample for a row that does not fit.
    """
    if layout.choices is None:
        raise PlanError(f"prompt style {prompt_style}: the task has no choices (no doc_to_choice)")
    styled = _Styled(layout, layout.choices, prompt_style)
    if prompt_style != "cot":
        return replace(layout, text=styled.text, target=styled.gold, choices=styled.choices)
    sentence = "The answer is ({}).".format if shot else str
    return replace(layout, text=styled.text, target=lambda row: _lettered(styled.gold(row), sentence), choices=None)


@dataclass(frozen=True, slots=True)
class _Styled:
    """A task's own layout in a prompt style."""

    layout: PromptFields
    own_choices: Callable[[Row], Any]
    prompt_style: PromptStyle

    def own(self, row: Row) -> list[str]:
        """Return the choices of the task file."""
        return [str(choice) for choice in self.own_choices(row)]

    def own_text(self, row: Row) -> str:
        """Return the prompt's text of the task file."""
        text = self.layout.text(row)
        if not isinstance(text, str):
            raise PlanError(f"prompt style {self.prompt_style}: the choices are contexts, which cannot be listed")
        return text

    def text(self, row: Row) -> str:
        """Return the prompt's text; the task's own if it has this style already."""
        text, own = self.own_text(row), self.own(row)
        if self.prompt_style != "cot" and are_letters(own) == (self.prompt_style == "letter"):
            return text
        question = read_question(text, own)
        if self.prompt_style == "text":
            return f"{question.lead}\n{question.cue}"
        if len(own) > len(LETTERS):
            raise MalformedSample(
                f"{len(own)} choices; prompt style {self.prompt_style} has letters for at most {len(LETTERS)}"
            )
        if self.prompt_style == "letter":
            return f"{question.lead}\n{question.listed}\n{question.cue}"
        lead = question.lead if question.lead.startswith("Question:") else f"Question: {question.lead}"
        return f"{lead}\n{question.listed}\nAnswer: {_REASONING}"

    def choices(self, row: Row) -> list[str]:
        """Return the scored continuations: letters or texts."""
        own = self.own(row)
        if self.prompt_style == "letter":
            return list(LETTERS[: len(own)])
        return list(read_question(self.own_text(row), own).choices) if are_letters(own) else own

    def gold(self, row: Row) -> Any:
        """Return the position of the correct choice, or a list of positions."""
        return _positions(self.layout.target(row), self.own(row))


def _positions(target: object, choices: Sequence[str]) -> Any:
    """Return the position of the correct choice, or a list of positions; a target that is not a choice is unchanged."""
    if isinstance(target, list):
        return [_positions(each, choices) for each in target]
    return choices.index(target) if isinstance(target, str) and target in choices else target


def _lettered(gold: object, sentence: Callable[[str], str]) -> Any:
    if isinstance(gold, list):
        return [_lettered(each, sentence) for each in gold]
    if not isinstance(gold, int) or not 0 <= gold < len(LETTERS):
        return str(gold)
    return sentence(LETTERS[gold])


def instructed(description: Callable[[Row], Any]) -> Callable[[Row], str]:
    """Return the description with the instruction to reason before answering with a letter."""

    def text(row: Row) -> str:
        own = str(description(row) or "").rstrip() or COT_HEAD
        return f"{own} {COT_INSTRUCTION}\n\n"

    return text
