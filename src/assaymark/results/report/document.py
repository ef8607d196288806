"""A report on runs as a document: self-contained HTML, Markdown with its charts in a folder, or a PDF.

All formats are rendered from the same blocks: headline, results, changes, weakest tasks, calibration, examples, a
method section that a paper can quote, and limitations.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from assaymark.documents.blocks import Block, Bullets, Heading, Paragraph
from assaymark.documents.charts import can_draw
from assaymark.documents.html import html_page
from assaymark.documents.markdown import chart_files, markdown_text
from assaymark.documents.numbers import counted
from assaymark.documents.pdf import print_pdf
from assaymark.drafts import write_whole
from assaymark.errors import StoreError, UsageError, install_line
from assaymark.registry import Registry
from assaymark.results.estimate_texts import is_proportion
from assaymark.results.report.contents import ReportContents
from assaymark.results.report.method_text import method_text
from assaymark.results.report.sections import (
    calibration_section,
    change_section,
    headline,
    results_section,
    weakest_section,
)
from assaymark.results.views.cells import leaf_estimates
from assaymark.results.views.details import foot_lines
from assaymark.settings import VERSION

CHARTS_MISSING = f"This report has no charts; to have them, {install_line('charts')}, and write it again."
FOOT = f"Made by Assaymark {VERSION}."
OTHER_SAMPLES_ONLY = (
    "An interval states how much a value would vary over other samples of the same kind. It does not cover other "
    "prompts, other wordings of the answers, or whether the model saw these samples in training."
)
SECTIONS: Registry[Callable[[ReportContents], Sequence[Block]]] = Registry("report_sections", "section of reports")
MOST_FAULTS = 3  # of each benchmark's card
MANY = 10  # number of tasks from which some intervals are expected to miss the true value


def write_document(path: str | Path, contents: ReportContents) -> Path:
    """Write a report in the format of its file ending (.html, .md or .pdf) and return the path.

    Raises: UsageError for another ending, or a PDF without a browser; StoreError if it cannot be written.
    """
    target = Path(path)
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        raise UsageError(f"'{target.name}' ends in '{target.suffix}'; expected .html, .md or .pdf")
    blocks = document_blocks(contents)
    title = f"{', '.join(view.label for view in contents.views)}: evaluation report"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, blocks, title)
    except OSError as error:
        raise StoreError(f"the report cannot be written to {target}: {error}; name another file") from error
    return target


def document_blocks(contents: ReportContents) -> list[Block]:
    """Return the blocks of a report, in their order."""
    method = method_text(contents)
    blocks = [*headline(contents), *results_section(contents.views, contents.claims)]
    if contents.comparison is not None:
        blocks += change_section(contents.comparison)
    blocks += [*weakest_section(contents), *calibration_section(contents.curves)]
    if contents.examples:
        blocks.append(Heading("Examples"))
        for heading, examples in contents.examples:
            blocks += [Heading(heading, 3), *examples]
    for name in SECTIONS:
        blocks += SECTIONS.load(name)(contents)
    blocks += [Heading("Method"), *(Paragraph(text) for text in method.paragraphs)]
    blocks += [Heading("Limitations"), Bullets(tuple(_limits(contents)))]
    blocks += [Heading("References"), Bullets(method.references, "references")]
    return blocks if can_draw() else [*blocks, Paragraph(CHARTS_MISSING, "facts")]


def _limits(contents: ReportContents) -> list[str]:
    """Return the limitations of these numbers, one line each."""
    lines = [OTHER_SAMPLES_ONLY, *foot_lines(contents.views)]
    n_tasks = max(sum(is_proportion(estimate) for estimate in leaf_estimates(view)) for view in contents.views)
    if n_tasks >= MANY:
        lines.append(f"Of {n_tasks} intervals of 95%, about {max(1, round(0.05 * n_tasks))} miss the true value.")
    limits = {row.plan.limit for row in contents.rows if row.plan.limit is not None}
    if limits:
        lines.append(
            "Only the first samples of each task were evaluated. If a data set is sorted, they represent its beginning."
        )
    if any(row.plan.model.kind == "imported" for row in contents.rows):
        lines.append("Imported answers are those of the other tool's files; what these omit is unknown.")
    n_failed = sum(estimate.n_failed for view in contents.views for estimate in leaf_estimates(view))
    if n_failed:
        lines.append(
            f"{counted(n_failed, 'request')} failed and are excluded; values could differ if they had been answered."
        )
    for name, card in contents.cards.items():
        faults = card.get("known_faults")
        lines += [f"{name}: {fault}" for fault in faults[:MOST_FAULTS]] if isinstance(faults, list) else []
    return lines


# --------------------------------------------------------------------------------------------- formats


def _write_html(path: Path, blocks: list[Block], title: str) -> None:
    write_whole(path, html_page(blocks, title, FOOT))


def _write_markdown(path: Path, blocks: list[Block], _title: str) -> None:
    folder = path.with_name(f"{path.stem}_charts")
    if drawn := chart_files(blocks):
        folder.mkdir(exist_ok=True)
    for name, svg in drawn.items():
        write_whole(folder / name, svg)
    write_whole(path, markdown_text(blocks, FOOT, folder.name))


def _write_pdf(path: Path, blocks: list[Block], title: str) -> None:
    print_pdf(html_page(blocks, title, FOOT), path)


_WRITERS: Mapping[str, Callable[[Path, list[Block], str], None]] = {
    ".html": _write_html,
    ".htm": _write_html,
    ".md": _write_markdown,
    ".markdown": _write_markdown,
    ".pdf": _write_pdf,
}
