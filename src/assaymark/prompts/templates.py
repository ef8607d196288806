"""Jinja templates, compiled once each and run in a sandbox.

The language is that of lm-evaluation-harness: undefined names are errors, a final newline is kept, and there is the
filter `regex_replace`; ours has those of `option_letters` too. A template without Jinja syntax is a constant and is
never run. A template that takes too long, or produces too much text, is stopped (`limits`).
"""

import re
from collections.abc import Callable
from functools import lru_cache

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import SandboxedEnvironment

from assaymark.errors import DataError, MalformedSample
from assaymark.limits.regexes import RegexTooSlow, sub
from assaymark.limits.templates import TemplateTooLarge, bounded, bounded_render, line_of
from assaymark.prompts import option_letters
from assaymark.records import Row

RowText = Callable[[Row], str]


def _regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return sub(pattern, repl, string, count)


def _environment() -> SandboxedEnvironment:
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = _regex_replace
    environment.filters |= option_letters.FILTERS
    return bounded(environment)


_ENVIRONMENT = _environment()
_UNFIT = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, re.error,
          DataError)  # fmt: skip
_SIGNS = ("{{", "{%", "{#", "\r")  # what Jinja changes: expressions, statements, comments, line ends


@lru_cache(maxsize=4096)
def compile_template(template: str, key: str = "template") -> RowText:
    """Return a function from a row to text; `key` names the template in errors.

    Raises: DataError for a template that does not compile; the function raises MalformedSample for a row that lacks
    what the template needs, or with which it exceeds a limit.
    """
    if not any(sign in template for sign in _SIGNS):
        return lambda _: template
    try:
        compiled = bounded_render(_ENVIRONMENT, template)
    except TemplateSyntaxError as error:
        raise DataError(f"{key}, line {error.lineno}: {template!r:.200} does not compile: {error.message}") from error
    except TemplateTooLarge as error:
        raise DataError(f"{key}: {template!r:.120} does not compile: {error}") from error

    def render(row: Row) -> str:
        try:
            return compiled(row)
        except (TemplateTooLarge, OverflowError, RegexTooSlow) as error:
            raise MalformedSample(f"{_location(key, error)}: {template!r:.120} is stopped: {error}") from error
        except _UNFIT as error:
            raise MalformedSample(
                f"{_location(key, error)}: {template!r:.120} cannot be rendered: {error}; the row has "
                f"{', '.join(map(str, row))}"
            ) from error

    return render


def _location(key: str, error: Exception) -> str:
    """Return the name of a template and its line in which an error was raised."""
    line = line_of(error)
    return key if line is None else f"{key}, line {line}"
