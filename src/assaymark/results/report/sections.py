"""The sections of a report with results: headline, table, changes, weakest tasks, calibration."""

from collections.abc import Sequence
from functools import partial

from assaymark.documents.blocks import (
    Block,
    Bullets,
    Figure,
    Heading,
    Mark,
    Paragraph,
    Tile,
    Tiles,
    table,
)
from assaymark.documents.charts import (
    ClaimPoint,
    calibration_chart,
    can_draw,
    interval_charts,
)
from assaymark.documents.numbers import counted, shown_interval, shown_p, shown_value
from assaymark.records import Estimate
from assaymark.results.comparison.document import pair_blocks, ranks_blocks
from assaymark.results.comparison.records import Comparison, Difference, PairComparison
from assaymark.results.comparison.verdict import shown_gain, shown_interval_of
from assaymark.results.estimate_texts import chance_cell, interval_text, is_proportion, shown_count
from assaymark.results.evidence.records import FOLD_ABOVE, RunView
from assaymark.results.report.contents import CalibrationCurve, ClaimedValue, ReportContents, above_chance
from assaymark.results.views.cells import leaf_estimates, table_rows
from assaymark.results.views.run_document import interval_point, result_blocks

MOST_TILES = 8
N_WEAKEST = 5
MOST_WEAKEST = 3  # runs that get a list of their weakest tasks each
MANY_TASKS = 4  # number of tasks from which a list of the weakest is useful
MOST_SUBJECT_CHARTS = 4
MARKS: dict[int | None, Mark] = {None: "", 0: "worse", 1: "better"}


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
