"""A report's blocks as Markdown, with its charts as SVG files in a folder next to it."""

from collections.abc import Sequence

from assaymark.results.documents.blocks import (
    Block,
    Bullets,
    Example,
    Figure,
    Heading,
    Paragraph,
    Table,
    TableRow,
    Tiles,
)
from assaymark.results.documents.charts import to_svg
from assaymark.results.numbers import NOTHING
from assaymark.results.plain_text import html_text, markdown_inline, printable

INK = "#1c1c1e"
_PAPER = 'style="background:#fff" '  # keeps dark text readable in a viewer with a dark page


def markdown_text(blocks: Sequence[Block], foot: str, folder: str) -> str:
    """Return the text; `folder` is the folder of its charts, relative to the file."""
    return "\n\n".join([*(_block(block, folder) for block in blocks), f"<sub>{html_text(foot)}</sub>"]) + "\n"


def chart_files(blocks: Sequence[Block]) -> dict[str, str]:
    """Return the SVG files that the text includes, by name."""
    return {
        name: to_svg(spec, block.caption, ink=INK).replace("<svg ", f"<svg {_PAPER}", 1)
        for block in blocks
        if isinstance(block, Figure)
        for name, spec in zip(_file_names(block), block.specs, strict=True)
    }


def _block(block: Block, folder: str) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {markdown_inline(block.text)}"
        case Paragraph():
            text = markdown_inline(block.text)
            return f"**{text}**" if block.role == "verdict" else text
        case Bullets():
            numbered = block.role == "references"
            items = enumerate(block.items, start=1)
            return "\n".join(f"{f'{number}.' if numbered else '-'} {markdown_inline(item)}" for number, item in items)
        case Tiles():
            return "\n".join(
                f"- {markdown_inline(t.label)}: **{t.value}** {markdown_inline(t.below)}".rstrip() for t in block.tiles
            )
        case Table():
            return _table(block)
        case Figure():
            images = [f"![{markdown_inline(block.caption)}]({folder}/{name})" for name in _file_names(block)]
            return "\n\n".join([*images, f"*{markdown_inline(block.caption)}*"])
        case Example():
            return _example(block)


def _file_names(block: Figure) -> list[str]:
    if len(block.specs) == 1:
        return [f"{block.name}.svg"]
    return [f"{block.name}-{number}.svg" for number in range(1, len(block.specs) + 1)]


def _table(block: Table) -> str:
    lines = [f"| {' | '.join(markdown_inline(header) for header in block.headers)} |"]
    lines.append(f"| {' | '.join('---' if i < block.n_text else '---:' for i in range(len(block.headers)))} |")
    return "\n".join([*lines, *(_row(row) for row in block.rows)])


def _row(row: TableRow) -> str:
    cells = [markdown_inline(f"{cell.text} ({cell.below})" if cell.below else cell.text) for cell in row.cells]
    cells[0] = "&nbsp;" * 4 * row.depth + (f"**{cells[0]}**" if row.is_group and cells[0] else cells[0])
    return f"| {' | '.join(cells)} |"


def _example(block: Example) -> str:
    marked = [
        (" ".join(w for w, is_so in (("picked", c.is_picked), ("right", c.is_gold)) if is_so), c) for c in block.choices
    ]
    lines = [
        f"- {NOTHING if choice.nats is None else format(choice.nats, '.2f')} {markdown_inline(choice.text)}"
        + (f" (**{mark}**)" if mark else "")
        for mark, choice in marked
    ]
    parts = [f"**{markdown_inline(block.title)}**", _verbatim(block.prompt), *(["\n".join(lines)] if lines else [])]
    for what, text in block.lines:
        several = "\n" in text.strip()
        parts += [f"**{what}:**", _verbatim(text.strip())] if several else [f"**{what}:** {markdown_inline(text)}"]
    return "\n\n".join(parts)


def _verbatim(text: str) -> str:
    return "\n".join(f"    {line}" for line in printable(text).splitlines())
