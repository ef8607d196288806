"""Render chat templates with transformers, within the limits that apply to all templates.

transformers compiles a template and calls its `render`. During a call it receives another object instead: the same
template, compiled in an environment like its own but with limits on loops and text sizes (`limits.templates`).
Everything else that transformers does, and what templates find in their environment, is unchanged. transformers never
compiles the template itself, because compiling evaluates constants, and `"x" * 10**10` is one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from assaymark.limits.templates import bounded, bounded_render

__all__ = ["within_limits"]

_lock = threading.Lock()  # two threads must not restore each other's function


class _Compiled:
    """Stands in for transformers' compiled template."""

    def __init__(self, rendered: Callable[[Any], str]) -> None:
        self._rendered = rendered

    def render(self, *args: Any, **kwargs: Any) -> str:
        """Return the rendered text; variables are passed as in Jinja."""
        return self._rendered(dict(*args, **kwargs))


@lru_cache(maxsize=64)
def _compiled(source: str) -> _Compiled:
    from transformers.utils import chat_template_utils

    environment = chat_template_utils._compile_jinja_template("").environment  # noqa: SLF001 - none is public
    return _Compiled(bounded_render(bounded(environment), source))


@contextmanager
def within_limits(source: str) -> Iterator[None]:
    """Limit the template with this source inside the block.

    Raises: TemplateSyntaxError or TemplateTooLarge if it does not compile.
    """
    from transformers.utils import chat_template_utils

    ours = _compiled(source)
    with _lock:
        theirs = chat_template_utils._compile_jinja_template  # noqa: SLF001
        chat_template_utils._compile_jinja_template = lambda text: ours if text == source else theirs(text)  # noqa: SLF001
        try:
            yield
        finally:
            chat_template_utils._compile_jinja_template = theirs  # noqa: SLF001
