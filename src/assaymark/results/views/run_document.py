"""Estimates of runs as a document, and their JSON.

One run is a list of tasks with shots, value, interval, n, chance and notes (failed requests, ties, leaked shots,
truncated prompts); `details` adds calibration, baselines and minimum detectable effects. Several runs are shown side by
side, one column each. Proportions are shown in percent with one decimal; in JSON they are in [0, 1].
"""

import re
from collections.abc import Mapping, Sequence

from assaymark.documents.blocks import Block, Bullets, Cell, Cells, Column, Figure, Paragraph, Table, table
from assaymark.documents.charts import ClaimPoint, IntervalPoint, can_draw, interval_charts
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted, shown_difference, shown_value
from assaymark.errors import few
from assaymark.records import Estimate, JsonValue, with_filter
from assaymark.results.estimate_texts import (
    chance_cell,
    interval_text,
    is_proportion,
    reported_count,
    shown_count,
    truncation_of,
    value_text,
)
from assaymark.results.evidence.composites import composite_lines
from assaymark.results.evidence.records import FOLD_ABOVE, PerturbedScore, RunView
from assaymark.results.views.cells import (
    TableLine,
    heading_blocks,
    metric_cell,
    name_cell,
    number_cells,
    shots_cell,
    table_rows,
)
from assaymark.results.views.details import baseline_notes, detail_tables, foot_lines

MAX_NAMED = 4  # tasks that share a note and are named
PERTURBED_HEADERS = ("metric", "n", "as it is", "perturbed", "difference", "95% interval", "broken", "mended")


def run_document(views: Sequence[RunView], *, details: bool = False) -> Document:
    """Return the results of one run, or of several runs side by side.

    Args:
        views: one run (all its metrics) or several (one metric per task, one column per run).
        details: also show calibration, baselines and the minimum detectable effect of one run.
    """
    # values side by side invite a comparison: report the minimum detectable effect
    foot = foot_lines(views) if details or len(views) > 1 else []
    return document(
        heading_blocks(views[0]) if len(views) == 1 else [],
        result_blocks(views, details=details),
        [Paragraph(line, "facts") for line in foot],
    )


def result_blocks(views: Sequence[RunView], *, details: bool = False, claims: Sequence[ClaimPoint] = ()) -> list[Block]:
    """Return the values of one or several runs as a table and drawn, and the warnings about them."""
    rows = table_rows(views, primary_only=len(views) > 1)
    blocks: list[Block] = [Paragraph(line, "verdict") for line in composite_lines(views)]
    if rows:
        blocks.append(_one_run(rows) if len(views) == 1 else _side_by_side(rows, views))
    blocks += _figure(views, claims)
    if len(views) == 1:
        tables = [_perturbed_table(views[0].perturbed), *detail_tables(rows, details=details)]
        blocks += [each for each in tables if each is not None]
    notes = tuple(note_lines(rows, views))
    return [*blocks, *([Bullets(notes, "warning")] if notes else [])]


def _one_run(rows: Sequence[TableLine]) -> Table:
    body: list[Cells] = []
    for row in rows:
        numbers = number_cells(row.any_cell) if row.metric else ("", "", "")
        body.append((name_cell(row), metric_cell(row), shots_cell(row), *numbers, chance_cell(row.any_cell)))
    value = Column("value", is_main=True)
    columns: list[str | Column] = ["task", "metric", "n-shot", value, "95% interval", "n", "chance"]
    return _without_empty(table(columns, body, n_text=2), ("n-shot", "chance"))


def _side_by_side(rows: Sequence[TableLine], views: Sequence[RunView]) -> Table:
    """Return a table with one column per run, each value with its interval."""
    body: list[Cells] = []
    for row in rows:
        cells = [Cell(value_text(c), interval_text(c)) if row.metric else Cell("") for c in row.cells]
        size = shown_count(cell for cell in row.cells if cell is not None)
        body.append((name_cell(row), metric_cell(row), size, chance_cell(row.any_cell), *cells))
    labels = (Column(view.label, is_main=True) for view in views)
    columns: list[str | Column] = ["task", "metric", "n", "chance", *labels]
    return _without_empty(table(columns, body, n_text=2), ("chance",))


def _without_empty(whole: Table, labels: Sequence[str]) -> Table:
    """Return a table without those of the columns that have no text."""
    kept = [
        index
        for index, column in enumerate(whole.columns)
        if column.label not in labels or any(row[index].text for row in whole.rows)
    ]
    return Table(
        tuple(whole.columns[index] for index in kept), tuple(tuple(row[index] for index in kept) for row in whole.rows)
    )


def _figure(views: Sequence[RunView], claims: Sequence[ClaimPoint]) -> list[Block]:
    rows = [row for row in table_rows(views, primary_only=True) if row.metric]
    points = [
        point
        for row in rows
        for view, cell in zip(views, row.cells, strict=True)
        if (point := interval_point("\u2003" * row.depth + row.label, view, cell)) is not None
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
    return [Figure("values", caption, lambda: interval_charts(points, hollow))]


def interval_point(name: str, view: RunView, cell: Estimate | None) -> IntervalPoint | None:
    """Return the mark of a share with an interval; None for other values."""
    if cell is None or cell.value is None or cell.low is None or cell.high is None or not is_proportion(cell):
        return None
    return IntervalPoint(name, view.label, cell.value, cell.low, cell.high, cell.chance)


def estimate_json(estimate: Estimate) -> dict[str, JsonValue]:
    """Return one estimate with stable keys, undefined as null."""
    details: Mapping[str, object] = estimate.details
    return {
        "task": estimate.task,
        "metric": estimate.metric,
        "filter": estimate.filter,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "confidence": estimate.confidence,
        "method": estimate.method,
        "n": reported_count(estimate),
        "n_failed": estimate.n_failed,
        "n_skipped": estimate.details.get("n_skipped", 0),
        "n_unparsed": estimate.n_unparsed,
        "stderr": estimate.stderr,
        "chance": estimate.chance,
        "higher_is_better": estimate.higher_is_better,
        **{f"detail_{key}": list(value) if isinstance(value, tuple) else value for key, value in details.items()},
    }


def note_lines(rows: Sequence[TableLine], views: Sequence[RunView]) -> list[str]:
    """Return the warnings about values: about each task's prompts once, then about each metric.

    A note that several tasks share is reported once, with the first of their names.
    """
    tasks_of: dict[str, list[str]] = {}  # note -> names of tasks
    for row in rows:
        named_notes = []
        if row.is_first and not (row.is_group and not row.n_hidden):  # a group's shown tasks have notes of their own
            named_notes += _named_notes(row.label, [_prompt_notes(cell) if cell else [] for cell in row.cells], views)
        notes = [_notes(cell) if cell else [] for cell in row.cells]
        named_notes += _named_notes(f"{row.label} {metric_cell(row)}", notes, views)
        for name, note in named_notes:
            tasks_of.setdefault(note, []).append(name)
    return [f"{_listed_names(names)}: {note}" for note, names in tasks_of.items()]


def _listed_names(names: Sequence[str]) -> str:
    """Return the first names and the number of the others."""
    more = len(names) - MAX_NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:MAX_NAMED])} and {more} more"


def _named_notes(name: str, notes: Sequence[Sequence[str]], views: Sequence[RunView]) -> list[tuple[str, str]]:
    """Return (name, note) pairs: one if all runs have the same notes, else one per run."""
    joined = ["; ".join(each) for each in notes]
    if len(set(joined)) == 1:
        return [(name, joined[0])] if joined[0] else []
    return [(f"{name}, {view.label}", note) for view, note in zip(views, joined, strict=True) if note]


def _prompt_notes(cell: Estimate) -> list[str]:
    details = cell.details
    notes = []
    if skipped := details.get("n_skipped"):
        notes.append(f"{counted(skipped, 'row')} skipped, not among n (first: {details['first_skipped']})")
    if details.get("n_leaked"):
        notes.append(f"{details['n_leaked']:,} with the sample itself or a near-duplicate among its shots")
    if absent := details.get("n_gold_absent"):
        first = details["first_gold_absent"]
        notes.append(
            f"{counted(absent, 'row')} whose correct answer is none of the choices, counted wrong (first: {first})"
        )
    if details.get("n_cut"):
        notes.append(f"{counted(details['n_cut'], 'prompt')} truncated from the left")
    return [*notes, *([truncated] if (truncated := truncation_of(cell)) else [])]


_DIFFERS_IN = {"number": "how a number is written", "kind": "kind, such as a number and its text"}
_IGNORABLE = (
    "equal to the expected value but for {}, which {{exact: {{ignore_case: true, ignore_typography: true}}}} ignores"
)
_NEAR_MISSES = {
    **dict.fromkeys(("case", "typography", "number"), _IGNORABLE),
    "part": "found within a longer reference, where only all of it is right; several right answers are a list",
    "wrong_type": "with an argument of another type than the declared one, such as '3' or 3.0 for an integer",
    "list": "still in a list, which no text equals; end the task's filters with take_first",
    "rounding": "equal to the expected number but for rounding; the scorer `number` gives such an answer nearly 1",
    "empty": "without any text",
    "not a number": "that the scorer `number` cannot read: not a number alone, but with a unit or other words",
    "not a list": "that the scorer `list` cannot read: no list, nor the JSON of one",
    "page": "with a page of HTML, such as one to log in",
    "among words": "with the expected value among other words; the scorer `contains` looks for it there",
    "notation": "with the reference's value in another notation, such as 1/2 for 0.5",
}
_PLACE = re.compile(r"^\S+/\d+/\d+ query \d+: ")


def _notes(cell: Estimate) -> list[str]:
    details = cell.details
    notes = []
    if cell.n_failed:
        cause = details.get("first_error")
        if cell.n or details.get("n_unscored") or details.get("labels"):
            notes.append(f"{cell.n_failed:,} failed, excluded" + (f" (first: {cause})" if cause else ""))
        else:  # without numbers and places, so that tasks that failed for one reason share one note
            reason = _PLACE.sub("", str(cause)) if cause else ""
            what = "no answer could be scored" if details.get("n_failed_in_scoring") else "all requests failed"
            notes.append(f"{what}, so there is no result" + (f": {reason}" if reason else ""))
    if cell.n and (lacking := details.get("lacking")):
        notes.append(f"no mean, since there is no result of {few(lacking, 3)}")
    if infinite := details.get("n_infinite"):
        notes.append(f"{counted(infinite, 'score')} infinite, so there is no mean")
    if unscored := details.get("n_unscored"):
        notes.append(f"{unscored:,} not scored, excluded")
    if labels := details.get("labels"):
        notes.append("labels and no values: " + ", ".join(f"{label:.40} {n:,}" for label, n in labels.items()))
    if cell.n_unparsed:
        notes.append(f"{cell.n_unparsed:,} without an answer that could be parsed, counted wrong")
    if by := details.get("equal_by"):
        how = ", ".join(f"{n:,} in {_DIFFERS_IN.get(each, each)}" for each, n in by.items())
        notes.append(f"{counted(sum(by.values()), 'right answer')} not the reference to the letter: {how}")
    if among := details.get("n_among_words"):
        notes.append(
            f"{counted(among, 'wrong answer')} with the reference among other words, where only the reference alone is "
            "right; --system_instruction can ask for it"
        )
    for miss, n in details.get("near_misses", {}).items():
        notes.append(
            f"{counted(n, 'wrong answer')} {_NEAR_MISSES[miss].format(miss) if miss in _NEAR_MISSES else miss}"
        )
    if scored := details.get("n_first_token"):
        notes.append(f"{scored:,} scored by the first generated token")
    if outside := details.get("n_outside"):
        notes.append(f"{counted(outside, 'choice')} not among the server's most probable tokens, below all that are")
    if details.get("n_tied"):
        notes.append(f"{counted(details['n_tied'], 'tie')} for the best choice, credit shared")
    return [*notes, *baseline_notes(cell)]


def shown_scores(scores: Sequence[PerturbedScore]) -> list[PerturbedScore]:
    """Return the results by each task's main metric; of many tasks only their groups, where there are any."""
    primary = [score for score in scores if score.is_primary]
    tasks = {score.task for score in primary if score.n_tasks == 1}
    groups = [score for score in primary if score.n_tasks > 1]
    return groups if groups and len(tasks) > FOLD_ABOVE else primary


def perturbed_name(score: PerturbedScore) -> str:
    """Return the name of a result's perturbation, or of the worst case of a family."""
    return f"worst of {score.by}" if score.is_worst else score.by


def perturbed_cells(score: PerturbedScore) -> list[str]:
    """Return the cells under `PERTURBED_HEADERS`."""
    metric = with_filter(score.metric, score.filter)
    return [
        metric,
        f"{score.n:,}",
        shown_value(score.original, proportion=score.is_share),
        shown_value(score.value, proportion=score.is_share),
        shown_difference(score.difference, proportion=score.is_share),
        difference_interval(score),
        f"{score.n_broken:,}",
        f"{score.n_mended:,}",
    ]


def difference_interval(score: PerturbedScore) -> str:
    """Return the interval of the difference: `-4.1 to +1.2`."""
    if score.difference_low is None or score.difference_high is None:
        return NOTHING
    low, high = (
        shown_difference(end, proportion=score.is_share) for end in (score.difference_low, score.difference_high)
    )
    return f"{low} to {high}"


def _perturbed_table(scores: Sequence[PerturbedScore]) -> Table | None:
    """Return the table, the perturbations of a task below its name; None for a run without perturbations."""
    body: list[Cells] = []
    last = None
    for score in shown_scores(scores):
        if score.task != last:
            pooled = f" ({score.n_tasks} tasks, samples pooled)" if score.n_tasks > 1 else ""
            body.append((Cell(score.task + pooled, role="group"), *("" for _ in PERTURBED_HEADERS)))
            last = score.task
        body.append((Cell(perturbed_name(score), depth=1), *perturbed_cells(score)))
    return (
        table(("perturbations", Column(PERTURBED_HEADERS[0], "text"), *PERTURBED_HEADERS[1:]), body) if body else None
    )
