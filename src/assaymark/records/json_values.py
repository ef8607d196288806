"""JSON that another program wrote, by type: each function returns a value that has it, or raises TypeError.

The error names the value's key. Readers add the file to it, as they do for a key that is missing.
"""

from collections.abc import Mapping, Sequence

from assaymark.records.plans import JsonValue

__all__ = ["float_of", "int_of", "list_at", "list_of", "object_at", "object_of", "objects_at"]


def object_of(value: JsonValue, name: str) -> Mapping[str, JsonValue]:
    """Return an object.

    Args:
        value: the value.
        name: its key, for the message.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {value!r:.80}; expected an object")
    return value


def object_at(content: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
    """Return the object at a key; empty where there is none."""
    return object_of(content.get(key) or {}, key)


def list_of(value: JsonValue, name: str) -> Sequence[JsonValue]:
    """Return a list; see `object_of`."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} is {value!r:.80}; expected a list")
    return value


def list_at(content: Mapping[str, JsonValue], key: str) -> Sequence[JsonValue]:
    """Return the list at a key; empty where there is none."""
    return list_of(content.get(key) or (), key)


def objects_at(content: Mapping[str, JsonValue], key: str) -> list[Mapping[str, JsonValue]]:
    """Return the list of objects at a key; empty where there is none."""
    return [object_of(each, key) for each in list_at(content, key)]


def float_of(value: JsonValue, name: str) -> float:
    """Return a number, or the one that a text states. Raises: ValueError for a text that states none."""
    if not isinstance(value, int | float | str):
        raise TypeError(f"{name} is {value!r:.80}; expected a number")
    return float(value)


def int_of(value: JsonValue, name: str) -> int:
    """Return a number without its fraction, or the whole one that a text states. Raises: ValueError as `float_of`."""
    if not isinstance(value, int | float | str):
        raise TypeError(f"{name} is {value!r:.80}; expected a whole number")
    return int(value)
