"""Jinja templates, compiled once each and run in a sandbox.

The language is that of lm-evaluation-harness: undefined names are errors, a final newline is kept, and there is one
extra filter, `regex_replace`. A template without any sign of Jinja is a constant and is never run.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

from evalstone.errors import DataError, MalformedSample

Row = Mapping[str, Any]
Render = Callable[[Row], str]


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return re.sub(pattern, repl, string, count=count)


def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = _regex_replace
    return environment


_ENVIRONMENT = _environment()
_SIGNS = ("{{", "{%", "{#", "\r")  # what Jinja would change: expressions, statements, comments, line ends


@lru_cache(maxsize=4096)
def compile_template(template: str, key: str = "template") -> Render:
    """Return a function from a row to text; `key` names the template in errors.

    Raises: DataError for a template that does not compile; the function raises MalformedSample for a row that lacks
    what the template needs.
    """
    if not any(sign in template for sign in _SIGNS):
        return lambda _: template
    try:
        compiled = _ENVIRONMENT.from_string(template)
    except TemplateSyntaxError as error:
        raise DataError(f"{key}: {template!r:.200} does not compile: {error}") from error
    compiled.globals = dict(compiled.globals)  # Jinja's chained mapping is copied for every row, which costs 30 us

    def render(row: Row) -> str:
        try:
            return compiled.render(row)
        except (TemplateError, TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError) as error:
            raise MalformedSample(
                f"{key}: {template!r:.120} cannot be filled: {error}; the row has {', '.join(map(str, row))}"
            ) from error

    return render
