"""What `--help` shows: the usage, command lines to try, what the command does, and its options."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import click

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
