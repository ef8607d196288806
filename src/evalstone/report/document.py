"""A run as a document: headline, table, what to keep in mind, how it was computed; Markdown or one HTML file.

Both are made of the same sections, and the HTML needs nothing beside itself: no script, no network, intervals drawn as
inline graphics. The method section is text that a paper can quote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from evalstone.errors import StoreError, UsageError
from evalstone.records import Estimate
from evalstone.report.cells import chance_cell, interval_text, metric_cell, value_text
from evalstone.report.compare_tables import comparison_markdown
from evalstone.report.comparison import Comparison
from evalstone.report.composites import composite_lines
from evalstone.report.evidence import RunView
from evalstone.report.layout import Row, leaf_estimates, table_rows
from evalstone.report.numbers import is_proportion
from evalstone.report.tables import foot_lines, note_lines
from evalstone.report.verdict import table_notes

WORST = 5
HEADERS = ("task", "metric", "value", "95% interval", "n", "chance")
BAR = 200  # pixels from 0 to 100 per cent
METHOD = (
    "Shares of right answers are given with 95% Wilson intervals; graded scores with Student's or, where they are "
    "skewed, BCa bootstrap intervals; perplexities with intervals made on the logarithmic scale. Choices that tie for "
    "the best share the credit. Requests that failed are left out and counted; answers that could not be read count "
    "as wrong. Group values are averages over samples (micro) or tasks (macro), as the group defines, with errors to "
    "match. Chance is the mean over samples of one over the number of choices."
)
STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c1c1e}"
    "table{border-collapse:collapse;width:100%;font-size:.92rem}th,td{padding:.25rem .6rem;text-align:right}"
    "th{border-bottom:2px solid #888}td{border-bottom:1px solid #ddd;font-variant-numeric:tabular-nums}"
    "th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}"
    ".note{color:#8a5a00}.facts{color:#555}h1{margin-bottom:0}tr.group td:first-child{font-weight:600}"
    "@media(prefers-color-scheme:dark){body{background:#161618;color:#e8e8ea}td{border-color:#333}.facts{color:#aaa}"
    ".note{color:#e0b050}}"
)


@dataclass(frozen=True, slots=True)
class Document:
    """What a report says, before it is Markdown or HTML."""

    view: RunView
    rows: tuple[Row, ...]
    headline: str
    notes: tuple[str, ...]
    worst: tuple[Estimate, ...]
    comparison: Comparison | None = None


def write_document(path: str | Path, view: RunView, comparison: Comparison | None = None) -> Path:
    """Write a report of a run as its file name says (.html or .md) and return the path.

    Raises: UsageError for another ending; StoreError if it cannot be written.
    """
    place = Path(path)
    document = document_of(view, comparison)
    if place.suffix in {".html", ".htm"}:
        text = as_html(document)
    elif place.suffix in {".md", ".markdown"}:
        text = as_markdown(document)
    else:
        raise UsageError(f"'{place.name}' ends in '{place.suffix}'; expected .html or .md")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"the report cannot be written to {place}: {error}; name another file") from error
    return place


def document_of(view: RunView, comparison: Comparison | None = None) -> Document:
    """Return what a report of this run says."""
    rows = tuple(table_rows([view]))
    return Document(
        view=view,
        rows=rows,
        headline=_headline(rows),
        notes=(*composite_lines([view]), *note_lines(rows, [view]), *foot_lines([view])),
        worst=tuple(_worst(view)),
        comparison=comparison,
    )


def as_markdown(document: Document) -> str:
    """Return the report as Markdown."""
    parts = [f"# {document.view.label}", _facts(document.view), document.headline, "## Results"]
    header = f"| {' | '.join(HEADERS)} |\n| --- | --- | ---: | ---: | ---: | ---: |"
    parts.append("\n".join([header, *(f"| {' | '.join(_cells(row))} |" for row in document.rows)]))
    if document.notes:
        parts.append("\n".join(f"- {note.removeprefix('! ')}" for note in document.notes))
    if document.worst:
        parts.append("## Closest to chance or below")
        parts.append("\n".join(f"- {_worst_line(estimate)}" for estimate in document.worst))
    if document.comparison is not None:
        parts += ["## Comparison", comparison_markdown(document.comparison).rstrip()]
    parts += ["## Method", METHOD]
    return "\n\n".join(parts) + "\n"


def as_html(document: Document) -> str:
    """Return the report as one HTML page."""
    view = document.view
    body = [
        f"<h1>{escape(view.label)}</h1>",
        f'<p class="facts">{escape(_facts(view))}</p>',
        f"<p>{escape(document.headline)}</p>",
        "<h2>Results</h2>",
        f"<table><thead><tr>{''.join(f'<th>{header}</th>' for header in HEADERS)}<th></th></tr></thead><tbody>",
        *(_html_row(row) for row in document.rows),
        "</tbody></table>",
        *(f'<p class="note">{escape(note)}</p>' for note in document.notes),
    ]
    if document.worst:
        items = "".join(f"<li>{escape(_worst_line(estimate))}</li>" for estimate in document.worst)
        body.append(f"<h2>Closest to chance or below</h2><ul>{items}</ul>")
    if document.comparison is not None:
        body.append("<h2>Comparison</h2>")
        for pair in document.comparison.pairs:
            lines = "".join(f"<li>{escape(line)}</li>" for line in (*table_notes(pair), *pair.set_up, *pair.notes))
            body.append(f"<p><strong>{escape(pair.verdict)}</strong></p><ul>{lines}</ul>")
    body.append(f"<h2>Method</h2><p>{escape(METHOD)}</p>")
    title = escape(f"{view.label}: evaluation report")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _headline(rows: Sequence[Row]) -> str:
    """Return the run's main numbers in one sentence: what stands at the top of the table."""
    cells = [(row, row.any_cell) for row in rows if row.is_top and row.metric]
    main = [(row, cell) for row, cell in cells if cell is not None and cell.details.get("primary", True)]
    if not main:
        return "No task has a result."
    shown = [f"{row.label} {value_text(cell)} ({interval_text(cell) or 'no interval'})" for row, cell in main[:6]]
    more = f", and {len(main) - 6} more" if len(main) > 6 else ""
    return "; ".join(shown) + more + "."


def _facts(view: RunView) -> str:
    run = [f"run {view.run_id}"] if view.run_id else []
    return " · ".join([*run, *(value for _, value in view.facts)])


def _cells(row: Row) -> list[str]:
    cell = row.any_cell
    name = "&nbsp;" * 4 * row.depth + row.label if row.is_first else ""
    count = f"{cell.n:,}" if cell is not None else ""
    value = value_text(cell) if row.metric else ""
    return [name, metric_cell(row), value, interval_text(cell), count, chance_cell(cell)]


def _html_row(row: Row) -> str:
    cell = row.any_cell
    name = escape(row.label) if row.is_first else ""
    value = value_text(cell) if row.metric else ""
    count = f"{cell.n:,}" if cell is not None else ""
    shown = [metric_cell(row), value, interval_text(cell), count, chance_cell(cell)]
    group = ' class="group"' if row.is_group else ""
    first = f'<td style="padding-left:{0.6 + 1.2 * row.depth:.1f}rem">{name}</td>'
    return f"<tr{group}>{first}{''.join(f'<td>{escape(text)}</td>' for text in shown)}<td>{_bar(cell)}</td></tr>"


def _bar(cell: Estimate | None) -> str:
    """Return the interval to scale from 0 to 100 per cent, its value as a dot, chance as a tick."""
    if cell is None or cell.value is None or cell.low is None or cell.high is None or not is_proportion(cell):
        return ""
    low, high, value = (BAR * share for share in (cell.low, cell.high, cell.value))
    tick = ""
    if cell.chance is not None:
        at = BAR * cell.chance
        tick = f'<line x1="{at:.1f}" x2="{at:.1f}" y1="1" y2="13" stroke="#999" stroke-dasharray="2"/>'
    label = escape(f"{value_text(cell)}, 95% interval {interval_text(cell)}")
    return (
        f'<svg width="{BAR}" height="14" role="img" aria-label="{label}">'
        f'<line x1="0" x2="{BAR}" y1="7" y2="7" stroke="#ccc"/>{tick}'
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="7" y2="7" stroke="#2a6fdb" stroke-width="4"/>'
        f'<circle cx="{value:.1f}" cy="7" r="4" fill="#2a6fdb"/></svg>'
    )


def _worst(view: RunView) -> list[Estimate]:
    """Return the tasks that are not shown to be above chance, the lowest above chance first."""
    found = [
        estimate
        for estimate in leaf_estimates(view)
        if estimate.chance is not None and estimate.low is not None and estimate.low <= estimate.chance
    ]
    return sorted(found, key=lambda estimate: (estimate.value or 0.0) - (estimate.chance or 0.0))[:WORST]


def _worst_line(estimate: Estimate) -> str:
    name = str(estimate.details.get("alias") or estimate.task)
    return (
        f"{name}: {value_text(estimate)} ({interval_text(estimate)}), chance {chance_cell(estimate)}, n {estimate.n:,}"
    )
