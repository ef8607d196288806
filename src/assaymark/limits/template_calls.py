"""Compute the size of the result of single calls in a template before they are made.

One call in C cannot be interrupted, and some create far more than their arguments: `"".center(4000000000)`, `replace`,
`join`, formats with a width. Each of these is listed here with the size of its result. All others create about as much
as they are given, so counting their results is enough.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from assaymark.limits.budget import MAX_CHARACTERS, Budget, TemplateTooLarge, weigh

__all__ = ["Sizes", "bounded_filter", "counted", "size_of_call", "size_of_percent"]

Sizes = Mapping[str, Callable[..., int]]
SIZED = (str, bytes, list, tuple)  # faster than str | bytes | ...
NUMBER = re.compile(r"\d+")
NESTED = re.compile(r"\{[^{}]*\{")
LONGEST_NUMBER = len(str(MAX_CHARACTERS))
LARGEST_COUNT = {"batch": 1_000_000, "slice": 1_000_000, "lipsum": 1000, "generate_lorem_ipsum": 1000, "round": 300,
                 "tojson": 1000, "pprint": 1000}  # fmt: skip


def _largest(values: Sequence[Any]) -> int:
    """Return the largest whole number among arguments; at least 0."""
    return max((each for each in values if isinstance(each, int)), default=0)


def _padded(value: Any, *given: Any) -> int:
    return max(_length(value), _largest(given))


def _replaced(value: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    text, old, new = str(value), str(old), str(new)
    n = text.count(old) if old else len(text) + 1
    return len(text) + n * max(0, len(new) - len(old))


def _joined(separator: Any, items: Any = (), *_: Any) -> int:
    n_items = len(items) if isinstance(items, Sequence) else 0
    return weigh(items) + n_items * _length(separator)


def _in_lines(value: Any, *given: Any) -> int:
    """Return the size of calls that repeat their arguments for each line or word."""
    longest = max((len(each) if isinstance(each, str) else 0 for each in given), default=0)
    text = str(value)
    n_lines = text.count("\n") + 1 if not longest else len(text) + 1
    return len(text) + n_lines * max(longest, _largest(given))


def _tabs(value: Any, *given: Any) -> int:
    return _length(value) + str(value).count("\t") * max(8, _largest(given))


def _translated(value: Any, table: Any = None, *_: Any) -> int:
    values = table.values() if isinstance(table, Mapping) else ()
    return _length(value) * max((len(each) for each in values if isinstance(each, str)), default=1)


def _formatted(value: Any, *given: Any) -> int:
    """Return the size of `str.format`: a field may have any width, which another field may set."""
    text = str(value)
    spoken = [text, *(str(each) for each in given if isinstance(each, str | int) and NESTED.search(text))]
    if NESTED.search(text):
        weigh(list(given))
        spoken += [repr(each) for each in given if isinstance(each, Mapping | list | tuple)]
    return _widths(spoken) + len(text) + text.count("{") * max(map(weigh, given), default=0)


def size_of_percent(text: Any, given: Any) -> int:
    """Return the size of a text formatted with `%`."""
    values = given if isinstance(given, tuple) else (given,)
    spoken = [str(text), *(str(each) for each in values if "*" in str(text) and isinstance(each, int))]
    return _widths(spoken) + len(str(text)) + str(text).count("%") * weigh(given)


def _widths(texts: Sequence[str]) -> int:
    """Return the sum of the numbers in these texts, any of which may be a width."""
    numbers = [each for text in texts for each in NUMBER.findall(text)]
    return sum(int(each) if len(each) <= LONGEST_NUMBER else MAX_CHARACTERS + 1 for each in numbers)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _written(value: Any, *_: Any) -> int:
    return weigh(value)


def _extended(_: Any, items: Any = (), *__: Any) -> int:
    return _length(items)


PAD = dict.fromkeys(("center", "ljust", "rjust", "zfill", "to_bytes", "truncate"), _padded)
METHODS: Sizes = {**PAD, "replace": _replaced, "join": _joined, "expandtabs": _tabs, "translate": _translated,
                  "format": _formatted, "format_map": _formatted, "extend": _extended}  # fmt: skip
FILTERS: Sizes = {
    **PAD, "replace": _replaced, "join": lambda items, separator="", *_: _joined(separator, items),
    "indent": _in_lines, "wordwrap": _in_lines, "format": lambda text, *given: size_of_percent(text, given),
    "tojson": _written, "pprint": _written, "string": _written,
}  # fmt: skip
MEASURED = frozenset({*METHODS, *LARGEST_COUNT})


def size_of_call(function: Any, given: tuple[Any, ...]) -> int:
    """Return the size of a call's result, 0 if it creates no more than it is given.

    Raises: TemplateTooLarge for a count above its own limit.
    """
    name = getattr(function, "__name__", "")
    if name not in MEASURED:
        return 0
    _refuse_count(name, given)
    owner = getattr(function, "__self__", None)
    if owner is None:  # str.format is wrapped by the sandbox
        owner = getattr(getattr(function, "__wrapped__", None), "__self__", None)
    if name in METHODS and isinstance(owner, str | bytes | list | int):
        return METHODS[name](owner, *given)
    return 0


def _refuse_count(name: str, given: tuple[Any, ...]) -> None:
    if name in LARGEST_COUNT and _largest(given) > LARGEST_COUNT[name]:
        raise TemplateTooLarge(f"{name}({_largest(given):,}) is over its limit of {LARGEST_COUNT[name]:,}")


def counted(budget: Budget, result: Any) -> Any:
    """Return the result of a call after counting its size, if it has one."""
    if isinstance(result, SIZED):
        budget.make(len(result))
    return result


def bounded_filter(name: str, function: Callable[..., Any], budget: Budget) -> Callable[..., Any]:
    """Return a Jinja filter that counts against the budget and is measured before it is applied."""
    n_passed = int(getattr(function, "jinja_pass_arg", None) is not None)
    size_of = FILTERS.get(name)

    @wraps(function)
    def within(*args: Any, **kwargs: Any) -> Any:
        budget.step()
        given = args[n_passed:]
        if size_of is not None and given:
            if name == "join" and not isinstance(given[0], list | tuple | str):
                given = (list(given[0]), *given[1:])
                args = (*args[:n_passed], *given)
            budget.make(size_of(*given, *kwargs.values()))
        if name in LARGEST_COUNT:
            _refuse_count(name, (*given, *kwargs.values()))
        return counted(budget, function(*args, **kwargs))

    return within
