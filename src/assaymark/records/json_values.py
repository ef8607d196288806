"""Records as JSON, and JSON that another program wrote, by type: each function returns a value that has it, or raises.

The TypeError names the value's key. Readers add the file to it, as they do for a key that is missing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from assaymark.records.plans import JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
MOST_OF_INT = 2**63  # no database has a column for larger whole numbers


def json_of(value: object, other: Callable[[object], JsonValue] = str) -> JsonValue:
    """Return records as JSON: dataclasses as objects, an enum as its value, bytes in hexadecimal, NaN as null.

    An object has the record's fields, or what its class states as `json_keys`, a text of words: `name` of a field or
    property; `key=row.name`, another key, and the value there, of each element of a list; `key?`, left out where it is
    empty; `key~`, null where it is empty; `*row`, the keys of what lies there.

    other: what values of further types, such as paths and dates, become.
    """
    if isinstance(value, Enum):
        return json_of(value.value, other)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return json_fields(value, other=other)
    if isinstance(value, Mapping):
        return {str(key): json_of(each, other) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_of(each, other) for each in value]
    return value.hex() if isinstance(value, bytes) else other(value)


def json_fields(
    record: "DataclassInstance", *properties: str, other: Callable[[object], JsonValue] = str
) -> dict[str, JsonValue]:
    """Return a record as a JSON object, and some of its properties; see `json_of`."""
    values: dict[str, JsonValue] = {}
    for key, path, sign in _json_keys_of(type(record)):
        value: object = record
        for name in path:
            if isinstance(value, list | tuple) and not hasattr(value, name):
                value = [getattr(each, name) for each in value]
            elif value is not None:
                value = getattr(value, name)
        if not key:
            of_value = json_of(value, other)
            values |= of_value if isinstance(of_value, dict) else {}
        elif value or not sign:
            values[key] = json_of(value, other)
        elif sign == "~":
            values[key] = None
    return values | {name: json_of(getattr(record, name), other) for name in properties}


def strings_in(value: object) -> Iterator[str]:
    """Yield every text in a row, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from strings_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from strings_in(inner)


@cache
def _json_keys_of(kind: "type[DataclassInstance]") -> tuple[tuple[str, Sequence[str], str], ...]:
    """Return each key of a record's JSON ("": those of its value), the path to its value, and the sign after it."""
    stated: str | None = getattr(kind, "json_keys", None)
    if stated is None:
        return tuple((field.name, (field.name,), "") for field in fields(kind))
    keys = []
    for word in stated.split():
        signed, _, path = word.replace("*", "=").partition("=")
        key = signed.rstrip("?~")
        keys.append((key, (path or key).split("."), signed[len(key) :]))
    return tuple(keys)


def object_of(value: object, name: str) -> Mapping[str, JsonValue]:
    """Return an object.

    name: its key, for the message.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {value!r:.80}; expected an object")
    return value


def object_at(content: Mapping[str, object], key: str) -> Mapping[str, JsonValue]:
    """Return the object at a key; empty where there is none."""
    return object_of(content.get(key) or {}, key)


def list_of(value: object, name: str) -> Sequence[JsonValue]:
    """Return a list; see `object_of`."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} is {value!r:.80}; expected a list")
    return value


def list_at(content: Mapping[str, object], key: str) -> Sequence[JsonValue]:
    """Return the list at a key; empty where there is none."""
    return list_of(content.get(key) or (), key)


def objects_of(value: object, name: str) -> list[Mapping[str, JsonValue]]:
    """Return a list of objects; see `object_of`."""
    return [object_of(each, name) for each in list_of(value, name)]


def objects_at(content: Mapping[str, object], key: str) -> list[Mapping[str, JsonValue]]:
    """Return the list of objects at a key; empty where there is none."""
    return objects_of(content.get(key) or (), key)


def text_at(content: Mapping[str, object], key: str) -> str | None:
    """Return the value at a key as text; None where there is none."""
    value = content.get(key)
    return None if value is None else str(value)


def texts_of(value: object, name: str) -> list[str]:
    """Return a list of texts; see `object_of`."""
    listed = list_of(value, name)
    texts = [each for each in listed if isinstance(each, str)]
    if len(texts) < len(listed):
        raise TypeError(f"{name} is {value!r:.80}; expected a list of texts")
    return texts


def float_of(value: object, name: str) -> float:
    """Return a number, or the one that a text states. Raises: ValueError for a text that states none."""
    if not isinstance(value, int | float | str):
        raise TypeError(f"{name} is {value!r:.80}; expected a number")
    return float(value)


def int_of(value: object, name: str) -> int:
    """Return a number without its fraction, or the whole one that a text states. Raises: ValueError as `float_of`."""
    if not isinstance(value, int | float | str):
        raise TypeError(f"{name} is {value!r:.80}; expected a whole number")
    number = int(value) if isinstance(value, str) else value
    if not abs(number) < MOST_OF_INT:  # infinite ones and NaN too
        raise ValueError(f"{name} is {value!r:.80}; expected a whole number below 2^63")
    return int(number)


def float_at(content: Mapping[str, object], key: str, default: float | None = None) -> float:
    """Return the number at a key; the default where there is no such key. Raises: KeyError where there is neither."""
    return float_of(content[key] if default is None else content.get(key, default), key)


def int_at(content: Mapping[str, object], key: str, default: int | None = None) -> int:
    """Return the whole number at a key; the default where there is none, or 0. Raises: KeyError as `float_at`."""
    return int_of(content[key] if default is None else content.get(key) or default, key)


def dataclass_of(kind: Callable[..., T], values: Mapping[str, object]) -> T:
    """Return a dataclass of values that have the types of its fields; the values of mappings and lists may be any."""
    hints = _hints_of(kind)
    for name, value in values.items():
        if name not in hints:
            raise TypeError(f"{name} is {value!r:.80}; expected no such key")
        if not _admits(hints[name], value):
            raise TypeError(f"{name} is {value!r:.80}; expected {_words(hints[name])}")
    return kind(**values)


def dataclass_within(kind: Callable[..., T], values: Mapping[str, object]) -> T:
    """Return `dataclass_of` those values that are fields of the dataclass."""
    return dataclass_of(kind, {name: value for name, value in values.items() if name in _hints_of(kind)})


@cache
def _hints_of(kind: object) -> Mapping[str, object]:
    return get_type_hints(kind)


def _admits(hint: object, value: object) -> bool:
    """Return whether a value is of the type of a hint. A whole number is a number; true and false are none."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        return any(_admits(each, value) for each in arguments)
    if origin is Literal:
        return value in arguments
    if hint in {int, float}:
        return isinstance(value, int | float if hint is float else int) and not isinstance(value, bool)
    kind = origin or hint
    return isinstance(kind, type) and isinstance(value, kind)


_WORDS: Mapping[object, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    tuple: "a list",
    Mapping: "an object",
    NoneType: "none",
}


def _words(hint: object) -> str:
    """Return a hint in words: `a text or none`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal or origin in {Union, UnionType}:
        words = list(dict.fromkeys(str(each) if origin is Literal else _words(each) for each in arguments))
        return ", ".join(words[:-1]) + f" or {words[-1]}" if words[1:] else words[0]
    kind = origin or hint
    return _WORDS.get(kind, getattr(kind, "__name__", str(kind)))
