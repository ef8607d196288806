"""Documents in a terminal with its colours, or as plain text of a width one can set, for pipes and files.

Everything printed goes through `SafeConsole`: strings are text and not rich's markup, and control characters are shown
as escapes, so what a model or a server wrote cannot steer the reader's terminal.
"""

import io
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import IO, Any, Literal, Self, TextIO

from rich import box
from rich import text as rich_text
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Column as RichColumn
from rich.table import Table as RichTable

from assaymark import settings
from assaymark.documents.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Drawn,
    Example,
    Figure,
    Heading,
    Paragraph,
    Table,
    Tile,
    Tiles,
)
from assaymark.documents.plain_text import printable, shortened_apart

NARROWEST = 40


class Text(rich_text.Text):
    """Rich's text without control characters, so that columns are measured as printed."""

    def __init__(self, text: str = "", style: str | Style = "") -> None:
        super().__init__(printable(text), style)

    def append(self, text: "str | rich_text.Text", style: str | Style | None = None) -> Self:
        """Add text at the end; see `rich.text.Text.append`."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


class SafeConsole(Console):
    """A console that prints what it is given as text.

    A closed pipe (`| head`) raises BrokenPipeError, which the command line ends quietly with the usual code.
    """

    def __init__(
        self, file: IO[str] | None = None, width: int | None = None, color_system: Literal["auto"] | None = "auto"
    ) -> None:
        super().__init__(
            file=file, width=width, color_system=color_system,
            highlight=False, soft_wrap=False, markup=False, emoji=False,
        )  # fmt: skip

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


LEAST_FOLDED = 18  # columns
WIDEST = 10_000


class Sized:
    """A renderable that is drawn when the width is known, so that the caller need not know it."""

    def __init__(self, draw: Callable[[int], RenderableType]) -> None:
        self.draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.draw(options.max_width)


class _PlainTable(RichTable):
    """A table that cuts nothing: columns that do not fit go into further tables below, beside the first columns again.

    The first columns are those before the first right-aligned one: they name the rows. Text that may be folded gets
    at least `LEAST_FOLDED` columns.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        def least(column: RichColumn) -> int:
            size = self._measure_column(console, options.update(width=WIDEST), column)
            return size.maximum if column.no_wrap else max(size.minimum if column.overflow != "fold" else 0,
                                                           min(size.maximum, LEAST_FOLDED))  # fmt: skip

        sizes = [least(column) + 1 for column in self.columns]  # with the gap that the box draws
        n_names = next((i for i, column in enumerate(self.columns) if column.justify == "right" and i), len(sizes))
        free = options.max_width + 1 - sum(sizes[:n_names])
        blocks: list[list[int]] = [[]]
        for index in range(n_names, len(sizes)):
            if blocks[-1] and sum(sizes[i] for i in blocks[-1]) + sizes[index] > free:
                blocks.append([])
            blocks[-1].append(index)
        if len(blocks) == 1:
            yield from super().__rich_console__(console, options)
            return
        for number, block in enumerate(blocks):
            part = copy(self)
            kept = [*range(n_names), *block]
            part.columns = [replace(self.columns[i], _index=place) for place, i in enumerate(kept)]
            if number:
                yield Text()
            yield from RichTable.__rich_console__(part, console, options)


def _plain_table() -> RichTable:
    """Return an empty table in the common style: a rule under the header, two spaces between columns."""
    return _PlainTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")


ROLES = {"text": "", "facts": "dim", "verdict": "bold", "warning": "yellow"}
CHANGES = {"": "dim", "removed": "red", "added": "green", "changed": "bold underline yellow"}
MARKS = {"": ("", ""), "better": (" ▲", "green"), "worse": (" ▼", "red")}
DRAWN_WIDTHS = (8, 40)  # columns of a drawn interval
LONGEST_HEADER = 12  # of a column with a short label
SHORTEST_NAME = 8  # columns
MIN_NAME = 15  # columns that a name gets at least before it is broken at its underscores
GAP = 2  # between columns
NOTE_INDENT = 2  # of what is below a name


def rendered(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    """Yield each block as rich prints it: with an empty line before headings, verdicts, and tables below text."""
    last: Block | None = None
    for block in blocks:
        if isinstance(block, Figure):  # its numbers are in the table beside it
            continue
        match block:
            case Heading() | Paragraph(role="verdict") | Example():
                is_apart = last is not None
            case Table():
                is_apart = last is not None and not isinstance(last, Heading)
            case _:
                is_apart = False
        yield Padding(_block(block), (int(is_apart), 1, 0, 1))
        last = block


def _block(block: Block) -> RenderableType:
    match block:
        case Heading():
            return Text(block.text, style="bold")
        case Paragraph():
            return Text(block.text, style=ROLES[block.role])
        case Bullets():
            start, style = ("! ", "yellow") if block.role == "warning" else ("- ", "")
            return Group(*(Text(start + item, style=style) for item in block.items))
        case Tiles():
            return Group(*(_tile(tile) for tile in block.tiles))
        case Table():
            return Sized(lambda width: _table(block, width))
        case Example():
            return _example(block)
        case Figure():
            return Text(block.caption, style="dim")


def _tile(tile: Tile) -> Text:
    text = Text(f"{tile.label}: ").append(tile.value, style="bold")
    return text.append(f"  {tile.below}", style="dim") if tile.below else text


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a table is laid out: the columns that are shown, their labels, and the columns of the terminal they have.

    name: of the names, where they are the one column of text. is_whole: whether these fit. beside: of each note that is
    beside its number; 0: below.
    """

    shown: list[int]
    columns: list[Column]
    legend: str
    name: int
    is_whole: bool
    drawn: int
    beside: list[int]
    marked: list[bool]  # columns in which a number without an arrow leaves the place of one


def _layout(block: Table, width: int) -> _Layout:
    columns, legend = _labelled(block.columns)
    cells = [[row[index] for row in block.rows] for index in range(len(columns))]
    sizes = [_size(column, cells[index], is_first=index == 0) for index, column in enumerate(columns)]
    shown = [index for index, column in enumerate(columns) if column.kind != "drawn"]
    for index in [index for index in shown if columns[index].is_extra]:
        if sum(sizes[each] + GAP for each in shown) - GAP > width:
            shown.remove(index)
    free = width - sum(sizes[index] + GAP for index in shown)
    names = [index for index in shown if columns[index].kind == "text"] == [0]
    drawn = min(DRAWN_WIDTHS[1], free)
    if drawn >= DRAWN_WIDTHS[0]:
        shown = [index for index, column in enumerate(columns) if index in shown or column.kind == "drawn"]
    notes = [
        max([0, *(len(cell.below) for cell in own)]) if column.kind == "number" else 0
        for column, own in zip(columns, cells, strict=True)
    ]
    one_line = 0
    for index in shown:
        column, numbers = columns[index], [len(cell.text) for cell in cells[index]]
        if notes[index]:
            one_line += max(len(column.label), *numbers, 0) + 1 + notes[index] + GAP
        else:
            one_line += (min(sizes[index], LEAST_FOLDED) if index and column.kind == "text" else sizes[index]) + GAP
    beside = notes if one_line - GAP <= width else [0] * len(columns)
    marked = [any(cell.mark for cell in own) for own in cells]
    name = max(MIN_NAME, sizes[0] + free + GAP) if names else WIDEST
    return _Layout(shown, columns, legend, name, names and sizes[0] <= name, drawn, beside, marked)


def _table(block: Table, width: int) -> RenderableType:
    """Return a table: text is folded, numbers are whole, and intervals are drawn in the columns that are left."""
    block = _with_short_names(block, width)
    layout = _layout(block, width)
    drawing = _plain_table()
    for index in layout.shown:
        column = layout.columns[index]
        if column.kind == "drawn":
            ends = f"{column.scale[2]}{column.scale[3]:>{layout.drawn - len(column.scale[2])}}"
            drawing.add_column(ends, no_wrap=True)
        elif column.kind in {"text", "name"}:
            drawing.add_column(column.label, overflow="fold", no_wrap=layout.is_whole or column.kind == "name")
        else:
            drawing.add_column(column.label, justify="right", no_wrap=True)
    for number, row in enumerate(block.rows):
        is_before_total = number + 1 < len(block.rows) and block.rows[number + 1][0].role == "total"
        drawing.add_row(*(_cell(row[index], index, layout) for index in layout.shown), end_section=is_before_total)
    return Group(Text(layout.legend), drawing) if layout.legend else drawing


def _with_short_names(block: Table, width: int) -> Table:
    """Return the table with its names shortened to the room that the other columns leave, the longest ones first."""
    columns = list(zip(block.columns, zip(*block.rows, strict=True), strict=True)) if block.rows else []
    sizes = {index: _size(column, cells, is_first=index == 0) for index, (column, cells) in enumerate(columns)}
    names = [index for index, (column, _) in enumerate(columns) if column.kind == "name"]
    free = width - GAP * (len(columns) - 1) - sum(size for index, size in sizes.items() if index not in names)
    rows = [list(row) for row in block.rows]
    for n_before, index in enumerate(sorted(names, key=sizes.__getitem__)):
        longest = min(sizes[index], max(SHORTEST_NAME, free // (len(names) - n_before)))
        free -= longest
        short = shortened_apart({row[index].text for row in rows}, longest)
        for row in rows:
            row[index] = replace(row[index], text=short[row[index].text])
    return replace(block, rows=tuple(map(tuple, rows)))


def _labelled(columns: Sequence[Column]) -> tuple[list[Column], str]:
    """Return the columns, with letters for names that are too long, and the meanings of the letters."""
    if not any(column.short and len(column.label) > LONGEST_HEADER for column in columns):
        return list(columns), ""
    legend = ", ".join(f"{column.short} {column.label}" for column in columns if column.short)
    return [replace(column, label=column.short or column.label) for column in columns], legend


def _size(column: Column, cells: Sequence[Cell], *, is_first: bool) -> int:
    """Return the columns of the terminal that a column takes, with its notes below."""
    indent = NOTE_INDENT if is_first and column.kind == "text" else 0
    lines = [column.label]
    for cell in cells:
        arrow, _ = MARKS[cell.mark]
        lines += [" " * 2 * cell.depth + cell.text + arrow, " " * (2 * cell.depth + indent) + cell.below]
    return max(len(line) for text in lines for line in text.split("\n"))


def _cell(cell: Cell, index: int, layout: _Layout) -> Text:
    """Return a cell; a name that is wider than its column is broken at its underscores."""
    column = layout.columns[index]
    if column.kind == "drawn":
        return _strip(cell.drawn, column.scale, layout.drawn)
    arrow, style = MARKS[cell.mark]
    arrow = arrow or "  " * layout.marked[index]
    indent = "  " * cell.depth
    name = indent + cell.text
    broken = _broken(name, layout.name) if index == 0 and len(name) > layout.name else name
    text = Text(broken + arrow, style="bold" if cell.role or column.is_main else style)
    if beside := layout.beside[index]:
        return text.append(f" {cell.below:>{beside}}", style="not bold dim")
    if not cell.below:
        return text
    start = indent + " " * NOTE_INDENT if index == 0 and column.kind == "text" else ""
    return text.append(f"\n{start}{cell.below}", style="not bold dim")


def _broken(name: str, width: int) -> str:
    rows = [""]
    for piece in re.findall(r"[^_\-/ ]*[_\-/ ]?", name):
        if rows[-1].strip() and len(rows[-1]) + len(piece.rstrip()) > width:
            rows.append("  ")
        rows[-1] += piece
    return "\n".join(row.rstrip() for row in rows)


def _strip(drawn: Drawn | None, scale: tuple[float, float, str, str], width: int) -> Text:
    """Draw an interval as a bar on the scale, the value as a point, and the reference value as a thin mark."""
    if drawn is None:
        return Text("")
    least, most, *_ = scale

    def at(value: float) -> int:
        return min(width - 1, max(0, int((value - least) / (most - least) * width))) if most > least else 0

    marks = ["·"] * width
    if drawn.low is not None and drawn.high is not None:
        marks[at(drawn.low) : at(drawn.high) + 1] = "━" * (at(drawn.high) + 1 - at(drawn.low))
    if drawn.beside is not None:
        marks[at(drawn.beside)] = "┆" if marks[at(drawn.beside)] == "·" else "╂"
    marks[at(drawn.value)] = "●"
    return Text("".join(marks))


def _example(block: Example) -> RenderableType:
    title = Text(block.title, style="bold")
    if block.note:
        title.append(f"  {block.note}", style=f"not bold {MARKS[block.mark][1] or 'dim'}")
    parts: list[RenderableType] = []
    if block.prompt:
        prompt = Text()
        for piece in block.prompt:
            prompt.append(piece.written, style=CHANGES[piece.change])
        parts.append(prompt)
    if block.choices:
        table = _plain_table()
        table.show_header = False
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(overflow="fold")
        for choice in block.choices:
            style = MARKS[choice.mark][1]
            table.add_row(Text(choice.words, style), Text(choice.nats, "dim"), Text(choice.text, style))
        parts.append(table)
    parts += [Text(f"{what}: ", style="bold").append(text, style="not bold") for what, text in block.lines]
    return Group(title, *(Padding(part, (0, 0, 0, NOTE_INDENT)) for part in parts))
