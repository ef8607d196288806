"""A report's blocks as one self-contained HTML page: no script, no network access, charts as inline SVG.

The page follows the reader's light or dark setting, and prints in black on white with its colours preserved.
"""

import re
from collections.abc import Sequence

from assaymark.documents.blocks import Block, Bullets, Cell, Column, Example, Figure, Heading, Paragraph, Table, Tiles
from assaymark.documents.charts import to_svg
from assaymark.documents.plain_text import html_text

ARROWS = {"better": " ▲", "worse": " ▼"}
CHANGES = {"": "", "removed": "del", "added": "ins", "changed": "mark"}


DEEPEST = 4  # of indentation
SHORT = 14  # rows up to which a table is not split between pages
STYLE = """
:root{--paper:#fff;--ink:#1c1c1e;--soft:#5a5a60;--line:#d8d8dc;--panel:#f5f5f7;--good:#00684b;--bad:#a84700;--warn:#7a4f00}
@media(prefers-color-scheme:dark){:root{--paper:#161618;--ink:#e8e8ea;--soft:#a6a6ad;--line:#38383d;--panel:#202024;
--good:#3fcf9f;--bad:#ff9a57;--warn:#e3b04b}}
*{box-sizing:border-box}
body{font:15px/1.55 system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,sans-serif;max-width:60rem;margin:0 auto;
padding:2rem 1.25rem 4rem;background:var(--paper);color:var(--ink);overflow-wrap:break-word}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .35rem}h2{font-size:1.25rem;margin:2.4rem 0 .6rem;padding-top:.5rem;
border-top:1px solid var(--line)}h3{font-size:1.02rem;margin:1.5rem 0 .4rem}
h2+h3{margin-top:.3rem}p{margin:.5rem 0}
.facts,figcaption,.below{color:var(--soft)}.facts{font-size:.87rem;margin:.1rem 0}
.verdict{font-weight:600;font-size:1.05rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(11.5rem,1fr));gap:.7rem;margin:1.2rem 0}
.tile{background:var(--panel);border-radius:.6rem;padding:.7rem .9rem}.tile b{display:block;font-size:1.65rem;
line-height:1.25;font-variant-numeric:tabular-nums}.tile span{display:block;font-size:.84rem}
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem;line-height:1.35}
th,td{padding:.32rem .55rem;text-align:right;vertical-align:top;font-variant-numeric:tabular-nums;white-space:nowrap}
th{border-bottom:1.5px solid var(--ink);font-weight:600;vertical-align:bottom;white-space:normal;min-width:3.2rem}
td,tbody th{border-bottom:1px solid var(--line)}.t{text-align:left;white-space:normal;min-width:6rem}
tbody th{font-weight:400;vertical-align:top}tr.group th{font-weight:600}
.depth1>:first-child{padding-left:1.65rem}.depth2>:first-child{padding-left:2.75rem}
.depth3>:first-child{padding-left:3.85rem}.depth4>:first-child{padding-left:4.95rem}
.below{display:block;font-size:.82rem}
.better{color:var(--good)}.worse{color:var(--bad)}
ul{padding-left:1.2rem;margin:.5rem 0}li{margin:.2rem 0}ul.warning{list-style:none;padding:0}
ul.warning li{border-left:3px solid var(--warn);padding:.05rem 0 .05rem .7rem;margin:.45rem 0}
ol.references{font-size:.87rem;padding-left:1.6rem}
figure{margin:1rem 0 1.6rem}figure svg{max-width:100%;height:auto;display:block}
figcaption{font-size:.87rem;margin-top:.35rem}
.example{background:var(--panel);border-radius:.6rem;padding:.75rem .95rem;margin:.8rem 0}
.example h4{margin:0 0 .35rem;font-size:.92rem}
.example pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0 .5rem;
font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace}
.example td{border:0;padding:.12rem .6rem .12rem 0}.example table{width:auto;font-size:.86rem}
footer{margin-top:2.5rem;font-size:.82rem;color:var(--soft)}
@page{size:A4;margin:16mm 15mm}
@media print{:root{--paper:#fff;--ink:#111;--soft:#4a4a50;--line:#cfcfd4;--panel:#f3f3f5;--good:#00684b;--bad:#a84700;
--warn:#7a4f00}body{max-width:none;padding:0;font-size:9.5pt;-webkit-print-color-adjust:exact;print-color-adjust:exact}
h2~h2{break-before:page}h2,h3,h4{break-after:avoid}tr,.tile,.example,.short,figure>svg{break-inside:avoid}thead{display:table-header-group}
.wide{overflow:visible}table{font-size:8.5pt}th,td{padding:.22rem .35rem}}
"""


def html_page(blocks: Sequence[Block], title: str, foot: str) -> str:
    """Return the page."""
    body = html_blocks(blocks)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html_text(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{STYLE}</style></head>\n<body>\n<main>\n{body}\n</main>\n<footer>{html_text(foot)}</footer>\n</body></html>\n"
    )


def html_blocks(blocks: Sequence[Block], title: str = "") -> str:
    """Return blocks as elements without a page around them; every text is escaped.

    A table has the name of the heading above it, or of `title`, which is above the first heading.
    """
    shown = []
    for block in blocks:
        title = block.text if isinstance(block, Heading) else title
        shown.append(_block(block, title))
    return "\n".join(shown)


def _block(block: Block, title: str) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{html_text(block.text)}</h{block.level}>"
        case Paragraph():
            return f'<p class="{block.role}">{html_text(block.text)}</p>'
        case Bullets():
            tag = "ol" if block.role == "references" else "ul"
            items = "".join(f"<li>{html_text(item)}</li>" for item in block.items)
            return f'<{tag} class="{block.role}">{items}</{tag}>'
        case Tiles():
            return _tiles(block)
        case Table():
            return _table(block, title)
        case Figure():
            return _figure(block)
        case Example():
            return _example(block)


def _tiles(block: Tiles) -> str:
    tiles = [
        f'<div class="tile"><span>{html_text(tile.label)}</span><b>{html_text(tile.value)}</b>'
        f'<span class="below">{html_text(tile.below)}</span></div>'
        for tile in block.tiles
    ]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _table(block: Table, title: str) -> str:
    kept = [index for index, column in enumerate(block.columns) if column.kind != "drawn"]
    kinds = [_class(block.columns[index]) for index in kept]
    head = "".join(
        f'<th scope="col"{kind}{_title(block.columns[index].help)}>{_breakable(block.columns[index].label)}</th>'
        for index, kind in zip(kept, kinds, strict=True)
    )
    is_named = len(kept) > 1 and block.columns[kept[0]].kind in ("text", "name")
    rows = "".join(_row([row[index] for index in kept], kinds, is_named=is_named) for row in block.rows)
    short = " short" if len(block.rows) <= SHORT else ""
    shown = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    name = f' role="region" aria-label="{html_text(title)}"' if title else ""
    return f'<div class="wide{short}" tabindex="0"{name}>{shown}</div>'


def _title(text: str) -> str:
    return f' title="{html_text(text)}"' if text else ""


def _class(column: Column) -> str:
    return _classes("t" if column.kind == "text" else "", "extra" if column.is_extra else "")


def _classes(*names: str) -> str:
    given = " ".join(filter(None, names))
    return f' class="{given}"' if given else ""


def _row(cells: Sequence[Cell], kinds: Sequence[str], *, is_named: bool) -> str:
    depth = min(cells[0].depth, DEEPEST)
    names = _classes("group" if cells[0].role else "", f"depth{depth}" if depth else "")
    first, *others = zip(kinds, cells, strict=True)
    start, end = ('<th scope="row"', "</th>") if is_named else ("<td", "</td>")
    shown = [f"{start}{first[0]}>{_cell(first[1], is_name=True)}{end}"]
    shown += [f"<td{kind}>{_cell(cell, is_name=False)}</td>" for kind, cell in others]
    return f"<tr{names}>{''.join(shown)}</tr>"


def _cell(cell: Cell, *, is_name: bool) -> str:
    text = _breakable(cell.text) if is_name else html_text(cell.text)
    marked = f'<span class="{cell.mark}">{text}{ARROWS[cell.mark]}</span>' if cell.mark else text
    return marked + (f'<span class="below">{html_text(cell.below)}</span>' if cell.below else "")


def _breakable(name: str) -> str:
    """Return a name that a narrow column may break after a dash, a dot, a slash or an underscore."""
    return re.sub(r"([_/\-.]+)", r"\1<wbr>", html_text(name))


def _figure(block: Figure) -> str:
    drawn = "\n".join(to_svg(spec, block.caption) for spec in block.specs)
    return f"<figure>{drawn}<figcaption>{html_text(block.caption)}</figcaption></figure>"


def _example(block: Example) -> str:
    rows = [
        f'<tr><td class="t">{_choice_mark(choice.is_picked, choice.is_gold)}</td>'
        f"<td>{html_text(choice.nats)}</td>"
        f'<td class="t">{html_text(choice.text)}</td></tr>'
        for choice in block.choices
    ]
    table = f"<table><tbody>{''.join(rows)}</tbody></table>" if rows else ""
    lines = "".join(_line(what, text) for what, text in block.lines)
    note = f' <span class="{block.mark or "facts"}">{html_text(block.note)}</span>' if block.note else ""
    pieces = "".join(f"<{tag}>{text}</{tag}>" if tag else text for tag, text in
                     ((CHANGES[piece.change], html_text(piece.text)) for piece in block.prompt))  # fmt: skip
    prompt = f"<pre>{pieces}</pre>" if pieces else ""
    return f'<section class="example"><h4>{html_text(block.title)}{note}</h4>{prompt}{table}{lines}</section>'


def _line(what: str, text: str) -> str:
    """Return a labelled text of an example; a text of several lines keeps its line breaks."""
    if "\n" in text.strip():
        return f"<p><b>{html_text(what)}:</b></p><pre>{html_text(text.strip())}</pre>"
    return f"<p><b>{html_text(what)}:</b> {html_text(text)}</p>"


def _choice_mark(is_picked: bool, is_gold: bool) -> str:
    marks = ['<span class="worse">picked</span>'] if is_picked and not is_gold else ["picked"] if is_picked else []
    marks += ['<span class="better">right</span>'] if is_gold else []
    return " ".join(marks)
