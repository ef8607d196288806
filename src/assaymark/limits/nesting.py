"""Measure how deep JSON is nested, without recursion, before it is parsed.

`json` and everything that later walks a document recursively (hashing, templates, `repr`) would otherwise fail with
RecursionError, at a depth that depends on the caller.
"""

import json
import re

TOO_LARGE = "an integer has more than 4,300 digits"  # which Python converts at most
MAX_DEPTH = 100  # of files; those that evaluation tools write have about 10 levels at most
# Possessive, and with an optional closing quote: one pass over any text, however hostile.
NOT_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[^"\[\]{}]++', re.DOTALL)


def is_deeper(text: str, limit: int) -> bool:
    """Return whether the arrays and objects of a JSON text are nested deeper than `limit`."""
    if text.count("[") + text.count("{") <= limit:
        return False
    import numpy as np  # only for what has that many brackets: lists of tasks need no numpy

    brackets = np.frombuffer(NOT_BRACKETS.sub("", text).encode("ascii"), dtype=np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), np.int8(1), np.int8(-1))
    return bool(np.cumsum(steps, dtype=np.int32).max(initial=0) > limit)


def parse_json(text: str, limit: int = MAX_DEPTH, *, unique: bool = False) -> object:
    """Return the value of a JSON text.

    Raises: ValueError for text that is not JSON, is nested deeper than `limit`, or contains an integer of more digits
    than Python converts (4,300); with `unique` also for an object that has a key twice.
    """
    if is_deeper(text, limit):
        raise ValueError(f"nested deeper than {limit} levels")
    try:
        return json.loads(text, object_pairs_hook=_without_repeats if unique else None)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # Python's own limit, whose remedy is not the user's
        if "set_int_max_str_digits" not in str(error):
            raise
        raise ValueError(f"{TOO_LARGE}; write it as text") from None


def json_kind(value: object) -> str:
    """Return the JSON name of a value's type: object, array, string, number, boolean or null."""
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"it has the key {key!r:.80} twice")
        mapping[key] = value
    return mapping
