"""The help of the commands with most options ends with command lines to try, and each of them is one."""

import re
import shlex

import click
import pytest

from assaymark.cli.main import COMMANDS, cli, with_command


def example_lines(command: str) -> list[str]:
    """Return the command lines at the end of a command's help."""
    result = cli.get_command(click.Context(cli), command)
    assert result is not None
    return re.findall(r"^ +assaymark (.+)$", result.epilog or "", re.MULTILINE)


@pytest.mark.parametrize("command", ["run", "compare", "judge", "audit", "board", "arena"])
def test_the_examples_of_a_command_are_accepted(command: str) -> None:
    """There are at least three, and every option that they name is one of the command's."""
    lines = example_lines(command)
    assert len(lines) >= 3
    for line in lines:
        name, result, rest = cli.resolve_command(click.Context(cli), with_command(shlex.split(line), list(COMMANDS)))
        assert name == command
        if isinstance(result, click.Group):  # `judge RUN` is `judge run RUN`
            result = result.commands[rest[0] if rest[0] in result.commands else "run"]
        assert result is not None
        options = {name for parameter in result.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= options, line


def test_examples_keep_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Each example is on a line of its own in the printed help."""
    with pytest.raises(SystemExit):
        cli.main(["compare", "--help"])
    assert "\n    assaymark compare RUN_A RUN_B --flips\n" in capsys.readouterr().out
