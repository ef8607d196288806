"""The keywords of `evaluate`: those shared with the command line and stored plans, and those for Python callers."""

from collections.abc import Callable
from typing import Annotated, Any

from assaymark.options.option import Option
from assaymark.options.shared import SharedOptions
from assaymark.runner.execute import Observer

__all__ = ["EvaluateOptions"]


class EvaluateOptions(SharedOptions, total=False):
    """The optional keywords of `evaluate`, besides model and tasks. See `SharedOptions` for most of them."""

    tokenizer: Annotated[Any, Option(help="Tokenizer of a loaded model that is not given as a pair.")]
    observe: Annotated[Observer | None, Option(help="Called with the run's progress.", expected="a function")]
    notify: Annotated[
        Callable[[str], None] | None,
        Option(help="Called before any request with a line for each guess or replacement.", expected="a function"),
    ]
    command: Annotated[str | None, Option(help="The command that was typed, stored with the attempt.")]
