"""How commands print: JSON for programs, tables for people, with the same width in terminals and files."""

import json
import sys

import click

from assaymark.documents.plain_text import escape_unprintable, printable
from assaymark.records.json_values import json_of

WHOLE = 10_000  # columns
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
details_option = click.option(
    "--details",
    is_flag=True,
    help="Also show calibration, baselines, minimum detectable effect and attention path.",
)
store_option = click.option(
    "--store", metavar="FILE|URL", help="Database of stored runs (default: ASSAYMARK_STORE, or your data folder)."
)


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
