"""Tables of estimates for people, and their JSON twins.

One run is a list of tasks with value, interval, n, chance and what a reader must know (failed requests, ties, shots
that leak, prompts that were cut). Several runs stand side by side, one column each. Under every table stands the
smallest difference that such a table could show, so that nobody reads two close numbers as a winner and a loser.
Proportions are drawn as per cent with one decimal; JSON keeps them in [0, 1].
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding

from evalstone.records import Estimate, JsonValue
from evalstone.report.cells import Sized, chance_cell, interval_text, label_cell, metric_cell, plain_table
from evalstone.report.composites import composite_lines
from evalstone.report.console import Text
from evalstone.report.evidence import RunView
from evalstone.report.floors import floor_notes, floors_table
from evalstone.report.layout import Row, leaf_estimates, table_rows
from evalstone.report.many_runs import side_by_side
from evalstone.report.numbers import counted, is_proportion, shown_value
from evalstone.statistics.power import mde_paired_binary
from evalstone.store.rows import RunRow

DISAGREEMENT = 0.2  # assumed share of samples on which two models differ; a comparison shows the measured one
WIDE = 100  # columns from which Brier score and calibration error stand in the run table itself
BAR_WIDTHS = (8, 40)
CALIBRATION_HEADERS = ("calibration\nerror", "expected\nby luck")
FEWEST_CALIBRATED = 50  # fewer samples show little but luck
MAX_NAMED = 4  # tasks whose detectable difference is spelled out


def run_table(views: Sequence[RunView], *, unfold: bool = False) -> RenderableType:
    """Return what a user sees of one run, or of several runs side by side, laid out for the width it is printed in.

    Args:
        views: one run (all its metrics) or several (one metric per task, one column per run).
        unfold: every task of every group.
    """
    rows = table_rows(views, unfold=unfold, primary_only=len(views) > 1)
    composites = [Padding(Text(line, style="bold"), (0, 1)) for line in composite_lines(views)]
    above: list[RenderableType] = [*composites, Text("")] if composites else []
    lines = [Text(line, style="yellow") for line in note_lines(rows, views)]
    lines += [Text(line, style="dim") for line in foot_lines(views)]
    below = [Padding(line, (0 if index else 1, 1, 0, 1)) for index, line in enumerate(lines)]

    def laid_out(width: int) -> RenderableType:
        if len(views) > 1:
            return Group(*above, side_by_side(rows, views, width), *below)
        parts: list[RenderableType] = [heading(views[0]), *above, *([_one_run(rows, width)] if rows else [])]
        if width < WIDE and (calibration := _calibration(rows)):
            parts.append(calibration)
        if (floors := floors_table(rows)) is not None:
            parts.append(floors)
        return Group(*parts, *below)

    return Sized(laid_out)


def heading(view: RunView) -> RenderableType:
    """Return the line above a run's table: model, run, and how it was run."""
    text = Text(view.label, style="bold")
    shown = [f"run {view.run_id}"] if view.run_id else []
    text.append("".join(f" · {value}" for value in [*shown, *(value for _, value in view.facts)]), style="not bold dim")
    return Padding(text, (0, 1))


def subject_table(view: RunView, group: str | None = None) -> RenderableType:
    """Return every task (of one group, or of the run), the best first, with its interval drawn to scale."""
    leaves = sorted(
        (estimate for estimate in leaf_estimates(view, group) if estimate.value is not None),
        key=lambda estimate: (estimate.metric, -(estimate.value or 0.0) * (1 if estimate.higher_is_better else -1)),
    )
    names = [str(estimate.details.get("alias") or estimate.task) for estimate in leaves]

    def laid_out(width: int) -> RenderableType:
        bar = max(BAR_WIDTHS[0], min(BAR_WIDTHS[1], width - 2 - max([7, *map(len, names)]) - 36))
        table = plain_table()
        table.add_column("subject", overflow="fold")
        for header in ("value", "95% interval", "n", "chance"):
            table.add_column(header, justify="right", no_wrap=True)
        table.add_column(f"0%{'100%':>{bar - 2}}" if any(map(is_proportion, leaves)) else "", no_wrap=True)
        for name, estimate in zip(names, leaves, strict=True):
            strip = _strip(estimate, bar) if is_proportion(estimate) else Text("")
            table.add_row(name, *_numbers(estimate), chance_cell(estimate), strip)
        return Padding(table, (0, 1))

    return Group(heading(view), Sized(laid_out))


def run_list_table(rows: Sequence[RunRow]) -> RenderableType:
    """Return the stored runs, one line each."""
    table = plain_table()
    for header in ("run", "model", "tasks", "samples", "status", "when"):
        table.add_column(header, justify="right" if header == "samples" else "left", no_wrap=header != "tasks")
    for row in rows:
        n_failed = f" ({row.n_failed:,} failed)" if row.n_failed else ""
        table.add_row(
            row.short_id,
            _model_name(row.model),
            _few(_asked_for(row)),
            f"{row.n_samples:,}",
            Text(_state(row) + n_failed, style="" if row.status == "finished" and not n_failed else "yellow"),
            row.updated_at[:16].replace("T", " "),
        )
    return Padding(table, (0, 1))


def _state(row: RunRow) -> str:
    return "imported" if row.plan.model.kind == "imported" and row.status == "finished" else row.status


def runs_to_json(rows: Sequence[RunRow]) -> list[dict[str, JsonValue]]:
    """Return the stored runs with stable keys."""
    return [
        {
            "run_id": row.run_id,
            "short_id": row.short_id,
            "model": row.model,
            "kind": row.plan.model.kind,
            "dtype": row.plan.model.dtype,
            "profile": row.plan.profile,
            "tasks": list(row.tasks),
            "audit": row.plan.audit,
            "status": row.status,
            "n_samples": row.n_samples,
            "n_requests": row.n_requests,
            "n_outputs": row.n_outputs,
            "n_failed": row.n_failed,
            "n_attempts": row.n_attempts,
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "command": row.command,
        }
        for row in rows
    ]


def to_json(views: Sequence[RunView]) -> dict[str, JsonValue]:
    """Return the JSON twin of `run_table`: every estimate of every run, nothing folded, proportions in [0, 1]."""
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
    details: Mapping[str, Any] = estimate.details
    return {
        "task": estimate.task,
        "metric": estimate.metric,
        "filter": estimate.filter,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "confidence": estimate.confidence,
        "method": estimate.method,
        "n": estimate.n,
        "n_failed": estimate.n_failed,
        "n_unparsed": estimate.n_unparsed,
        "stderr": estimate.stderr,
        "chance": estimate.chance,
        "higher_is_better": estimate.higher_is_better,
        **{f"detail_{key}": list(value) if isinstance(value, tuple) else value for key, value in details.items()},
    }


def foot_lines(views: Sequence[RunView]) -> list[str]:
    """Return the line under a table: which difference from another model these samples would show, best to worst.

    Every task that a comparison tests counts, also where its group hides it in the table.
    """
    sizes: dict[str, int] = {}
    for cell in [estimate for view in views for estimate in leaf_estimates(view)]:
        if is_proportion(cell) and cell.n > 0:
            label = str(cell.details.get("alias") or cell.task)
            sizes[label] = min(cell.n, sizes.get(label, cell.n))
    if not sizes:
        return []
    found = {label: mde_paired_binary(n, DISAGREEMENT) for label, n in sizes.items()}
    enough = {label: mde for label, mde in found.items() if mde <= DISAGREEMENT}
    few = [label for label in found if label not in enough]
    parts = []
    if enough:
        ends = [min(enough, key=enough.__getitem__), max(enough, key=enough.__getitem__)]
        named = [f"{100 * enough[label]:.1f} points on {label}" for label in ends]
        parts.append(named[0] if enough[ends[0]] == enough[ends[1]] else f"from {named[0]} to {named[1]}")
    if few:
        hidden = f" and {len(few) - MAX_NAMED} more" if len(few) > MAX_NAMED else ""
        parts.append(f"none on {', '.join(few[:MAX_NAMED])}{hidden} (too few samples)")
    if_so = f"if the models disagree on {DISAGREEMENT:.0%} of the answers"
    return [f"Smallest difference a comparison would notice 4 times in 5, {if_so}: {'; '.join(parts)}."]


def note_lines(rows: Sequence[Row], views: Sequence[RunView]) -> list[str]:
    """Return what the reader must know before trusting a value: of each task's prompts once, then of each metric.

    What is the same of several is said once, with the first of their names.
    """
    said: dict[str, list[str]] = {}  # note -> of whom
    for row in rows:
        found = []
        if row.is_first and not (row.is_group and not row.n_hidden):  # a group's shown tasks say it themselves
            found += _said(row.label, [_prompt_notes(cell) if cell else [] for cell in row.cells], views)
        found += _said(f"{row.label} {metric_cell(row)}", [_notes(cell) if cell else [] for cell in row.cells], views)
        for name, note in found:
            said.setdefault(note, []).append(name)
    return [f"! {_named(names)}: {note}" for note, names in said.items()]


def _named(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MAX_NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:MAX_NAMED])} and {more} more"


def _said(name: str, notes: Sequence[Sequence[str]], views: Sequence[RunView]) -> list[tuple[str, str]]:
    """Return (of whom, note): one where all runs have the same notes, else one per run."""
    joined = ["; ".join(each) for each in notes]
    if len(set(joined)) == 1:
        return [(name, joined[0])] if joined[0] else []
    return [(f"{name}, {view.label}", note) for view, note in zip(views, joined, strict=True) if note]


def _model_name(name: str, longest: int = 32) -> str:
    """Return the telling end of a path or hub id."""
    short = name.rstrip("/").rpartition("/")[2] or name
    return short if len(short) <= longest else "…" + short[1 - longest :]


def _asked_for(row: RunRow) -> Sequence[str]:
    """Return groups in place of their tasks: `mmlu`, not 57 names."""
    groups = {group["name"]: tuple(group["members"]) for group in row.extra.get("groups", ())}
    inner = {member for members in groups.values() for member in members}
    names = [*(name for name in groups if name not in inner), *(task for task in row.tasks if task not in inner)]
    return names if row.plan.audit is None else [f"{row.plan.audit} of {names[0]}", *names[1:]]


def _few(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _one_run(rows: Sequence[Row], width: int) -> Padding:
    table = plain_table()
    with_chance = any(row.any_cell and row.any_cell.chance is not None for row in rows)
    with_calibration = width >= WIDE and any(_calibrated(row) for row in rows)
    table.add_column("task", overflow="fold")
    table.add_column("metric", no_wrap=True)
    for header in ("value", "95% interval", "n", *(["chance"] if with_chance else [])):
        table.add_column(header, justify="right", no_wrap=True)
    calibration = ("Brier", *_calibration_headers(rows)) if with_calibration else ()
    for header in calibration:
        table.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        cells: list[RenderableType] = [label_cell(row), metric_cell(row), *_numbers(row.any_cell)]
        if with_chance:
            cells.append(chance_cell(row.any_cell))
        cells += _calibration_cells(row)[: len(calibration)]
        table.add_row(*cells)
    return Padding(table, (0, 1))


def _numbers(cell: Estimate | None) -> list[RenderableType]:
    if cell is None:
        return ["", "", ""]
    shown = shown_value(cell.value, proportion=is_proportion(cell))
    return [Text(shown, style="bold"), interval_text(cell), f"{cell.n:,}"]


def _prompt_notes(cell: Estimate) -> list[str]:
    details = cell.details
    notes = []
    if details.get("n_leaked"):
        notes.append(f"{details['n_leaked']:,} with themselves or a near-duplicate among their shots")
    if absent := details.get("n_gold_absent"):
        first = details["first_gold_absent"]
        notes.append(
            f"{counted(absent, 'row')} whose right answer is none of the choices, counted wrong (first: {first})"
        )
    if details.get("n_cut"):
        notes.append(f"{counted(details['n_cut'], 'prompt')} cut from the left")
    if most := details.get("n_mostly_cut"):
        notes.append(f"more than half of the prompt was cut away in {most:,} of {cell.n:,}: this score says little")
    return notes


def _notes(cell: Estimate) -> list[str]:
    details = cell.details
    notes = []
    if cell.n_failed:
        notes.append(f"{cell.n_failed:,} failed, left out")
    if cell.n_unparsed:
        notes.append(f"{cell.n_unparsed:,} without an answer that could be read, counted wrong")
    if details.get("n_tied"):
        notes.append(f"{counted(details['n_tied'], 'tie')} for the best choice, credit shared")
    return [*notes, *floor_notes(cell)]


def _calibrated(row: Row) -> bool:
    return row.any_cell is not None and row.is_first and row.any_cell.details.get("brier") is not None


def _calibration_headers(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns after the Brier score's that would hold a number somewhere."""
    return CALIBRATION_HEADERS if any(any(_calibration_cells(row)[1:]) for row in rows) else ()


def _calibration_cells(row: Row) -> list[str]:
    if not _calibrated(row) or row.any_cell is None:
        return ["", "", ""]
    details = row.any_cell.details
    known = [details.get("calibration_error"), details.get("calibration_error_null")]
    if row.any_cell.n < FEWEST_CALIBRATED:
        known = [None, None]
    return [f"{details['brier']:.3f}", *("" if error is None else f"{100 * error:.1f}%" for error in known)]


def _calibration(rows: Sequence[Row]) -> Padding | None:
    calibrated = [row for row in rows if _calibrated(row)]
    if not calibrated:
        return None
    table = plain_table()
    table.add_column("calibration", overflow="fold")
    headers = ("Brier score", *_calibration_headers(calibrated))
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for row in calibrated:
        table.add_row(Text(row.label), *_calibration_cells(row)[: len(headers)])
    return Padding(table, (1, 1, 0, 1))


def _strip(estimate: Estimate, cells: int) -> Text:
    """Draw the interval as a bar on a scale from 0 to 100 per cent, its value as a point, chance as a mark."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return Text("")

    def at(share: float) -> int:
        return min(cells - 1, max(0, int(share * cells)))

    marks = ["·"] * cells
    for index in range(at(estimate.low), at(estimate.high) + 1):
        marks[index] = "━"
    if estimate.chance is not None:
        marks[at(estimate.chance)] = "┆" if marks[at(estimate.chance)] == "·" else "╂"
    marks[at(estimate.value)] = "●"
    return Text("".join(marks))
