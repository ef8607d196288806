"""A report on runs as a document: self-contained HTML, Markdown with its charts in a folder, or a PDF.

All formats are rendered from the same blocks: headline, results, changes, weakest tasks, calibration, examples, a
method section that a paper can quote, and limitations.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from assaymark.documents.blocks import Block, Bullets, Figure, Heading, Paragraph, Tile, Tiles, table
from assaymark.documents.charts import ClaimPoint, calibration_chart, can_draw, interval_charts
from assaymark.documents.html import html_page
from assaymark.documents.markdown import chart_files, markdown_text
from assaymark.documents.numbers import counted, shown_interval, shown_p, shown_value
from assaymark.documents.pdf import print_pdf
from assaymark.drafts import write_whole
from assaymark.errors import UsageError, install_line, write_errors
from assaymark.records import Estimate
from assaymark.registry import Registry
from assaymark.results.comparison.document import pair_blocks, ranks_blocks
from assaymark.results.comparison.records import Comparison, Difference, PairComparison
from assaymark.results.comparison.verdict import shown_gain, shown_interval_of
from assaymark.results.estimate_texts import chance_cell, interval_text, is_proportion, shown_count
from assaymark.results.evidence.records import FOLD_ABOVE, RunView
from assaymark.results.report.contents import CalibrationCurve, ClaimedValue, ReportContents, above_chance
from assaymark.results.report.method_text import method_text
from assaymark.results.views.cells import leaf_estimates, table_rows
from assaymark.results.views.details import foot_lines
from assaymark.results.views.run_document import interval_point, result_blocks
from assaymark.settings import VERSION

MOST_TILES = 8
N_WEAKEST = 5
MOST_WEAKEST = 3  # runs that get a list of their weakest tasks each
MANY_TASKS = 4  # number of tasks from which a list of the weakest is useful
MOST_SUBJECT_CHARTS = 4
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
    with write_errors("the report", "name another file", to=target):
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, blocks, title)
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


_WRITERS: Mapping[str, Callable[[Path, list[Block], str], None]] = {
    ".html": _write_html,
    ".htm": _write_html,
    ".md": _write_markdown,
    ".markdown": _write_markdown,
    ".pdf": lambda path, blocks, title: print_pdf(html_page(blocks, title, FOOT), path),
}


def headline(contents: ReportContents) -> list[Block]:
    """Return the title, the runs' facts, and the verdicts of a comparison or the main numbers."""
    labels = [view.label for view in contents.views]
    title = labels[0] if len(labels) == 1 else " and ".join(labels) if len(labels) == 2 else f"{len(labels)} models"
    blocks: list[Block] = [Heading(title, 1)]
    for view, row in zip(contents.views, contents.rows, strict=True):
        name = f"{view.label}: " if len(labels) > 1 else ""
        facts = [f"run {view.run_id}", *(value for _, value in view.facts), row.updated_at[:10]]
        blocks.append(Paragraph(name + " · ".join(facts), "facts"))
    if contents.comparison is not None:
        verdicts = tuple(pair.verdict for pair in contents.comparison.pairs)
        blocks.append(Paragraph(verdicts[0], "verdict") if len(verdicts) == 1 else Bullets(verdicts))
    else:
        blocks += [Paragraph(f"Not compared: {contents.not_compared}")] if contents.not_compared else []
    tiles = _tiles(contents)
    return [*blocks, Tiles(tuple(tiles))] if tiles else blocks


def results_section(views: Sequence[RunView], claims: Sequence[ClaimedValue] = ()) -> list[Block]:
    """Return the table of all values, their chart, others' claims, and the warnings."""
    points = [ClaimPoint(claim.task, claim.model, claim.value) for claim in claims]
    return [Heading("Results"), *result_blocks(views, details=True, claims=points), *_claims_table(claims)]


def change_section(comparison: Comparison) -> list[Block]:
    """Return every pair's differences as table and chart, and the ranks of three or more runs."""
    blocks: list[Block] = [Heading("What changed")]
    for number, pair in enumerate(comparison.pairs, start=1):
        if len(comparison.pairs) > 1:
            blocks.append(Heading(f"{pair.labels[1]} against {pair.labels[0]}", 3))
        blocks += pair_blocks(pair, number)
    return [*blocks, *ranks_blocks(comparison)]


def weakest_section(contents: ReportContents) -> list[Block]:
    """Return each run's tasks that are lowest above chance, and charts of large groups with their subjects sorted."""
    blocks: list[Block] = []
    for view in contents.views if len(contents.views) <= MOST_WEAKEST else ():
        leaves = [
            estimate for estimate in leaf_estimates(view) if is_proportion(estimate) and estimate.value is not None
        ]
        if len(leaves) < MANY_TASKS:
            continue
        heading = [Heading(view.label, 3)] if len(contents.views) > 1 else []
        blocks += [*heading, *_weakest(leaves)]
    blocks += _subject_figures(contents.views)
    return [Heading("Weakest tasks and subjects"), *blocks] if blocks else []


def calibration_section(curves: Sequence[CalibrationCurve]) -> list[Block]:
    """Return the reliability curve of the multiple-choice answers, with its error and the error expected by chance."""
    if not curves:
        return []
    lines = []
    for curve in curves:
        error = curve.error
        bias = (
            sum(
                calibration_bin.n * (calibration_bin.confidence - calibration_bin.accuracy)
                for calibration_bin in error.bins
            )
            / error.n
        )
        direction = "overconfident" if bias > 0 else "underconfident"
        verdict = f"as expected of a calibrated model (p {shown_p(error.p)})" if error.p >= 0.05 else direction
        lines.append(
            f"{curve.label}: calibration error {100 * error.value:.1f}% over {error.n:,} answers in "
            f"{counted(curve.n_tasks, 'task')}; expected of a calibrated model: {100 * error.null_value:.1f}%; "
            f"{verdict}"
        )
    blocks: list[Block] = [Heading("Calibration"), Bullets(tuple(lines))]
    if can_draw():
        caption = (
            "Accuracy against confidence, ten bins of equally many answers, with 95% Wilson intervals. "
            "The dashed line is perfect calibration."
        )
        drawn = [(curve.label, curve.error) for curve in curves]
        blocks.append(Figure("calibration", caption, lambda: [calibration_chart(drawn)]))
    return blocks


# ------------------------------------------------------------------------------------------- headline


def _tiles(contents: ReportContents) -> list[Tile]:
    if contents.comparison is not None:
        return _comparison_tiles(contents.comparison)[:MOST_TILES]
    if len(contents.views) > 1:
        return []
    view = contents.views[0]
    composites = [
        estimate
        for estimate in view.estimates
        if estimate.details.get("kind") == "composite" and estimate.value is not None
    ]
    tops = [row.any_cell for row in table_rows([view], primary_only=True) if row.is_top and row.metric]
    return [_value_tile(estimate) for estimate in [*composites, *tops] if estimate is not None][:MOST_TILES]


def _value_tile(estimate: Estimate) -> Tile:
    name = str(estimate.details.get("alias") or estimate.task)
    interval = interval_text(estimate)
    chance = f", chance {chance_cell(estimate)}" if estimate.chance is not None else ""
    below = f"{estimate.metric}, 95%: {interval}{chance}" if interval else f"{estimate.metric}, no interval{chance}"
    return Tile(name, shown_value(estimate.value, proportion=is_proportion(estimate)), below)


def _comparison_tiles(comparison: Comparison) -> list[Tile]:
    """Return each run's overall value, and with two runs the difference."""
    pairs = [(pair, pair.overall) for pair in comparison.pairs if pair.overall is not None]
    if not pairs:
        return []
    first = pairs[0][1]
    values = [(pairs[0][0].labels[0], first.first), *((pair.labels[1], line.second) for pair, line in pairs)]
    over = f"mean over {counted(len(first.units), 'part')}" if len(first.units) > 1 else first.metric
    tiles = [Tile(label, shown_value(value, proportion=True), over) for label, value in values]
    return [*tiles, *([_difference_tile(first, pairs[0][0])] if len(pairs) == 1 else [])]


def _difference_tile(line: Difference, pair: PairComparison) -> Tile:
    interval = shown_interval_of(line)
    below = f"95% interval {interval}, p {shown_p(line.p)}" if interval else f"p {shown_p(line.p)}"
    return Tile(f"{pair.labels[1]} minus {pair.labels[0]}", shown_gain(line), below)


# -------------------------------------------------------------------------------------------- results


def _claims_table(claims: Sequence[ClaimedValue]) -> list[Block]:
    """Return the table of others' claims, each value with its source."""
    if not claims:
        return []
    rows = [(claim.model, claim.task, claim.source, f"{100 * claim.value:.1f}%") for claim in claims]
    note = "Not measured here: prompts, shots and programs may be others than those of the runs above."
    return [
        Heading("Claimed by others", 3),
        table(("model", "task", "source", "value"), rows, n_text=3),
        Paragraph(note, "facts"),
    ]


# -------------------------------------------------------------------------------------------- weakest


def _weakest(leaves: Sequence[Estimate]) -> list[Block]:
    guessed = [
        estimate
        for estimate in leaves
        if estimate.chance is not None and estimate.low is not None and estimate.low <= estimate.chance
    ]
    known = [estimate for estimate in leaves if estimate.chance is not None]
    blocks: list[Block] = []
    if known:
        blocks.append(Paragraph(f"Not significantly above chance: {len(guessed)} of {counted(len(known), 'task')}."))
    body = [
        (
            _name(estimate),
            shown_value(estimate.value, proportion=True),
            shown_interval(estimate.low, estimate.high, proportion=True),
            chance_cell(estimate),
            shown_count([estimate]),
        )
        for estimate in sorted(leaves, key=above_chance)[:N_WEAKEST]
    ]
    return [*blocks, table(("lowest above chance", "value", "95% interval", "chance", "n"), body)]


def _subject_figures(views: Sequence[RunView]) -> list[Block]:
    """Return a chart for each large group with a value that is in no other such group."""
    if not can_draw():
        return []
    groups = [row for row in table_rows(views, primary_only=True) if row.is_group and row.is_top and row.metric]
    figures: list[Block] = []
    for row in groups:
        by_view = [(view, {estimate.task: estimate for estimate in leaf_estimates(view, row.name)}) for view in views]
        order = sorted(by_view[0][1].values(), key=lambda estimate: -(estimate.value or 0.0))
        if len(order) <= FOLD_ABOVE:
            continue
        points = [
            point
            for estimate in order
            for view, own in by_view
            if (point := interval_point(_name(estimate), view, own.get(estimate.task))) is not None
        ]
        by = f", sorted by {views[0].label}" if len(views) > 1 else ""
        if points:
            caption = f"The {len(order)} tasks of {row.label} with 95% intervals{by}; the vertical bar marks chance."
            figures.append(Figure(f"subjects-{len(figures) + 1}", caption, partial(interval_charts, points)))
    return figures[:MOST_SUBJECT_CHARTS]


def _name(estimate: Estimate) -> str:
    return str(estimate.details.get("alias") or estimate.task)
