"""Rotations of the options that a multiple-choice prompt lists: option texts move, their letters stay.

The options are found in the rendered text, so that the rest of the prompt is unchanged to the byte.
Source: CircularEval (Liu et al. 2023, MMBench, arXiv 2307.06281, section 4.2).
"""

from collections.abc import Sequence
from dataclasses import replace

from assaymark.errors import MalformedSample
from assaymark.prompts.images import PLACEHOLDER
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import are_letters, option_spans
from assaymark.records import Row


def rotated(options: Sequence[str], shift: int) -> list[str]:
    """Return the options rotated by `shift`: the first one moves `shift` positions to the right."""
    return [options[(position - shift) % len(options)] for position in range(len(options))]


def why_not_rotated(layout: PromptFields, row: Row) -> str | None:
    """Return why the options of a row's prompt cannot be rotated; None where they can.

    Raises: MalformedSample for a row that lacks what its prompt needs.
    """
    if layout.choices is None:
        return "it has no choices"
    text, choices = layout.text(row), [str(choice) for choice in layout.choices(row)]
    if not isinstance(text, str):
        return "its choices are contexts"
    if not are_letters(choices):
        return "its prompt does not list the options by letter (--prompt_style letter makes it do so)"
    if option_spans(row, text, len(choices)) is None:
        return "its prompt does not list the options one per line after their letters"
    return None


def rotated_layout(layout: PromptFields, shift: int) -> PromptFields:
    """Return the layout whose text lists the options rotated by `shift`; its choices, the letters, are the same.

    Its `text` raises MalformedSample for a row whose options cannot be found in its prompt.
    """

    def text(row: Row) -> str:
        own, n_choices = layout.text(row), len(layout.choices(row)) if layout.choices is not None else 0
        spans = option_spans(row, own, n_choices)
        if spans is not None and any(PLACEHOLDER in own[start:end] for start, end in spans):
            raise MalformedSample("an option is an image, so the options cannot be rotated; omit --circular")
        if spans is None:
            raise MalformedSample(
                f"the prompt does not list {n_choices} options one per line after their letters, so they cannot be "
                f"rotated; found {own[-120:]!r}; omit --circular, or leave out the sample"
            )
        moved = rotated([own[start:end] for start, end in spans], shift)
        pieces, done = [], 0
        for (start, end), option in zip(spans, moved, strict=True):
            pieces += [own[done:start], option]
            done = end
        return "".join([*pieces, own[done:]])

    return replace(layout, text=text)
