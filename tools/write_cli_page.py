"""Write docs/cli.md from the commands' own help; with --check, fail if the page is not up to date."""

import sys
from pathlib import Path

import click

from evalstone.cli.main import COMMANDS, LazyGroup, cli

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = "# The command line\n\nWritten by `make docs` from the commands themselves.\n"


def page() -> str:
    """Return the page's text."""
    sections = [HEAD]
    context = click.Context(cli, info_name="evalstone", max_content_width=100, terminal_width=100)
    if not isinstance(cli, LazyGroup):
        raise TypeError("the command line's root is a LazyGroup")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is None:
            raise LookupError(name)
        with click.Context(command, info_name=name, parent=context, max_content_width=100, terminal_width=100) as inner:
            sections.append(f"## {name}\n\n```text\n{command.get_help(inner)}\n```\n")
    return "\n".join(sections)


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
