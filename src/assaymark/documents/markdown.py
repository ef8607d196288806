"""A report's blocks as Markdown, with its charts as SVG files in a folder next to it."""

from collections.abc import Sequence

from assaymark.documents.blocks import Block, Bullets, Cell, Example, Figure, Heading, Paragraph, Table, Tiles
from assaymark.documents.charts import to_svg
from assaymark.documents.plain_text import html_text, markdown_inline, printable

INK = "#1c1c1e"
ARROWS = {"": "", "better": " ▲", "worse": " ▼"}
_PAPER = 'style="background:#fff" '  # keeps dark text readable in a viewer with a dark page


def markdown_text(blocks: Sequence[Block], foot: str = "", folder: str = "") -> str:
    """Return the text; `folder` is the folder of its charts, relative to the file; without it they are left out."""
    kept = [block for block in blocks if folder or not isinstance(block, Figure)]
    below = [f"<sub>{html_text(foot)}</sub>"] if foot else []
    return "\n\n".join([*(_block(block, folder) for block in kept), *below]) + "\n"


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
    kept = [index for index, column in enumerate(block.columns) if column.kind != "drawn"]
    lines = [f"| {' | '.join(markdown_inline(block.columns[index].label) for index in kept)} |"]
    lines.append(f"| {' | '.join('---:' if block.columns[index].kind == 'number' else '---' for index in kept)} |")
    return "\n".join([*lines, *(_row([row[index] for index in kept]) for row in block.rows)])


def _row(shown: Sequence[Cell]) -> str:
    texts = (f"{cell.text}{ARROWS[cell.mark]}" + (f" ({cell.below})" if cell.below else "") for cell in shown)
    cells = [markdown_inline(text) for text in texts]
    cells[0] = "&nbsp;" * 4 * shown[0].depth + (f"**{cells[0]}**" if shown[0].role and cells[0] else cells[0])
    return f"| {' | '.join(cells)} |"


def _example(block: Example) -> str:
    lines = [
        f"- {choice.nats} {markdown_inline(choice.text)}" + (f" (**{choice.words}**)" if choice.words else "")
        for choice in block.choices
    ]
    title = f"**{markdown_inline(block.title)}**" + (f" {markdown_inline(block.note)}" if block.note else "")
    prompt = [_verbatim("".join(piece.written for piece in block.prompt))] if block.prompt else []
    parts = [title, *prompt, *(["\n".join(lines)] if lines else [])]
    for what, text in block.lines:
        several = "\n" in text.strip()
        parts += [f"**{what}:**", _verbatim(text.strip())] if several else [f"**{what}:** {markdown_inline(text)}"]
    return "\n\n".join(parts)


def _verbatim(text: str) -> str:
    return "\n".join(f"    {line}" for line in printable(text).splitlines())
