"""The help of every command begins with command lines to try, and each of them is one."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from assaymark.cli.main import COMMANDS, cli, with_command


def commands_in(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command below a group, groups too, with the words that call it."""
    for name in group.list_commands(click.Context(cli)):
        command = group.get_command(click.Context(cli), name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands_in(command, *path, name)


EVERY = dict(commands_in(cli))


@pytest.mark.parametrize("name", EVERY)
def test_the_examples_of_a_command_are_accepted(name: str) -> None:
    """Each calls the command itself, or one of the group's, with arguments and options that it takes."""
    lines = re.findall(r"^ +assaymark (.+?[^\\\\])$", (EVERY[name].epilog or "").replace("\\\n", ""), re.MULTILINE)
    assert lines
    for line in lines:
        words = with_command(shlex.split(line), list(COMMANDS))
        _, command, rest = cli.resolve_command(click.Context(cli), words)
        while isinstance(command, click.Group):
            _, command, rest = command.resolve_command(click.Context(command), rest)
        assert command is not None
        command.make_context(line, rest)


def test_a_help_begins_with_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """They are above what the command does, each on a line of its own."""
    with pytest.raises(SystemExit):
        cli.main(["compare", "--help"])
    text = capsys.readouterr().out
    assert "\n    assaymark compare RUN_A RUN_B --flips\n" in text
    assert text.index("Usage:") < text.index("Examples:") < text.index("Compare stored runs") < text.index("Options:")
