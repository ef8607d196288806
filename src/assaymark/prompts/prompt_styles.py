"""Prompt styles of multiple-choice questions: letter, text, cot (chain of thought), and HELM's three.

letter: the choices are listed, and the answer is the letter with the highest log-likelihood. text: the choices are not
shown, and each is scored as a continuation of the question. cot: the choices are listed, the model generates its
reasoning, and the letter is extracted from the generated text.

helm-joint: as HELM's multiple_choice_joint, the choices are listed and one token is generated. helm-separate and
helm-separate-calibrated: as its multiple_choice_separate_original and _calibrated, each choice continues the bare
question after a space; without shots.

A task file has one of the first two styles; the others are derived from its rendered text: the question, the choices,
and the cue line before the answer. In its own style a task's text is unchanged to the byte.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from assaymark.errors import MalformedSample, PlanError
from assaymark.prompts.fields import Resolve
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import LETTERS, are_letters, read_question
from assaymark.records import Row

PromptStyle = Literal["letter", "text", "cot", "helm-joint", "helm-separate", "helm-separate-calibrated"]
PROMPT_STYLES: tuple[PromptStyle, ...] = get_args(PromptStyle)
LISTED_HEAD = "The following are multiple choice questions (with answers)."
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
    if prompt_style == "helm-joint":
        return replace(
            layout, text=styled.text, target=styled.first_letter, choices=None, listed_options=styled.choices
        )
    if prompt_style != "cot":
        return replace(layout, text=styled.text, target=styled.gold, choices=styled.choices)
    sentence = "The answer is ({}).".format if shot else str
    return replace(layout, text=styled.text, target=lambda row: _lettered(styled.gold(row), sentence), choices=None)


@dataclass(frozen=True, slots=True)
class _Styled:
    """A task's own layout in a prompt style."""

    layout: PromptFields
    own_choices: Resolve
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
        if self.prompt_style in ("letter", "text") and are_letters(own) == (self.prompt_style == "letter"):
            return text
        question = read_question(text, own)
        bare = question.lead.removeprefix("Question:").lstrip(" ")
        if self.prompt_style in ("helm-separate", "helm-separate-calibrated"):
            return bare
        if self.prompt_style == "text":
            return f"{question.lead}\n{question.cue}"
        if len(own) > len(LETTERS):
            raise MalformedSample(
                f"{len(own)} choices; prompt style {self.prompt_style} has letters for at most {len(LETTERS)}"
            )
        if self.prompt_style == "letter":
            return f"{question.lead}\n{question.listed}\n{question.cue}"
        if self.prompt_style == "helm-joint":
            return f"Question: {bare}\n{question.listed}\nAnswer:"
        lead = question.lead if question.lead.startswith("Question:") else f"Question: {question.lead}"
        return f"{lead}\n{question.listed}\nAnswer: {_REASONING}"

    def choices(self, row: Row) -> list[str]:
        """Return the scored continuations, letters or texts; in HELM's styles always the texts."""
        own = self.own(row)
        if self.prompt_style == "letter":
            return list(LETTERS[: len(own)])
        if self.prompt_style.startswith("helm"):
            return list(read_question(self.own_text(row), own).choices)
        return list(read_question(self.own_text(row), own).choices) if are_letters(own) else own

    def gold(self, row: Row) -> object:
        """Return the position of the correct choice, or a list of positions."""
        own = _positions(self.layout.target(row), self.own(row))
        if not self.prompt_style.startswith("helm"):
            return own
        texts = self.choices(row)  # in HELM a choice is correct if its text is a correct one's
        positions = [at for at in (own if isinstance(own, list) else [own]) if isinstance(at, int)]
        right = {texts[at] for at in positions if 0 <= at < len(texts)}
        same = [at for at, text in enumerate(texts) if text in right]
        return same if len(same) > 1 else own

    def first_letter(self, row: Row) -> str:
        """Return the letter of the first correct choice."""
        gold = self.gold(row)
        first = min(gold, default=None) if isinstance(gold, list) else gold
        return LETTERS[first] if isinstance(first, int) and 0 <= first < len(LETTERS) else "n/a"


def _positions(target: object, choices: Sequence[str]) -> object:
    """Return the position of the correct choice, or a list of positions; a target that is not a choice is unchanged."""
    if isinstance(target, list):
        return [_positions(each, choices) for each in target]
    return choices.index(target) if isinstance(target, str) and target in choices else target


def _lettered(gold: object, sentence: Callable[[str], str]) -> object:
    if isinstance(gold, list):
        return [_lettered(each, sentence) for each in gold]
    if not isinstance(gold, int) or not 0 <= gold < len(LETTERS):
        return str(gold)
    return sentence(LETTERS[gold])


def styled_description(description: Callable[[Row], object], prompt_style: PromptStyle | None) -> Resolve:
    """Return the text before the questions: cot adds the instruction to reason, helm-separate has no description."""
    if prompt_style in ("helm-separate", "helm-separate-calibrated"):
        return lambda _row: ""
    if prompt_style not in ("cot", "helm-joint"):
        return description

    def text(row: Row) -> str:
        own = str(description(row) or "").rstrip() or LISTED_HEAD
        return f"{own} {COT_INSTRUCTION}\n\n" if prompt_style == "cot" else f"{own}\n\n"

    return text
