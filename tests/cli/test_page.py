"""The page of the command line has every command and sub-command."""

import click
from tools.write_cli_page import page

from assaymark.cli.main import COMMANDS, cli


def test_every_option_of_every_command_is_on_the_page() -> None:
    """`audit prompts` and `task check` have their sections and options as `run` has."""
    text = page()
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        within = command.commands if isinstance(command, click.Group) else {}
        for inner_name, inner in {"": command, **within}.items():
            title = f"{name} {inner_name}".strip()
            _, _, section = text.partition(f"# {title}\n")
            options = [option for option in inner.params if isinstance(option, click.Option) and not option.hidden]
            missing = [option.opts for option in options if option.opts[0] not in section.partition("\n#")[0]]
            assert section, title
            assert missing == [], title
