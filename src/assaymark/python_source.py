"""Python source as syntax trees, values and texts, read where other threads may read at the same time.

CPython before 3.11.8 and 3.12.1 counts the depth of a syntax tree under construction per interpreter and not per
thread, so that `ast.parse` raises SystemError where a switch of threads falls into it (python/cpython#106905). Nothing
is wrong with the source then, and another try succeeds.
"""

import ast
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

_TRIES = 20
Result = TypeVar("Result")


@overload
def parse_python(source: str | bytes, mode: Literal["exec"] = "exec") -> ast.Module: ...


@overload
def parse_python(source: str | bytes, mode: Literal["eval"]) -> ast.Expression: ...


def parse_python(source: str | bytes, mode: Literal["exec", "eval"] = "exec") -> ast.mod:
    """Return the syntax tree of source: `ast.Module`, or `ast.Expression` for mode "eval".

    Raises: what `ast.parse` raises, SyntaxError, ValueError, RecursionError and MemoryError.
    """
    return _again(lambda: ast.parse(source, mode=mode))


def python_value(text: str) -> Any:
    """Return the value of a text that is a Python literal, as `ast.literal_eval` does, and raise what it raises."""
    return ast.literal_eval(parse_python(text.lstrip(" \t"), "eval"))


def source_of_object(value: Any) -> str:
    """Return the source text of a function or class, as `inspect.getsource` does, which parses the file of a class.

    Raises: OSError where there is none, TypeError for what has none.
    """
    return _again(lambda: inspect.getsource(value))


def _again(read: Callable[[], Result]) -> Result:
    for _ in range(_TRIES - 1):
        try:
            return read()
        except SystemError:
            continue
    return read()
