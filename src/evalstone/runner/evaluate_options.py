"""The keywords of `evaluate`: what the command line and stored plans share, and what only a Python caller can give."""

from collections.abc import Callable
from typing import Annotated, Any

from evalstone.options.option import Option
from evalstone.options.shared import SharedOptions
from evalstone.runner.execute import Observer

__all__ = ["EvaluateOptions"]


class EvaluateOptions(SharedOptions, total=False):
    """What `evaluate` takes beyond a model and tasks; each may be left out. See `SharedOptions` for most of them."""

    tokenizer: Annotated[Any, Option(help="Of a model that is given loaded, and not as a pair.")]
    observe: Annotated[Observer | None, Option(help="Called with how far the run is.", expected="a function")]
    notify: Annotated[
        Callable[[str], None] | None,
        Option(help="Called, before any request, with what was guessed or replaced.", expected="a function"),
    ]
    command: Annotated[str | None, Option(help="The command that was typed, kept with the attempt.")]
