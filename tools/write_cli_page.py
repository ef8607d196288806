"""Write docs/cli.md from the commands' own help; with --check, fail if the page is not up to date."""

import sys
from pathlib import Path

import click

from assaymark.cli.main import COMMANDS, cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = "# The command line\n\nWritten by `make docs` from the commands themselves.\n"
WIDTH = 100


def page() -> str:
    """Return the page's text."""
    root = _context(cli, "assaymark", None)
    return "\n".join([HEAD, *(section for name in COMMANDS for section in sections(root, name))])


def sections(parent: click.Context, name: str) -> list[str]:
    """Return a command's section, then those of the commands within it."""
    if not isinstance(parent.command, click.Group):
        raise TypeError(f"{parent.command_path} has no commands within it")
    command = parent.command.get_command(parent, name)
    if command is None:
        raise LookupError(name)
    with _context(command, name, parent) as context:
        depth = context.command_path.count(" ")
        title = context.command_path.removeprefix("assaymark ")
        own = f"{'#' * (depth + 1)} {title}\n\n```text\n{command.get_help(context)}\n```\n"
        inner = command.list_commands(context) if isinstance(command, click.Group) else []
        return [own, *(section for each in inner for section in sections(context, each))]


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    names = cli.context_settings["help_option_names"]
    return click.Context(command, parent, name, max_content_width=WIDTH, terminal_width=WIDTH, help_option_names=names)


def main() -> int:
    """Write or check the page."""
    text = page()
    if "--check" in sys.argv:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{PAGE} is out of date; run: make docs")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
