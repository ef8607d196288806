"""Types of the public API."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import assaymark


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions, and the public methods of the public classes."""
    for name in assaymark.__all__:
        value = getattr(assaymark, name)
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            own = [(method, of) for method, of in methods if of.__module__.startswith("assaymark.")]  # not a base's
            yield from ((f"{name}.{method}", of) for method, of in own if not method.startswith("_"))
        elif callable(value):
            yield name, inspect.unwrap(value)


PUBLIC = dict(public_functions())


@pytest.mark.parametrize("name", PUBLIC)
def test_return_values_have_types(name: str) -> None:
    """No public function or method returns Any."""
    if name.startswith("EvaluationCallback.on_"):
        return  # transformers' own signature
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(PUBLIC[name]))).body
    assert isinstance(function, ast.FunctionDef)
    assert function.returns is not None
    names = {node.id for node in ast.walk(function.returns) if isinstance(node, ast.Name)}
    texts = " ".join(str(node.value) for node in ast.walk(function.returns) if isinstance(node, ast.Constant))
    assert "Any" not in names
    assert "Any" not in texts
