"""The sections of a report with results: headline, table, changes, weakest tasks, calibration."""

from collections.abc import Sequence

from assaymark.records import Estimate
from assaymark.results.comparison.records import OVERALL, Comparison, Difference, PairComparison
from assaymark.results.comparison.verdict import shown_gain, shown_interval_of, table_notes
from assaymark.results.documents.blocks import (
    Block,
    Bullets,
    Cell,
    Figure,
    Heading,
    Mark,
    Paragraph,
    Table,
    TableRow,
    Tile,
    Tiles,
)
from assaymark.results.documents.charts import (
    ClaimPoint,
    DifferencePoint,
    IntervalPoint,
    calibration_chart,
    can_draw,
    difference_charts,
    interval_charts,
)
from assaymark.results.documents.contents import CalibrationCurve, ClaimedValue, ReportContents, above_chance
from assaymark.results.evidence.composites import composite_lines
from assaymark.results.evidence.records import PerturbedScore, RunView
from assaymark.results.numbers import counted, is_proportion, shown_count, shown_interval, shown_p, shown_value
from assaymark.results.views.baselines_table import baseline_rows
from assaymark.results.views.cells import (
    FOLD_ABOVE,
    TableLine,
    chance_cell,
    interval_text,
    leaf_estimates,
    metric_cell,
    table_rows,
    value_words,
)
from assaymark.results.views.comparison_tables import ordered_lines, shown_cells
from assaymark.results.views.perturbed_table import HEADERS, perturbed_cells, perturbed_name, shown_scores
from assaymark.results.views.tables import note_lines

MOST_TILES = 8
N_WEAKEST = 5
MOST_WEAKEST = 3  # runs that get a list of their weakest tasks each
MANY_TASKS = 4  # number of tasks from which a list of the weakest is useful
MOST_SUBJECT_CHARTS = 4
MARKS: dict[int | None, tuple[Mark, str]] = {None: ("", ""), 0: ("worse", " ▼"), 1: ("better", " ▲")}


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
    """Return the table of all values, their chart, and the warnings about them."""
    rows = table_rows(views, primary_only=len(views) > 1)
    blocks: list[Block] = [Heading("Results"), _one_run(rows) if len(views) == 1 else _side_by_side(rows, views)]
    if lines := composite_lines(views):
        blocks.append(Bullets(tuple(lines)))
    blocks += _values_figure(views, claims)
    blocks += _claims_table(claims)
    if len(views) == 1:
        blocks += _perturbations(views[0].perturbed)
        blocks += _baselines(rows)
    if notes := [line.removeprefix("! ") for line in note_lines(rows, views)]:
        blocks.append(Bullets(tuple(notes), "warning"))
    return blocks


def change_section(comparison: Comparison) -> list[Block]:
    """Return every pair's differences as table and chart, and the ranks of three or more runs."""
    blocks: list[Block] = [Heading("What changed")]
    for number, pair in enumerate(comparison.pairs, start=1):
        if len(comparison.pairs) > 1:
            blocks.append(Heading(f"{pair.labels[1]} against {pair.labels[0]}", 3))
        blocks.append(_pair_table(pair))
        blocks += _difference_figure(pair, f"differences-{number}")
        if pair.set_up:
            blocks += [Paragraph("Besides the model, the runs differ in:"), Bullets(pair.set_up, "warning")]
        blocks += [Bullets((*table_notes(pair), *pair.notes))] if (*table_notes(pair), *pair.notes) else []
    if comparison.ranks:
        blocks += [Heading("Ranks", 3), _ranks_table(comparison)]
    return blocks


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
        chart = calibration_chart([(curve.label, curve.error) for curve in curves])
        blocks.append(Figure("calibration", caption, (chart,)))
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


def _one_run(rows: Sequence[TableLine]) -> Table:
    body = []
    for row in rows:
        cell = row.any_cell
        numbers = [value_words(cell) if row.metric else "", interval_text(cell)]
        texts = [metric_cell(row), *numbers, "" if cell is None else shown_count([cell]), chance_cell(cell)]
        body.append(TableRow((_name(row), *(Cell(text) for text in texts)), row.depth, row.is_group))
    return Table(("task", "metric", "value", "95% interval", "n", "chance"), tuple(body), n_text=2)


def _side_by_side(rows: Sequence[TableLine], views: Sequence[RunView]) -> Table:
    """Return a table with one column per run, each value above its interval."""
    body = []
    for row in rows:
        cells = [Cell(value_words(c), interval_text(c)) if row.metric else Cell("") for c in row.cells]
        size = shown_count(cell for cell in row.cells if cell is not None)
        texts = (_name(row), Cell(metric_cell(row)), *cells, Cell(size), Cell(chance_cell(row.any_cell)))
        body.append(TableRow(texts, row.depth, row.is_group))
    headers = ("task", "metric", *(view.label for view in views), "n", "chance")
    return Table(headers, tuple(body), n_text=2)


def _baselines(rows: Sequence[TableLine]) -> list[Block]:
    """Return the table of baselines: scores that need no reading of the question."""
    headers, known = baseline_rows(rows)
    body = [TableRow((Cell(row.label), *map(Cell, cells)), row.depth, row.is_group) for row, cells in known]
    return [Heading("Baselines", 3), Table(("task", *headers), tuple(body))] if body else []


def _perturbations(scores: Sequence[PerturbedScore]) -> list[Block]:
    """Return the table of what perturbations did to the scores; nothing for a run without any."""
    body = [
        TableRow((Cell(score.task), Cell(perturbed_name(score)), *map(Cell, perturbed_cells(score))))
        for score in shown_scores(scores)
    ]
    return [Heading("Perturbations", 3), Table(("task", "perturbed by", *HEADERS), tuple(body))] if body else []


def _name(row: TableLine) -> Cell:
    if not row.is_first:
        return Cell("")
    return Cell(f"{row.label} ({row.n_hidden} tasks)" if row.n_hidden else row.label)


def _claims_table(claims: Sequence[ClaimedValue]) -> list[Block]:
    """Return the table of what others claim, each value with its source."""
    if not claims:
        return []
    rows = [
        TableRow((Cell(claim.model), Cell(claim.task), Cell(claim.source), Cell(f"{100 * claim.value:.1f}%")))
        for claim in claims
    ]
    note = "Not measured here: prompts, shots and programs may be others than those of the runs above."
    return [
        Heading("Claimed by others", 3),
        Table(("model", "task", "source", "value"), tuple(rows), n_text=3),
        Paragraph(note, "facts"),
    ]


def _values_figure(views: Sequence[RunView], claims: Sequence[ClaimedValue]) -> list[Block]:
    rows = [row for row in table_rows(views, primary_only=True) if row.metric]
    points = [
        point
        for row in rows
        for view, cell in zip(views, row.cells, strict=True)
        if (point := _point("\u2003" * row.depth + row.label, view, cell)) is not None
    ]
    if not points or not can_draw():
        return []
    caption = "Values with 95% intervals; the vertical bar marks chance."
    if excluded := [row.label for row in rows if row.any_cell is not None and not is_proportion(row.any_cell)]:
        caption += f" Not shown, since they are not proportions: {', '.join(excluded)}."
    labels = {row.any_cell.task: "\u2003" * row.depth + row.label for row in rows if row.any_cell is not None}
    hollow = [ClaimPoint(labels[claim.task], claim.model, claim.value) for claim in claims if claim.task in labels]
    if hollow:
        caption += " Hollow marks are values that others claim, without intervals; their sources are below."
    return [Figure("values", caption, tuple(interval_charts(points, hollow)))]


def _point(name: str, view: RunView, cell: Estimate | None) -> IntervalPoint | None:
    if cell is None or cell.value is None or cell.low is None or cell.high is None or not is_proportion(cell):
        return None
    return IntervalPoint(name, view.label, cell.value, cell.low, cell.high, cell.chance)


# --------------------------------------------------------------------------------------- what changed


def _pair_table(pair: PairComparison) -> Table:
    body = []
    for line, depth in ordered_lines(pair, unfold=False):
        name, *numbers = shown_cells(line, depth)
        mark, arrow = MARKS[line.better]
        below = ", ".join(filter(None, (line.metric, "" if line.higher_is_better else "lower is better")))
        cells = [Cell(name.strip(), below), *(Cell(text) for text in numbers)]
        cells[3] = Cell(numbers[2] + arrow, mark=mark)
        body.append(TableRow(tuple(cells), depth, line.kind != "task"))
    headers = ("task", *pair.labels, "difference", "95% interval", "p", "n", "became right / wrong")
    return Table(headers, tuple(body))


def _difference_figure(pair: PairComparison, name: str) -> list[Block]:
    points = [
        DifferencePoint(
            "\u2003" * depth + ((line.label if depth else "") or line.name),
            line.gain,
            min(_gains(line)),
            max(_gains(line)),
            {None: "not significant", 0: "worse", 1: "better"}[line.better],
        )
        for line, depth in ordered_lines(pair, unfold=False)
        if line.scale == "proportion" and line.low is not None and line.high is not None
    ]
    if not points or not can_draw():
        return []
    caption = (
        f"{pair.labels[1]} minus {pair.labels[0]} on the same samples, with 95% intervals; to the right "
        f"{pair.labels[1]} is better. Coloured if the difference is significant at 5%"
        + (", corrected for the number of tasks." if len(pair.tasks) > 1 else ".")
    )
    return [Figure(name, caption, tuple(difference_charts(points)))]


def _gains(line: Difference) -> tuple[float, float]:
    low, high = line.low or 0.0, line.high or 0.0
    return (low, high) if line.higher_is_better or line.kind == OVERALL else (-low, -high)


def _ranks_table(comparison: Comparison) -> Table:
    body = []
    for rank in comparison.ranks:
        possible_ranks = str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"
        beaten = ", ".join(comparison.labels[index] for index in rank.beats) or "none"
        body.append(TableRow((Cell(comparison.labels[rank.index]), Cell(beaten), Cell(possible_ranks))))
    return Table(("run", "significantly better than", "possible ranks"), tuple(body), n_text=2)


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
        TableRow(
            tuple(
                Cell(text)
                for text in (
                    str(estimate.details.get("alias") or estimate.task),
                    shown_value(estimate.value, proportion=True),
                    shown_interval(estimate.low, estimate.high, proportion=True),
                    chance_cell(estimate),
                    shown_count([estimate]),
                )
            )
        )
        for estimate in sorted(leaves, key=above_chance)[:N_WEAKEST]
    ]
    return [*blocks, Table(("lowest above chance", "value", "95% interval", "chance", "n"), tuple(body))]


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
            if (point := _point(str(estimate.details.get("alias") or estimate.task), view, own.get(estimate.task)))
            is not None
        ]
        by = f", sorted by {views[0].label}" if len(views) > 1 else ""
        if points:
            caption = f"The {len(order)} tasks of {row.label} with 95% intervals{by}; the vertical bar marks chance."
            figures.append(Figure(f"subjects-{len(figures) + 1}", caption, tuple(interval_charts(points))))
    return figures[:MOST_SUBJECT_CHARTS]
