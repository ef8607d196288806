"""Validate options before use: an unknown option is an error, never ignored silently."""

import math
from collections.abc import Mapping
from typing import Any

from assaymark.errors import UnknownName, UsageError
from assaymark.options.option import Declared, declared_options
from assaymark.registry import nearest

__all__ = ["check_cost", "check_gen_kwargs", "check_limit", "check_options", "with_defaults"]

_WORDS: Mapping[type, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Mapping: "a mapping",
    list: "a list",
}


def check_options(kind: type, given: Mapping[str, Any]) -> None:
    """Validate the given options against the declarations of `kind`, a TypedDict.

    Raises: UnknownName for an unknown option, UsageError for a value of a wrong type or an invalid one, and what an
        option's own check raises.
    """
    declared = declared_options(kind)
    for name, value in given.items():
        if name not in declared:
            raise UnknownName("option of evaluate", name, nearest(name, declared))
        if value is not None:
            _check(declared[name], value)


def with_defaults(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each option that `kind`, a TypedDict, declares: the given one, or its default."""
    return {
        name: one.option.default if given.get(name) is None else given[name]
        for name, one in declared_options(kind).items()
    }


def _check(declared: Declared, value: Any) -> None:
    option, types = declared.option, declared.types
    if types and (not isinstance(value, types) or (isinstance(value, bool) and not {bool, object} & set(types))):
        words = option.expected or _words(types)
        raise UsageError(f"{declared.name} is {value!r:.80}, of type {type(value).__name__}; expected {words}")
    if option.choices and value not in option.choices:
        raise UsageError(f"{declared.name} is '{value}'; expected one of {', '.join(option.choices)}")
    if option.least is not None and value < option.least:
        raise UsageError(f"{declared.name} is {value}; expected {option.least} or more")
    if option.check is not None:
        option.check(value)


def _words(types: tuple[type, ...]) -> str:
    """Return the expected types in words: `a number` for (int, float)."""
    names = [_WORDS.get(kind, f"a {kind.__name__}") for kind in types]
    return "a number" if float in types else " or ".join(dict.fromkeys(names))


def check_limit(value: float) -> None:
    """Raise UsageError for a limit that is neither a number of samples nor a share of them."""
    if not math.isfinite(value) or value <= 0 or (value > 1 and value != int(value)):
        raise UsageError(f"limit is {value:g}; expected a whole number of samples from 1, or a fraction below 1")


def check_cost(value: float) -> None:
    """Raise UsageError for a limit on the cost that is no amount of money."""
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"max_cost is {value:g}; expected an amount of money from 0")


def check_gen_kwargs(value: Mapping[str, Any]) -> None:
    """Raise UsageError for generation settings that are unknown or invalid."""
    from assaymark.tasks.generation import check_gen_kwargs

    check_gen_kwargs(value)
