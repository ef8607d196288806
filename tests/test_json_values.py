"""Records as JSON, and JSON of other programs by type: values of the right type are returned, others name their key."""

import ast
import importlib
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest

from assaymark.errors import UsageError
from assaymark.models.checkpoint.arguments import local_arguments
from assaymark.records.json_values import (
    dataclass_of,
    float_at,
    float_of,
    int_at,
    int_of,
    json_fields,
    json_of,
    list_at,
    list_of,
    object_at,
    object_of,
    objects_at,
    objects_of,
    text_at,
    texts_of,
)

SOURCE = Path(__file__).parents[1] / "src"
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


class Colour(StrEnum):
    """A value of a record."""

    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    """A record in a record."""

    share: float
    colours: frozenset[Colour] = frozenset({Colour.RED})

    @property
    def percent(self) -> float:
        """What is computed of a record."""
        return 100 * self.share


@dataclass(frozen=True, slots=True)
class Outer:
    """A record with all kinds of values."""

    inner: tuple[Inner, ...]
    by_number: Mapping[int, Colour]
    day: date
    file: Path
    is_new: bool


def test_a_record_is_json_as_it_is() -> None:
    """Fields in their order, enums by value, undefined numbers as null, days and paths as text."""
    record = Outer((Inner(0.5), Inner(math.nan)), {3: Colour.RED}, date(2026, 1, 2), Path("a/b"), is_new=True)
    expected = (
        '{"inner": [{"share": 0.5, "colours": ["red"]}, {"share": null, "colours": ["red"]}], '
        '"by_number": {"3": "red"}, "day": "2026-01-02", "file": "a/b", "is_new": true}'
    )
    assert json.dumps(json_of(record), allow_nan=False) == expected
    assert json.dumps(json_fields(record)) == expected


def test_a_property_follows_the_fields_where_it_is_named() -> None:
    """What is computed of a record is in its JSON only where the caller says so."""
    assert json_fields(Inner(0.5), "percent") == {"share": 0.5, "colours": ["red"], "percent": 50.0}


@dataclass(frozen=True, slots=True)
class Place:
    """A record whose JSON is not its fields. token: not in it."""

    inner: Inner | None
    others: tuple[Inner, ...]
    digest: bytes
    token: str
    note: str = ""
    why: str = ""

    json_keys = "*inner half=inner.share shares=others.share hash=digest note? why~ first"

    @property
    def first(self) -> Inner:
        """A record that is computed."""
        return self.others[0]


def test_a_class_states_the_keys_that_are_not_its_fields() -> None:
    """Other names, values inside of records and of each of a list, computed ones, and what becomes of empty ones."""
    whole = Place(Inner(0.5), (Inner(0.1), Inner(math.nan)), b"\x0a", "secret", "n", "w")
    inner = {"share": 0.5, "colours": ["red"]}
    first = {"share": 0.1, "colours": ["red"]}
    expected = {**inner, "half": 0.5, "shares": [0.1, None], "hash": "0a", "note": "n", "why": "w", "first": first}
    assert json.dumps(json_of(whole)) == json.dumps(expected)
    empty = replace(whole, inner=None, note="", why="")
    assert json.dumps(json_of([empty])) == json.dumps(
        [{"half": None, "shares": [0.1, None], "hash": "0a", "why": None, "first": first}]
    )


def classes_in(hint: object) -> list[type]:
    """Return the classes that values of a type, or the elements of such a sequence, may have; none if that is open."""
    if get_origin(hint) in {Union, UnionType}:
        return [kind for each in get_args(hint) for kind in classes_in(each)]
    if (origin := get_origin(hint)) is not None:
        is_sequence = isinstance(origin, type) and issubclass(origin, Sequence)
        return classes_in(get_args(hint)[0]) if is_sequence else [origin]
    return [hint] if isinstance(hint, type) and hint is not NoneType else []


def type_of(kind: type, name: str) -> object:
    """Return the type of a class's field or property; None where it is imported for the type checker alone."""
    member = inspect.getattr_static(kind, name, None)
    getter = getattr(member, "fget", None) or getattr(member, "func", None)
    try:
        return get_type_hints(kind if getter is None else getter).get(name if getter is None else "return")
    except NameError:
        return None


def test_every_stated_key_is_of_its_class() -> None:
    """A renamed field, also of a record inside, would otherwise be missed until somebody asks for that page's JSON."""
    n_steps = 0
    for file in sorted((SOURCE / "assaymark").rglob("*.py")):
        if " json_keys = " not in (text := file.read_text(encoding="utf-8")):
            continue
        module = importlib.import_module(".".join(file.relative_to(SOURCE).with_suffix("").parts))
        for each in [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]:
            whole = vars(module)[each.name]
            stated = vars(whole).get("json_keys")
            for word in stated.split() if isinstance(stated, str) else ():
                kinds = [whole]
                for name in word.replace("*", "=").rpartition("=")[2].rstrip("?~").split("."):
                    kinds = [kind for kind in kinds if name in {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}]
                    assert kinds, f"{whole}: {word}: {name}"
                    kinds = [of for kind in kinds for of in classes_in(type_of(kind, name))]
                    n_steps += 1
                    if not kinds:
                        break
    assert n_steps > 500


def test_further_types_are_the_callers() -> None:
    """A page shows of a path only its name."""
    assert json_of([Path("a/b"), 1], lambda value: f"<{value}>") == ["<a/b>", 1]
