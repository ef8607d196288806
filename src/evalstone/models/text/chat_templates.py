"""Chat templates, rendered by transformers within the limits of all templates.

transformers compiles a template and calls its `render`. For the time of a call it is handed another object: the same
template, compiled in an environment like its own in which loops end and texts stay small (`limits.templates`). So all
that transformers does around it, and what templates find in their environment, stays as it is. The template is not
compiled by transformers at all: compiling computes constants, and `"x" * 10**10` is one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from evalstone.limits.templates import bounded, bounded_render

__all__ = ["within_limits"]

_lock = threading.Lock()  # two threads must not restore each other's function


class _Compiled:
    """What transformers takes for a compiled template."""

    def __init__(self, rendered: Callable[[Any], str]) -> None:
        self._rendered = rendered

    def render(self, *args: Any, **kwargs: Any) -> str:
        """Return the text; variables as in Jinja."""
        return self._rendered(dict(*args, **kwargs))


@lru_cache(maxsize=64)
def _compiled(source: str) -> _Compiled:
    from transformers.utils import chat_template_utils

    environment = chat_template_utils._compile_jinja_template("").environment  # noqa: SLF001 - none is public
    return _Compiled(bounded_render(bounded(environment), source))


@contextmanager
def within_limits(source: str) -> Iterator[None]:
    """Bound the template of this source while the block lasts.

    Raises: TemplateSyntaxError or TemplateTooLarge for one that does not compile.
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
