"""A result as people read it: headings, text, main numbers, tables, figures, examples, without colours, widths or tags.

A feature states its result once, as a function from its record to a `Document`, beside the rules that made the record.
The writers show it: `terminal`, `html` and `markdown`. So a new section is one function, and a new format is one file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    role: Literal["text", "facts", "verdict", "warning"] = "text"


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
class Drawn:
    """A value on the scale of its column, with the ends of its interval and a reference value, such as chance."""

    value: float
    low: float | None = None
    high: float | None = None
    beside: float | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table, with an optional small line: an interval beside or below its value, a note below a name.

    Of a row's first cell, depth: how far it is indented; role: whether rows below belong to it, or it sums those above.
    """

    text: str
    below: str = ""
    mark: Mark = ""
    drawn: Drawn | None = None
    depth: int = 0
    role: Literal["", "group", "total"] = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of text, of names, of numbers, or of intervals drawn on a scale, which only a terminal shows.

    A name is one line: where there is no space a terminal shortens it, so that different names stay different.

    short: a letter for where the label, a name, is too long. help: what the numbers are. is_extra: left out where there
    is no space. is_main: the numbers that the table is about. scale: the ends of a drawn column, with their labels.
    """

    label: str
    kind: Literal["text", "name", "number", "drawn"] = "number"
    short: str = ""
    help: str = ""
    is_extra: bool = False
    is_main: bool = False
    scale: tuple[float, float, str, str] = (0.0, 1.0, "0%", "100%")


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its rows have a cell for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


Cells = Sequence[str | Cell]


def table(columns: Iterable[str | Column], rows: Iterable[Cells], *, n_text: int = 1) -> Table:
    """Return a table whose first `n_text` columns are text and the others numbers, unless a column states its kind."""
    kept = tuple(
        each if isinstance(each, Column) else Column(each, "text" if index < n_text else "number")
        for index, each in enumerate(columns)
    )
    return Table(kept, tuple(tuple(each if isinstance(each, Cell) else Cell(each) for each in row) for row in rows))


@dataclass(frozen=True)
class Figure:
    """A chart, in several parts if it is longer than a page; it is drawn by the writers that show it."""

    name: str  # of its file next to a Markdown report
    caption: str
    draw: Callable[[], Sequence[Mapping[str, JsonValue]]]

    @cached_property
    def specs(self) -> tuple[Mapping[str, JsonValue], ...]:
        """The parts, as Vega-Lite. Raises: MissingExtra without the extra `charts`."""
        return tuple(self.draw())


@dataclass(frozen=True, slots=True)
class ExampleChoice:
    """One choice of an example: its text, its log-likelihood, and whether it was picked or is correct."""

    text: str
    nats: str
    is_picked: bool
    is_gold: bool

    @property
    def words(self) -> str:
        """A description in words."""
        return " ".join(word for word, is_so in (("picked", self.is_picked), ("right", self.is_gold)) if is_so)

    @property
    def mark(self) -> Mark:
        """Better: the right one; worse: another one was picked."""
        return "better" if self.is_gold else "worse" if self.is_picked else ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text beside another: in both, in the first, in the second; changed: where the first is not shown."""

    text: str
    change: Literal["", "removed", "added", "changed"] = ""

    @property
    def written(self) -> str:
        """The piece where there are no colours: `[-removed-]`, `{+added+}`."""
        start, end = {"removed": ("[-", "-]"), "added": ("{+", "+}")}.get(self.change, ("", ""))
        return f"{start}{self.text}{end}"


@dataclass(frozen=True, slots=True)
class Example:
    """One sample: its prompt and outcome. mark: of the note, which stands beside the title."""

    title: str
    prompt: tuple[Piece, ...] = ()
    choices: tuple[ExampleChoice, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()  # (label, text): answer, reference, reason of a failure
    note: str = ""
    mark: Mark = ""


Block = Heading | Paragraph | Bullets | Tiles | Table | Figure | Example
