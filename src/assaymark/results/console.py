"""Where tables go: the terminal with its colours, or plain text of a width one can set, for pipes and files.

Everything printed goes through `SafeConsole`: strings are text and not rich's markup, and control characters are shown
as escapes, so what a model or a server wrote cannot steer the reader's terminal.
"""

import io
import shutil
import sys
from collections.abc import Iterable
from typing import Any, Self, TextIO

from rich import text as rich_text
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from assaymark import settings
from assaymark.results.plain_text import printable

NARROWEST = 40


class Text(rich_text.Text):
    """Rich's text without control characters, so that columns are measured by what is printed."""

    def __init__(self, text: str = "", *args: Any, **options: Any) -> None:
        super().__init__(printable(text), *args, **options)

    def append(self, text: "str | rich_text.Text", *args: Any, **options: Any) -> Self:
        """Add text at the end; see `rich.text.Text.append`."""
        super().append(printable(text) if isinstance(text, str) else text, *args, **options)
        return self


class SafeConsole(Console):
    """A console that prints what it is given as text.

    A closed pipe (`| head`) raises BrokenPipeError, which the command line ends quietly with the usual code.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"highlight": False, "soft_wrap": False, "markup": False, "emoji": False, **options})

    def on_broken_pipe(self) -> None:
        """Leave it to the caller."""
        raise BrokenPipeError

    def render_str(self, text: str, **options: Any) -> rich_text.Text:
        """Return a string as text, without markup and control characters."""
        return super().render_str(printable(text), **{**options, "emoji": False, "markup": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments; those that are no control sequences of rich's own hold printable text only."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


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
    console = SafeConsole(file=stream, width=table_width(stream))
    for renderable in renderables:
        console.print(renderable)


def as_text(renderable: RenderableType, width: int = 80) -> str:
    """Return the printed text, without colours and without trailing spaces."""
    stream = io.StringIO()
    SafeConsole(file=stream, width=width, color_system=None).print(renderable)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"
