"""Where tables go: the terminal with its colours, or plain text of a width one can set, for pipes and files."""

import io
import shutil
import sys
from typing import TextIO

from rich.console import Console, RenderableType

from evalstone import settings

NARROWEST = 40


def table_width(file: TextIO | None = None) -> int:
    """Return the columns there are: COLUMNS where it is set, else the terminal's, else 80."""
    columns = settings.read("COLUMNS")
    if columns and columns.isdigit():
        return max(NARROWEST, int(columns))
    stream = file or sys.stdout
    return shutil.get_terminal_size((80, 24)).columns if stream.isatty() else 80


def show(*renderables: RenderableType, file: TextIO | None = None) -> None:
    """Print, with colours on a terminal and as plain text elsewhere."""
    stream = file or sys.stdout
    console = Console(file=stream, width=table_width(stream), highlight=False, soft_wrap=False)
    for renderable in renderables:
        console.print(renderable)


def as_text(renderable: RenderableType, width: int = 80) -> str:
    """Return what would be printed, without colours and without trailing spaces."""
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False, color_system=None).print(renderable)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
