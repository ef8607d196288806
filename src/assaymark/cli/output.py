"""What commands share: help that begins with examples, options, and how they print.

They print JSON for programs and tables for people, with the same width in terminals and files.
"""

import json
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

import click

from assaymark.documents.plain_text import escape_unprintable, printable
from assaymark.records.json_values import json_of

WHOLE = 10_000  # columns
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
details_option = click.option(
    "--details", is_flag=True, help="Also show calibration, baselines, minimum detectable effect and attention path."
)
store_option = click.option(
    "--store", metavar="FILE|URL", help="Database of stored runs (default: ASSAYMARK_STORE, or your data folder)."
)
F = TypeVar("F", bound=Callable[..., object])


class OptionDecorator(Protocol):
    """The type of the decorators that `click.option` returns."""

    def __call__(self, function: F, /) -> F:
        """Return the command, or the function that will be one, with the option added."""


def with_options(*options: OptionDecorator) -> OptionDecorator:
    """Return a decorator that adds several options, which the command's help lists in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def examples(*lines: str) -> str:
    """Return a command's `epilog`: command lines to try, one on each line."""
    return "\b\nExamples:\n" + "\n".join(f"  assaymark {line}" for line in lines)


class Command(click.Command):
    """A command whose help begins with its examples, and whose errors name that help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. Raises: click.UsageError, with the context that click's parser leaves out."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help into the formatter."""
        self.format_usage(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)


class Group(Command, click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type


def echo(*lines: str, err: bool = False, nl: bool = True) -> None:
    """Print lines of text; control characters are shown as escapes, so that they cannot control the terminal."""
    for line in lines:
        click.echo(printable(line), err=err, nl=nl)


def print_json(value: object) -> None:
    """Print a value as JSON (see `json_of`); unprintable characters are escaped."""
    content = json_of(value)
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:  # JSON's own escapes: the stream's backslash escapes are not JSON
        text = json.dumps(content, indent=2, allow_nan=False)
    click.echo(escape_unprintable(text, lambda code: f"\\u{code:04x}"))


def print_result(value: object, shown: Callable[[], object], *, as_json: bool) -> None:
    """Print a value as JSON, or what `shown` returns of it: a text as it is, a document with styles."""
    if as_json:
        print_json(value)
    elif isinstance(result := shown(), str):
        echo(result)
    else:
        print_rich(result)


def print_rich(*renderables: object) -> None:
    """Print tables and text, without styles if the output is not a terminal.

    Where it is a file or a pipe, nothing is folded or shortened, unless COLUMNS is set.
    """
    from assaymark.documents.terminal import SafeConsole
    from assaymark.settings import read

    is_whole = not sys.stdout.isatty() and not read("COLUMNS")
    console = SafeConsole(width=WHOLE if is_whole else None)
    if not is_whole:
        for renderable in renderables:
            console.print(renderable)
        return
    # without the spaces that fill each line; click.echo would ignore the escapes of `streams`
    with console.capture() as captured:
        for renderable in renderables:
            console.print(renderable)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")
