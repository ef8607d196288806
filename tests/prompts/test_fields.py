"""Interpretation of doc_to_text, doc_to_target and doc_to_choice."""

from typing import Any

import pytest

from assaymark.errors import DataError, MalformedSample
from assaymark.prompts.fields import (
    resolve_choices,
    resolve_loose,
    resolve_own,
    resolve_target,
    resolve_text,
    resolve_turns,
)

ROW: dict[str, Any] = {"q": "why", "n": 3, "list": ["x", "y"]}
COLUMNS = frozenset(ROW)


@pytest.mark.parametrize(
    ("field", "has_choices", "expected"),
    [
        ("q", False, "why"),  # a column
        ("n", True, 3),  # a column keeps its type
        ("{{q}}?", False, "why?"),  # a template
        ("{{n}}", True, 3),  # digits are an index if there are choices
        ("{{n}}", False, "3"),
        (7, False, 7),
        (lambda row: row["q"].upper(), False, "WHY"),
    ],
)
def test_text(field: Any, has_choices: bool, expected: Any) -> None:
    """A column, a template, digits, a number or a function."""
    assert resolve_text(field, COLUMNS, has_choices=has_choices)(ROW) == expected


@pytest.mark.parametrize(
    ("field", "has_choices", "expected"),
    [
        ("{{list}}", False, ["x", "y"]),  # what renders as a list is several targets
        ("{{list.index('y')}}", True, 1),
        ("[not a list]", False, "[not a list]"),
        ("list", False, ["x", "y"]),
        (["a"], False, ["a"]),
        (0, True, 0),
        ("{{q}}", True, "why"),
    ],
)
def test_target(field: Any, has_choices: bool, expected: Any) -> None:
    """A target may be a text, an index or a list."""
    assert resolve_target(field, COLUMNS, has_choices=has_choices)(ROW) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("list", ["x", "y"]),
        ("{{list}}", ["x", "y"]),
        ("{{[q, 'no']}}", ["why", "no"]),
        (["a", "b"], ["a", "b"]),
        ({"1": "a", "2": "b"}, ["a", "b"]),
        (lambda row: row["list"], ["x", "y"]),
    ],
)
def test_choices(field: Any, expected: Any) -> None:
    """Choices come from a column, a template that renders as a list, a list, a mapping's values or a function."""
    assert resolve_choices(field, COLUMNS)(ROW) == expected


def test_choices_that_are_not_a_list_are_an_error() -> None:
    """A template that renders as plain text cannot be choices."""
    with pytest.raises(MalformedSample, match="expected a list"):
        resolve_choices("{{q}} or not", COLUMNS)(ROW)


def test_a_failing_function_is_named() -> None:
    """A task's function that fails on a row is named with its error."""

    def gold(row: Any) -> str:
        return str(row["absent"])

    with pytest.raises(MalformedSample, match=r"function gold failed.*KeyError"):
        resolve_target(gold, COLUMNS, has_choices=False)(ROW)


def test_wrong_kinds_are_errors() -> None:
    """A value of another type is refused when the task is bound."""
    for resolve in (resolve_text, resolve_target):
        with pytest.raises(DataError, match="expected a column"):
            resolve(None, COLUMNS, has_choices=False)
    with pytest.raises(DataError, match="expected a column"):
        resolve_choices(3, COLUMNS)
    with pytest.raises(DataError, match="gen_prefix"):
        resolve_own(3, COLUMNS)
    with pytest.raises(DataError, match="description"):
        resolve_loose(3)


def test_gen_prefix_and_description() -> None:
    """The evaluated sample's prefix is a column or a template; a description is looked up in the row itself."""
    assert resolve_own("q", COLUMNS)(ROW) == "why"
    assert resolve_own("So {{q}}", COLUMNS)(ROW) == "So why"
    assert resolve_own(None, COLUMNS)(ROW) is None
    assert resolve_loose("q")(ROW) == "why"
    assert resolve_loose("About {{q}}.")(ROW) == "About why."
    assert resolve_loose("")(ROW) is None


def test_turns_come_from_a_list_column_or_a_template_each() -> None:
    """Turns are a column with a list, or one template for each; anything else is an error of that row."""
    row = {"said": ["Hello.", "And then?"], "q": "why"}
    assert resolve_turns("said", list(row))(row) == ["Hello.", "And then?"]
    assert resolve_turns(["Tell me {{q}}.", "And {{q}} not?"], list(row))(row) == ["Tell me why.", "And why not?"]
    for empty in ([], ["one", 2], "why"):
        with pytest.raises(MalformedSample, match="doc_to_turns returns"):
            resolve_turns("said", ["said"])({"said": empty})
