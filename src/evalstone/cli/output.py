"""How commands print: JSON for programs, tables for people, one width for both terminals and files."""

import json
import unicodedata
from typing import Any

import click

json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")
store_option = click.option(
    "--store", metavar="FILE|URL", help="The store (default: EVALSTONE_STORE, or your data folder)."
)


def printable(text: str) -> str:
    """Return text without control characters, which would steer the terminal: codes stand for them; lines stay."""
    return "".join(
        sign if sign in "\n\t" or unicodedata.category(sign) != "Cc" else f"\\x{ord(sign):02x}" for sign in text
    )


def print_json(value: Any) -> None:
    """Print a value as JSON; undefined is null, never NaN."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str, allow_nan=False))


def print_rich(*renderables: Any) -> None:
    """Print tables and text; plain where the output is no terminal."""
    from rich.console import Console

    class OpenConsole(Console):
        """A console that leaves a closed pipe (`| head`) to the door, which ends quietly with the usual code."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = OpenConsole(highlight=False, soft_wrap=False)
    for renderable in renderables:
        console.print(renderable)
