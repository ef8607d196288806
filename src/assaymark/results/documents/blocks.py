"""The blocks of a report, independent of its format: headings, numbers, tables, figures, examples.

`document` lists the blocks of a report; `html` and `markdown` render each kind of block. So a new section is one
function, and a new format is one file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assaymark.records import JsonValue

Mark = Literal["", "better", "worse"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; level 1 is the report's title."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; `facts` are set in small print, a `verdict` in bold."""

    text: str
    role: Literal["text", "facts", "verdict"] = "text"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; a `warning` limits how far a number can be trusted."""

    items: tuple[str, ...]
    role: Literal["text", "warning", "references"] = "text"


@dataclass(frozen=True, slots=True)
class Tile:
    """One main number: its label, the number, and a line below it."""

    label: str
    value: str
    below: str


@dataclass(frozen=True, slots=True)
class Tiles:
    """The main numbers."""

    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table, with an optional small line below (an interval below its value)."""

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
    """A table whose first `n_text` columns are text and whose others are right-aligned numbers."""

    headers: tuple[str, ...]
    rows: tuple[TableRow, ...]
    n_text: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart, in several parts if it is longer than a page."""

    name: str  # of its file next to a Markdown report
    caption: str
    specs: tuple[Mapping[str, JsonValue], ...]


@dataclass(frozen=True, slots=True)
class ExampleChoice:
    """One choice of an example: its text, its log-likelihood, and whether it was picked or is correct."""

    text: str
    nats: float | None
    is_picked: bool
    is_gold: bool


@dataclass(frozen=True, slots=True)
class Example:
    """One sample that was not answered correctly."""

    title: str
    prompt: str
    choices: tuple[ExampleChoice, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()  # (label, text): answer, reference, reason of a failure


Block = Heading | Paragraph | Bullets | Tiles | Table | Figure | Example
