"""Tables of estimates for the terminal, and their JSON.

One run is a list of tasks with shots, value, interval, n, chance and notes (failed requests, ties, leaked shots,
truncated prompts); `run_details` adds calibration, baselines and minimum detectable effects. Several runs are shown
side by side, one column each. Proportions are shown in percent with one decimal; in JSON they are in [0, 1].
"""

import re
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.records import Estimate, JsonValue
from assaymark.results.console import Text
from assaymark.results.evidence.composites import composite_lines
from assaymark.results.evidence.records import RunView
from assaymark.results.numbers import counted, reported_count, shown_count, truncation_of
from assaymark.results.views.baselines_table import baseline_notes
from assaymark.results.views.cells import (
    Sized,
    TableLine,
    chance_cell,
    heading,
    interval_text,
    label_cell,
    metric_cell,
    number_cells,
    plain_table,
    shots_cell,
    table_rows,
    value_text,
)
from assaymark.results.views.perturbed_table import perturbed_table
from assaymark.results.views.run_list import detail_tables, foot_lines

LONGEST_WORD, SHORTEST_TASK = 18, 12  # columns of a metric and a task in a narrow terminal
NUMBERS = ("value", "95% interval", "n")
GAP = 2  # between columns
MAX_NAMED = 4  # tasks that share a note and are named

Column = list[tuple[str, str]]  # (value, interval) per row


def run_table(views: Sequence[RunView], *, unfold: bool = False, details: bool = False) -> RenderableType:
    """Return the table of one run, or of several runs side by side, laid out for the terminal's width.

    Args:
        views: one run (all its metrics) or several (one metric per task, one column per run).
        unfold: show every task of every group.
        details: also show calibration, baselines and the minimum detectable effect of one run.
    """
    rows = table_rows(views, unfold=unfold, primary_only=len(views) > 1)
    composites = [Padding(Text(line, style="bold"), (0, 1)) for line in composite_lines(views)]
    above: list[RenderableType] = [*composites, Text("")] if composites else []
    below = [Text(line, style="yellow") for line in note_lines(rows, views)]
    if len(views) > 1:
        details = True  # values side by side invite a comparison: report the minimum detectable effect
    below += [Text(line, style="dim") for line in foot_lines(views)] if details else []
    notes = [Padding(line, (0 if index else 1, 1, 0, 1)) for index, line in enumerate(below)]

    def laid_out(width: int) -> RenderableType:
        if len(views) > 1:
            return Group(*above, _side_by_side(rows, views, width), *notes)
        parts: list[RenderableType] = [heading(views[0]), *above, *([_one_run(rows, width)] if rows else [])]
        perturbed = perturbed_table(views[0].perturbed)
        parts += [] if perturbed is None else [perturbed]
        return Group(*parts, *detail_tables(rows, details=details), *notes)

    return Sized(laid_out)


def to_json(views: Sequence[RunView]) -> dict[str, JsonValue]:
    """Return the content of `run_table` as JSON values: every estimate of every run, proportions in [0, 1]."""
    return {
        "runs": [
            {
                "run_id": view.run_id,
                "label": view.label,
                "facts": dict(view.facts),
                "estimates": [estimate_json(estimate) for estimate in view.estimates],
            }
            for view in views
        ]
    }


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
    return [f"! {_listed_names(names)}: {note}" for note, names in tasks_of.items()]


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


def _one_run(rows: Sequence[TableLine], width: int) -> Padding:
    """Return the table of one run; number columns keep their width, names are wrapped if they do not fit."""
    columns: dict[str, list[str | Text]] = {"n-shot": [shots_cell(row) for row in rows]}
    columns |= {header: [number_cells(row.any_cell)[index] for row in rows] for index, header in enumerate(NUMBERS)}
    columns["chance"] = [chance_cell(row.any_cell) for row in rows]
    columns = {header: cells for header, cells in columns.items() if header in NUMBERS or any(cells)}
    left = width - 2 - sum(GAP + _widest([header, *cells]) for header, cells in columns.items())
    names: dict[str, list[str | Text]] = {"task": [label_cell(row) for row in rows]}
    if any(row.metric and row.filter not in {"none", ""} for row in rows):
        names["filter"] = [row.filter if row.metric else "" for row in rows]
    names["metric"] = [row.metric for row in rows]
    widths = {header: _widest([header, *cells]) for header, cells in names.items()}
    if sum(widths.values()) + GAP * (len(widths) - 1) > left:
        names = {"task": names["task"], "metric": [metric_cell(row) for row in rows]}  # the filter, in brackets
        words = [word for cell in names["metric"] for word in str(cell).split()]
        widths["metric"] = min(LONGEST_WORD, _widest(["metric", *words]))
        widths["task"] = min(widths["task"], max(SHORTEST_TASK, left - GAP - widths["metric"]))
    table = plain_table()
    for header in names:
        table.add_column(header, overflow="fold", width=widths[header])
    for header in columns:
        table.add_column(header, justify="right", no_wrap=True)
    for line in zip(*names.values(), *columns.values(), strict=True):
        table.add_row(*line)
    return Padding(table, (0, 1))


def _widest(cells: Sequence[str | Text]) -> int:
    return max(len(str(cell)) for cell in cells)


def _side_by_side(rows: Sequence[TableLine], views: Sequence[RunView], width: int) -> RenderableType:
    """Return the table of several runs; `rows` hold one cell per view.

    If it fits, a task takes one line with the interval beside each value. Otherwise the interval goes under the value,
    and metric, n and chance go under the task; runs that still do not fit go into a second table below.
    """
    # a heading has no metric, and so no value
    columns = [
        [(value_text(row.cells[i]), interval_text(row.cells[i])) if row.metric else ("", "") for row in rows]
        for i in range(len(views))
    ]
    inner = width - 2
    fixed = [
        max([4, *(len(label_cell(row).plain) for row in rows)]),
        max([6, *(len(metric_cell(row)) for row in rows)]),
        max([1, *(len(_count(row)) for row in rows)]),
        6 if any(chance_cell(row.any_cell) for row in rows) else 0,
    ]
    flat = [max(len(v.label), *(len(a) + 1 + _width(c, 1) for a, _ in c)) for v, c in zip(views, columns, strict=True)]
    if sum(size + GAP for size in fixed if size) + sum(size + GAP for size in flat) - GAP <= inner:
        return Padding(_one_line(rows, views, columns, with_chance=bool(fixed[3])), (0, 1))
    left = max([4, *(len(label_cell(row).plain) for row in rows), *(len(_under(row)) for row in rows)])
    tall = [
        max(min(len(view.label), 14), _width(column, 0), _width(column, 1))
        for view, column in zip(views, columns, strict=True)
    ]
    tables: list[RenderableType] = []
    start = 0
    while start < len(views):
        end, used = start + 1, left + GAP + tall[start]
        while end < len(views) and used + GAP + tall[end] <= inner:
            used += GAP + tall[end]
            end += 1
        tables.append(Padding(_two_lines(rows, views[start:end], columns[start:end]), (0, 1, 0, 1)))
        start = end
    return Group(*tables)


def _one_line(
    rows: Sequence[TableLine], views: Sequence[RunView], columns: Sequence[Column], *, with_chance: bool
) -> RenderableType:
    table = plain_table()
    table.add_column("task", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for header in ("n", *(["chance"] if with_chance else []), *(view.label for view in views)):
        table.add_column(header, justify="right", no_wrap=True)
    for index, row in enumerate(rows):
        cells: list[RenderableType] = [label_cell(row), metric_cell(row), _count(row)]
        if with_chance:
            cells.append(chance_cell(row.any_cell))
        for column in columns:
            value, interval = column[index]
            text = Text(value, style="bold")
            text.append(f" {interval:>{_width(column, 1)}}", style="not bold dim")
            cells.append(text)
        table.add_row(*cells)
    return table


def _two_lines(rows: Sequence[TableLine], views: Sequence[RunView], columns: Sequence[Column]) -> RenderableType:
    table = plain_table()
    table.add_column("task", no_wrap=True)
    for view in views:
        table.add_column(view.label, justify="right", overflow="fold")
    for index, row in enumerate(rows):
        name = label_cell(row)
        name.append("\n" + _under(row) if row.metric else "", style="not bold dim")
        cells: list[RenderableType] = [name]
        for column in columns:
            text = Text(column[index][0], style="bold")
            text.append("\n" + column[index][1] if row.metric else "", style="not bold dim")
            cells.append(text)
        table.add_row(*cells)
    return table


def _count(row: TableLine) -> str:
    return shown_count(cell for cell in row.cells if cell is not None)


def _under(row: TableLine) -> str:
    chance = chance_cell(row.any_cell)
    parts = [metric_cell(row), f"n {_count(row)}", *([f"chance {chance}"] if chance else [])]
    return "  " * (row.depth + 1) + ", ".join(parts)


def _width(column: Column, which: int) -> int:
    return max((len(cell[which]) for cell in column), default=0)


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
    if unscored := details.get("n_unscored"):
        notes.append(f"{unscored:,} not scored, excluded")
    if labels := details.get("labels"):
        notes.append("labels and no values: " + ", ".join(f"{label:.40} {n:,}" for label, n in labels.items()))
    if cell.n_unparsed:
        notes.append(f"{cell.n_unparsed:,} without an answer that could be parsed, counted wrong")
    if by := details.get("equal_by"):
        how = ", ".join(f"{n:,} in {_DIFFERS_IN.get(each, each)}" for each, n in by.items())
        notes.append(f"{counted(sum(by.values()), 'right answer')} not the reference to the letter: {how}")
    if scored := details.get("n_first_token"):
        notes.append(f"{scored:,} scored by the first generated token")
    if outside := details.get("n_outside"):
        notes.append(f"{counted(outside, 'choice')} not among the server's most probable tokens, below all that are")
    if details.get("n_tied"):
        notes.append(f"{counted(details['n_tied'], 'tie')} for the best choice, credit shared")
    return [*notes, *baseline_notes(cell)]
