"""Which texts of a task's rows are the question and which are its options or references, found by changing each.

A task file says how a row becomes a prompt, not which columns the question is. A text is a part of the question if
another text in its place changes the prompt and neither the choices nor the target; it is a reference if it changes
one of those, or is an option that the prompt lists after its letter. Where the answer is generated, the options are
the texts that the prompt shows directly after the labels A, B, ..., or the texts of a list that begin with them; a
column that has the question together with its options is the question.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from assaymark.errors import PlanError
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import question_in

Path = tuple[str | int, ...]  # keys and positions to a text of a row
Form = tuple[str, ...]  # a path with any position as "*": the same for all rows
MOST_ROWS = 16  # rows that are looked at to find the parts
ANY = "*"
LONGEST_LABEL = 16  # characters, with the space around it
_START, _END = "Qz ", " zQ"  # put around a text to see where the prompt shows it
# before an option: "A. ", "(b) ", "**C)** "
_LABEL = re.compile(r"(?:\A|[\s*_])[(\[]?([A-Za-z])([.):\]])[*_]*[ \t]*\Z")
_OWN_LABEL = re.compile(r"[ \t]*[(\[]?[A-Za-z][.):\]]")  # of an option that has its label in its text


@dataclass(frozen=True, slots=True)
class QuestionParts:
    """The forms of paths to a task's questions, in the order in which prompts show them, and to its references."""

    questions: tuple[Form, ...]
    references: tuple[Form, ...]

    def of(self, row: Mapping[str, object]) -> tuple[list[Path], list[Path]]:
        """Return the paths to a row's references and to the parts of its question."""
        by_form: dict[Form, list[Path]] = {}
        for path, _ in _texts(row):
            by_form.setdefault(_form(path), []).append(path)
        references, questions = (
            [path for form in forms for path in by_form.get(form, ())] for forms in (self.references, self.questions)
        )
        return references, questions


def find_parts(layout: PromptFields, rows: Sequence[Mapping[str, object]]) -> QuestionParts:
    """Return where a task's rows have their questions and references, from its first rows.

    Raises: PlanError where no text of them is a question alone, so that a copy would be another question or none.
    """
    if layout.messages is not None or layout.turns is not None or layout.tools is not None:
        raise PlanError("it is a conversation, or has tools")
    places: dict[Form, int] = {}  # of questions: where in the prompt the first of the rows shows them
    references: dict[Form, None] = {}
    for row in rows[:MOST_ROWS]:
        own = _read(layout, row)
        if own is None or not isinstance(own[0], str):
            raise PlanError("its choices are contexts, so there is no question that they share")
        text, choices = own[0], own[1]
        options = {option.strip() for option in question_in(row, text, choices)[1]} if choices else set()
        before: dict[Path, str] = {}  # of a generated answer: what the prompt shows before each text
        for path, value in _texts(row):
            changed = _read(layout, with_texts(row, {path: f"{_START}{value}{_END}"}))
            if value.strip() in options or (changed is not None and changed[1:] != own[1:]):
                references[_form(path)] = None
            elif changed is not None and changed[0] != text and any(map(str.isalpha, value)):
                places.setdefault(_form(path), text.find(value.strip()))
            if not choices and changed is not None and isinstance(changed[0], str) and _START in changed[0]:
                own_label = _OWN_LABEL.match(value) if ANY in _form(path) else None
                before[path] = changed[0].partition(_START)[0] + (own_label[0] if own_label is not None else "")
        references.update(dict.fromkeys(map(_form, _labelled(before))))
    questions = [form for form in sorted(places, key=lambda form: places[form]) if form not in references]
    if not questions:
        raise PlanError("no text of its rows is in the prompt and not in the answer too")
    return QuestionParts(tuple(questions), tuple(references))


def _labelled(before: Mapping[Path, str]) -> list[Path]:
    """Return the paths to the texts that a prompt lists after the labels A, B, ..., in this order and from A on.

    Texts of several columns after "A:" and "B:" may be what two speakers say, so a colon labels those of a list only.

    Args:
        before: for each text of a row, the prompt up to it.
    """
    lists: list[list[Path]] = [[]]
    for path, text in sorted(before.items(), key=lambda item: len(item[1])):
        label = _LABEL.search(text[-LONGEST_LABEL:])
        if label is None or (label[2] == ":" and ANY not in _form(path)):
            continue
        letter, n = label[1].upper(), len(lists[-1])
        if letter == ascii_uppercase[n : n + 1]:
            lists[-1].append(path)
        elif letter == "A":
            lists.append([path])
    return [path for listed in lists if len(listed) > 1 for path in listed]


def with_texts(row: Mapping[str, object], texts: Mapping[Path, str]) -> dict[str, object]:
    """Return a copy of a row with other texts at these paths."""
    changed = deepcopy(dict(row))
    for path, text in texts.items():
        place: Any = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = text
    return changed


def _read(layout: PromptFields, row: Mapping[str, object]) -> tuple[object, list[str], object] | None:
    """Return a row's question, choices and target; None where a function of the task fails on it."""
    try:
        choices = [] if layout.choices is None else [str(choice) for choice in layout.choices(row)]
        return layout.text(row), choices, layout.target(row)
    except Exception:  # noqa: BLE001 - a task's own function may raise anything at a text that it does not expect
        return None


def _texts(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every text in a row that is not empty, at any depth, with its path."""
    if isinstance(value, str):
        if value.strip():
            yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, (*path, str(key)))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _texts(inner, (*path, position))


def _form(path: Path) -> Form:
    return tuple(ANY if isinstance(key, int) else key for key in path)
