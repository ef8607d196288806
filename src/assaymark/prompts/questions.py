"""Parsing of multiple-choice prompts into question, choices, and the cue line before the answer.

A task file defines how a prompt is worded, but not which part of it is the question. `read_question` finds the parts in
the text alone, for another prompt style; `question_in` also uses the row, and finds the bare question without the
task's wording around it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assaymark.errors import MalformedSample
from assaymark.records.json_values import strings_in

LETTERS = "ABCDEFGHIJ"  # enough for MMLU-Pro's ten choices
SHORTEST_PART = 3  # characters: shorter strings of a row occur in a prompt by accident

OWN_LETTER = ("(?i)^ *[(（[]?", " *([].):）．：、]| [-–—] ) *(?=[^ ])")
"""What is around an option's own letter, as in "A. cat", "(a) cat" and "Ａ、cat"; without a backslash for templates."""

_APART = str.maketrans(dict.fromkeys(".,;:!?\"'“”‘’()", " "))
_CUE = "Answer:"
_LAST_LINE = re.compile(r"\n([^\n]{1,60}:)[ \t]*\Z")
_MARKER = re.compile(r"^\W*([A-Za-z]|\d{1,2})\W*$")  # label of an option: A, (b), 3.


@dataclass(frozen=True, slots=True)
class ChoiceQuestion:
    """A parsed question: the text before the choices, the choices, and the cue line before the answer."""

    lead: str
    choices: tuple[str, ...]
    cue: str

    @property
    def listed(self) -> str:
        """The choices, one per line, each after its letter, and not after one of their own too."""
        pairs = list(zip(LETTERS, self.choices, strict=False))
        if have_own_letters(self.choices):
            pairs = [(letter, re.sub(letter.join(OWN_LETTER), "", text)) for letter, text in pairs]
        return "\n".join(f"{letter}. {text}" for letter, text in pairs)


def read_question(text: str, choices: Sequence[str]) -> ChoiceQuestion:
    """Return the parsed question of a rendered prompt; if `choices` are letters, the choices are read from the text.

    Raises: MalformedSample if the choices are letters and the text does not list them.
    """
    if not are_letters(choices):
        match = _LAST_LINE.search(text)
        lead, cue = (text[: match.start()], match[1]) if match else (text, _CUE)
        return ChoiceQuestion(lead, tuple(choice.strip() for choice in choices), cue)
    marks = _marks(text, len(choices))
    if marks is None:
        raise MalformedSample(
            f"the choices are the letters {', '.join(choices)}, and the prompt does not list what they stand for, one "
            f"per line after its letter; found {text[-120:]!r}"
        )
    ends = [*(mark.start() for mark in marks[1:]), None]
    parts = [text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)]
    last, _, tail = parts[-1].partition("\n")
    texts = tuple(part.strip() for part in (*parts[:-1], last))
    return ChoiceQuestion(text[: marks[0].start()].rstrip("\n"), texts, tail.strip("\n") or _CUE)


def are_letters(choices: Sequence[str]) -> bool:
    """Return whether the choices are the letters A, B, ..."""
    return len(choices) > 1 and [choice.strip(" ().") for choice in choices] == list(LETTERS[: len(choices)])


def have_own_letters(options: Sequence[object]) -> bool:
    """Return whether the text of each option begins with its own letter: "A. cat", "B. dog"."""
    return 1 < len(options) <= len(LETTERS) and all(
        isinstance(option, str) and re.match(letter.join(OWN_LETTER), option)
        for letter, option in zip(LETTERS, options, strict=False)
    )


def option_spans(row: Mapping[str, object], text: str, n_choices: int) -> list[tuple[int, int]] | None:
    """Return where the text of each option begins and ends in a prompt that lists them after their letters.

    The last option ends with the longest text of the row that begins there (it may have several lines), else with its
    line. None if the prompt does not list them.
    """
    marks = _marks(text, n_choices)
    if not marks:
        return None
    spaces = [len(mark[0]) - len(mark[0].rstrip(" \t")) for mark in marks]
    starts = [mark.end() - n + 1 for mark, n in zip(marks, spaces, strict=True)]  # further spaces are the option's
    ends = [
        start + len(text[start : mark.start()].rstrip("\n")) for start, mark in zip(starts, marks[1:], strict=False)
    ]
    last = text[starts[-1] :]
    whole = max((part for part in strings_in(row) if last.startswith(part)), key=len, default="")
    ends.append(starts[-1] + max(len(whole), len(last.partition("\n")[0])))
    return list(zip(starts, ends, strict=True))


def _marks(text: str, n_choices: int) -> list[re.Match[str]] | None:
    """Return the matches of each letter at the beginning of a line, for the last complete list in the text."""
    firsts = list(_mark_of("A").finditer(text))
    for first in reversed(firsts):
        matches = [first]
        for letter in LETTERS[1:n_choices]:
            mark = _mark_of(letter).search(text, matches[-1].end())
            if mark is None:
                break
            matches.append(mark)
        if len(matches) == n_choices:
            return matches
    return None


def _mark_of(letter: str) -> re.Pattern[str]:
    return re.compile(rf"(?m)^[ \t]*[(\[]?{letter}[.):\]][ \t]+")


# ------------------------------------------------------------------------------------------ with the row


def question_in(row: Mapping[str, object], text: str, choices: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the bare question in a task's text (the row's texts in it that are not options), and its options.

    If the choices are letters or numbers, the options are the row's list that the text shows, else the texts listed
    after the letters. The question is None if no text of the row occurs in the prompt.
    """
    options, lead = _marked(row, text, choices)
    if all(option in lead for option in options) and not _are_markers(options):
        first = min(lead.rfind(option) for option in options)
        line = lead.rfind("\n", 0, first)
        lead = lead[: line if line >= 0 else first]
    parts = [part.strip() for part in strings_in(row) if _is_part(part, options, lead)]
    if not parts:
        return None, options
    begin = min(lead.find(part) for part in parts)
    finish = max(lead.rfind(part) + len(part) for part in parts)
    return lead[begin:finish], options


def _marked(row: Mapping[str, object], text: str, choices: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the options, and the text up to the beginning of their list or of the cue line."""
    if not _are_markers(choices):
        return tuple(choice.strip() for choice in choices), text
    for values in _lists(row):
        texts = tuple(str(value).strip() for value in values)
        is_shown = len(texts) == len(choices) and all(texts) and all(each in text for each in texts)
        if is_shown and not _are_markers(texts):
            return texts, text
    try:
        read = read_question(text, choices)
    except MalformedSample:
        return tuple(choice.strip() for choice in choices), text
    return read.choices, read.lead


def _are_markers(texts: Sequence[str]) -> bool:
    return all(_MARKER.match(text.strip()) for text in texts)


def _lists(value: object) -> Iterator[Sequence[object]]:
    """Yield every list of texts or numbers in a row, at any depth."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _lists(inner)
    elif isinstance(value, list | tuple):
        if all(isinstance(each, str | int | float) for each in value):
            yield value
        for inner in value:
            yield from _lists(inner)


def words_of(text: str) -> list[str]:
    """Return a text's words without case, white space and punctuation; symbols of mathematics and code stay."""
    return text.casefold().translate(_APART).split()


def _is_part(part: str, options: Sequence[str], text: str) -> bool:
    """Return whether a string of the row is a part of the question in the text."""
    stripped = part.strip()
    return (
        len(stripped) >= SHORTEST_PART
        and any(character.isalnum() for character in stripped)
        and stripped not in options
        and stripped in text
    )


def blanked(row: Mapping[str, object], options: Sequence[str], text: str) -> dict[str, object]:
    """Return a row with the parts of the question that occur in the text replaced by empty texts; options stay."""
    return {key: _blanked(value, options, text) for key, value in row.items()}


def _blanked(value: object, options: Sequence[str], text: str) -> object:
    if isinstance(value, str):
        return "" if _is_part(value, options, text) else value
    if isinstance(value, Mapping):
        return blanked(value, options, text)
    if isinstance(value, list | tuple):
        return [_blanked(inner, options, text) for inner in value]
    return value
