"""What a report is made of, before it is HTML, Markdown or paper: headings, numbers, tables, figures, examples.

`document` says what a report holds by listing blocks; `blocks_html` and `blocks_markdown` say how each looks. So a new
section is one function, and a new format is one file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from evalstone.records import JsonValue

__all__ = ["Block", "Bullets", "Cell", "Choice", "Example", "Figure", "Heading", "Mark", "Paragraph", "Table",
           "TableRow", "Tile", "Tiles"]  # fmt: skip


Mark = Literal["", "better", "worse"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the report's title."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; facts are small print, a verdict stands out."""

    text: str
    role: Literal["text", "facts", "verdict"] = "text"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; warnings are what a reader must know before trusting a number."""

    items: tuple[str, ...]
    role: Literal["text", "warning", "references"] = "text"


@dataclass(frozen=True, slots=True)
class Tile:
    """One main number: what it is of, the number, and what goes with it."""

    label: str
    value: str
    below: str


@dataclass(frozen=True, slots=True)
class Tiles:
    """The main numbers."""

    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table, with a small line under it (an interval under its value)."""

    text: str
    below: str = ""
    mark: Mark = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row; the first cell is indented by its depth."""

    cells: tuple[Cell, ...]
    depth: int = 0
    is_group: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first columns are text and whose others are numbers, set flush right."""

    headers: tuple[str, ...]
    rows: tuple[TableRow, ...]
    n_text: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, in parts where it is longer than a sheet."""

    name: str  # of its file beside a Markdown report
    caption: str
    specs: tuple[Mapping[str, JsonValue], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of an example: its text, its log-likelihood, and whether it was picked or is right."""

    text: str
    nats: float | None
    is_picked: bool
    is_gold: bool


@dataclass(frozen=True, slots=True)
class Example:
    """One sample that was not answered rightly."""

    title: str
    prompt: str
    choices: tuple[Choice, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()  # what came, what was expected, why it failed


Block = Heading | Paragraph | Bullets | Tiles | Table | Figure | Example
