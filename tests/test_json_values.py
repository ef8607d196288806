"""JSON of other programs by type: values of the right type are returned as they are, others name their key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from assaymark.errors import UsageError
from assaymark.models.checkpoint.arguments import local_arguments
from assaymark.records.json_values import (
    dataclass_of,
    float_at,
    float_of,
    int_at,
    int_of,
    list_at,
    list_of,
    object_at,
    object_of,
    objects_at,
    objects_of,
    text_at,
    texts_of,
)

CONTENT: Mapping[str, object] = {
    "size": 3,
    "share": 0.5,
    "none": None,
    "zero": 0,
    "name": "x",
    "inner": {"a": 1},
    "rows": [{"a": 1}, {"a": 2}],
    "names": ["a", "b"],
}


def test_values_of_the_right_type_are_returned() -> None:
    """Objects, lists, numbers and texts, and the default where a key has none."""
    assert object_at(CONTENT, "inner") == {"a": 1}
    assert object_at(CONTENT, "none") == object_at(CONTENT, "absent") == {}
    assert list_at(CONTENT, "names") == ["a", "b"]
    assert objects_at(CONTENT, "rows") == [{"a": 1}, {"a": 2}]
    assert objects_at(CONTENT, "absent") == []
    assert texts_of(CONTENT["names"], "names") == ["a", "b"]
    assert [text_at(CONTENT, key) for key in ("name", "size", "none")] == ["x", "3", None]
    assert [int_at(CONTENT, "size"), int_at(CONTENT, "zero", 7), int_at(CONTENT, "absent", 7)] == [3, 7, 7]
    assert [float_at(CONTENT, "share"), float_at(CONTENT, "zero", 7.0), float_at(CONTENT, "absent", 7.0)] == [0.5, 0, 7]
    assert [float_of("1e-5", "eps"), int_of("12", "n"), int_of(2.7, "n")] == [1e-5, 12, 2]
    with pytest.raises(KeyError, match="absent"):
        int_at(CONTENT, "absent")
    with pytest.raises(KeyError, match="absent"):
        float_at(CONTENT, "absent")


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (object_of, [1], "an object"),
        (object_of, "{}", "an object"),
        (list_of, {"a": 1}, "a list"),
        (list_of, "ab", "a list"),
        (objects_of, [{"a": 1}, 2], "an object"),
        (texts_of, ["a", 2], "a list of texts"),
        (float_of, [1.0], "a number"),
        (float_of, None, "a number"),
        (int_of, {"a": 1}, "a whole number"),
    ],
)
def test_another_type_is_an_error_that_names_the_key(
    read: Callable[[object, str], object], value: object, expected: str
) -> None:
    """The message has key, value and what was expected."""
    with pytest.raises(TypeError, match=f"^key is .+; expected {expected}$"):
        read(value, "key")


@dataclass(frozen=True, slots=True)
class _Settings:
    """A dataclass with a field of each kind that arguments have."""

    name: str
    share: float = 1.0
    n: int | None = None
    is_on: bool = False
    mode: Literal["a", "b", "c"] = "a"
    others: Mapping[str, object] = field(default_factory=dict)
    end: str | int | None = None


def test_a_dataclass_of_values_has_the_types_of_its_fields() -> None:
    """A whole number is a number; true and false are no numbers."""
    values = {"name": "x", "share": 2, "n": None, "is_on": True, "mode": "b", "others": {"a": 1}, "end": 5}
    assert dataclass_of(_Settings, values) == _Settings("x", 2, None, True, "b", {"a": 1}, 5)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("name", None, "a text"),
        ("share", True, "a number"),
        ("share", "1", "a number"),
        ("n", 1.5, "a whole number or none"),
        ("is_on", 1, "true or false"),
        ("mode", "d", "a, b or c"),
        ("others", [], "an object"),
        ("end", 1.5, "a text, a whole number or none"),
        ("unknown", 1, "no such key"),
    ],
)
def test_a_dataclass_refuses_values_of_other_types(key: str, value: object, expected: str) -> None:
    """The message has key, value and what was expected."""
    with pytest.raises(TypeError, match=f"^{key} is .+; expected {expected}$"):
        dataclass_of(_Settings, {"name": "x", key: value})


def test_model_arguments_of_a_wrong_type_are_usage_errors() -> None:
    """An argument that no rule of its own checks is refused before anything is loaded."""
    with pytest.raises(UsageError, match=r"^argument think_end_token is 1\.5; expected a text, a whole number or none"):
        local_arguments({"pretrained": "model", "think_end_token": 1.5})
    with pytest.raises(UsageError, match=r"^attention='fast' is unknown; expected one of auto, trie, plain"):
        local_arguments({"pretrained": "model", "attention": "fast"})
