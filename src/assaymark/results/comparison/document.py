"""Comparisons as documents: for each pair of runs the verdict, the differences and what limits them; and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Literal

from assaymark.documents.blocks import (
    Block,
    Bullets,
    Cell,
    Cells,
    Column,
    Figure,
    Heading,
    Mark,
    Paragraph,
    Table,
    table,
)
from assaymark.documents.charts import DifferencePoint, can_draw, difference_charts
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import counted, shown_p, shown_value
from assaymark.errors import clipped
from assaymark.records import JsonValue
from assaymark.results.comparison.records import OVERALL, Comparison, Difference, Flip, PairComparison
from assaymark.results.comparison.verdict import shown_interval_of, shown_line_difference, table_notes
from assaymark.results.evidence.records import FOLD_ABOVE
from assaymark.results.evidence.win_rates import WinRates

MAX_SET_UP_LINES = 12
MAX_FLIPS = 5  # per task and direction, in the document; the JSON has all
LONGEST_ANSWER = 34
ROLES: dict[str, Literal["", "total"]] = {OVERALL: "total", "task": ""}
MARKS: dict[int | None, Mark] = {None: "", 0: "worse", 1: "better"}


def comparison_document(comparison: Comparison, *, unfold: bool = False) -> Document:
    """Return every pair's verdict, differences and differences in set-up; with three or more runs also their ranks.

    Tasks of a large group are folded into the group's line unless `unfold` is set.
    """
    parts: list[Block] = []
    for number, pair in enumerate(comparison.pairs, 1):
        parts += [Paragraph(pair.verdict, "verdict"), *pair_blocks(pair, number, unfold=unfold)]
    return document(parts, ranks_blocks(comparison))


def pair_blocks(pair: PairComparison, number: int, *, unfold: bool = False) -> list[Block]:
    """Return a pair's differences, as a table and drawn, and what limits them."""
    lines = ordered_lines(pair, unfold=unfold)
    n_right = sum(flip.is_better for flip in pair.flips)
    changed = f"answers that changed: {n_right:,} became right, {len(pair.flips) - n_right:,} became wrong"
    notes = [metrics_note([line for line, _ in lines]), *([changed] if pair.flips else []), *table_notes(pair)]
    set_up = [f"set-up differs: {line}" for line in pair.set_up[:MAX_SET_UP_LINES]]
    if len(pair.set_up) > MAX_SET_UP_LINES:
        set_up.append(f"and {len(pair.set_up) - MAX_SET_UP_LINES} more (--json)")
    warnings = (*set_up, *pair.notes, *_excluded(pair))
    return [
        _differences(pair, lines),
        *_figure(pair, lines, f"differences-{number}"),
        *(Paragraph(note, "facts") for note in notes if note),
        *([Bullets(warnings, "warning")] if warnings else []),
    ]


def _differences(pair: PairComparison, lines: Sequence[tuple[Difference, int]]) -> Table:
    rows: list[Cells] = []
    for line, depth in lines:
        name, first, second, difference, *others = shown_cells(line, depth)
        below = "neither is better" if line.is_neutral else "" if line.higher_is_better else "lower is better"
        title = Cell(name, below, depth=depth, role=ROLES.get(line.kind, "group"))
        rows.append((title, line.metric, first, second, Cell(difference, mark=MARKS[line.better]), *others))
    metric = Column("metric", "text", is_extra=True)
    labels = [Column(label, short=letter) for label, letter in zip(pair.labels, "AB", strict=True)]
    changed = Column("+ / -", help="answers that became right / wrong", is_extra=True)
    gain = Column("diff.", help="second minus first; of percentages, points")
    return table(("task", metric, *labels, gain, "95% interval", "p", "n", changed), rows)


def difference_points(lines: Sequence[tuple[Difference, int]]) -> list[DifferencePoint]:
    """Return the points of a chart of differences: of the lines that are shares and have an interval."""
    return [
        DifferencePoint(
            "\u2003" * depth + ((line.label if depth else "") or line.name),
            line.gain,
            min(_gains(line)),
            max(_gains(line)),
            {None: "not significant", 0: "worse", 1: "better"}[line.better],
        )
        for line, depth in lines
        if line.scale == "proportion" and line.low is not None and line.high is not None
    ]


def _figure(pair: PairComparison, lines: Sequence[tuple[Difference, int]], name: str) -> list[Block]:
    points = difference_points(lines)
    if not points or not can_draw():
        return []
    caption = (
        f"{pair.labels[1]} minus {pair.labels[0]} on the same samples, with 95% intervals; to the right "
        f"{pair.labels[1]} is better. Coloured if the difference is significant at 5%"
        + (", corrected for the number of tasks." if len(pair.tasks) > 1 else ".")
    )
    return [Figure(name, caption, lambda: difference_charts(points))]


def _gains(line: Difference) -> tuple[float, float]:
    low, high = line.low or 0.0, line.high or 0.0
    return (low, high) if line.higher_is_better or line.kind == OVERALL else (-low, -high)


def ranks_blocks(comparison: Comparison) -> list[Block]:
    """Return the possible ranks of each run, given which differences are significant; nothing for two runs."""
    rows = []
    for rank in comparison.ranks:
        possible = str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}"
        beaten = ", ".join(comparison.labels[index] for index in rank.beats) or "none"
        rows.append((possible, comparison.labels[rank.index], beaten))
    columns = ("rank", Column("run", "text"), Column("significantly better than", "text"))
    return [Heading("Ranks", 3), table(columns, rows, n_text=0)] if rows else []


def flips_blocks(comparison: Comparison) -> list[Block]:
    """Return the samples whose outcome changed, those that became wrong first."""
    parts: list[Block] = []
    for pair in comparison.pairs:
        for title, flips in (
            (f"right in {pair.labels[0]}, wrong in {pair.labels[1]}", [f for f in pair.flips if not f.is_better]),
            (f"wrong in {pair.labels[0]}, right in {pair.labels[1]}", [f for f in pair.flips if f.is_better]),
        ):
            parts.append(Heading(f"{title}: {len(flips):,}", 3))
            for task in tasks_by_change(pair):
                if own := [flip for flip in flips if flip.task == task]:
                    parts += _flips_of(task, own, pair.labels)
    return parts


def comparison_to_json(comparison: Comparison, rates: Sequence[WinRates] = ()) -> dict[str, JsonValue]:
    """Return the comparison as JSON values; shares are in [0, 1], differences are second minus first."""
    return {
        "runs": [
            {"label": label, "run_id": run_id}
            for label, run_id in zip(comparison.labels, comparison.run_ids, strict=True)
        ],
        "verdict": comparison.verdict,
        "pairs": [
            {
                "first": {"label": pair.labels[0], "run_id": pair.run_ids[0]},
                "second": {"label": pair.labels[1], "run_id": pair.run_ids[1]},
                "verdict": pair.verdict,
                "overall": None if pair.overall is None else _line_json(pair.overall, pair.labels),
                "groups": [_line_json(line, pair.labels) for line in pair.groups],
                "tasks": [_line_json(line, pair.labels) for line in pair.tasks],
                **({"scorers": [_line_json(line, pair.labels) for line in pair.scorers]} if pair.scorers else {}),
                "set_up": list(pair.set_up),
                "notes": list(pair.notes),
                "flips": [asdict(flip) for flip in pair.flips],
            }
            for pair in comparison.pairs
        ],
        "ranks": [
            {
                "label": comparison.labels[rank.index],
                "best": rank.best,
                "worst": rank.worst,
                "beats": [comparison.labels[index] for index in rank.beats],
            }
            for rank in comparison.ranks
        ],
        "win_rates": [
            {
                "suite": each.suite,
                "columns": list(each.columns),
                "why": each.why,
                "runs": [{"label": label, "run_id": run_id} for label, run_id in each.runs],
                "rates": [{"value": r.value, "low": r.low, "high": r.high, "stderr": r.stderr} for r in each.rates],
            }
            for each in rates
        ],
    }


def metrics_note(lines: Sequence[Difference]) -> str:
    """Return which metric each line of a table compares, lines of one metric together; empty for no line."""
    names: dict[str, list[str]] = {}
    for line in lines:
        if line.kind not in {OVERALL, "scorer"} and line.metric:
            names.setdefault(line.metric, []).append(line.label or line.name)
    if len(names) == 1:
        return f"metric: {next(iter(names))}"
    longest = max(names, key=lambda metric: len(names[metric]), default="")
    listed = [f"{metric} ({', '.join(of)})" for metric, of in names.items() if metric != longest]
    return f"metric: {', '.join(listed)}; {longest} elsewhere" if listed else ""


def _excluded(pair: PairComparison) -> list[str]:
    missing = sum(line.n_missing for line in pair.tasks)
    return (
        [f"{counted(missing, 'sample')} excluded: one run has no answer to {'it' if missing == 1 else 'them'}"]
        if missing
        else []
    )


def ordered_lines(pair: PairComparison, *, unfold: bool = True) -> list[tuple[Difference, int]]:
    """Return the lines in display order with their depth: each group above its members, the overall line last."""
    ordered: list[tuple[Difference, int]] = []
    done: set[str] = set()

    def add(group: Difference, depth: int) -> None:
        done.add(group.name)
        ordered.append((group, depth))
        inside = set(group.members)
        for other in pair.groups:
            if other.name not in done and set(other.members) <= inside:
                add(other, depth + 1)
        own = [line for line in pair.tasks if line.name in inside and line.name not in done]
        done.update(line.name for line in own)
        if unfold or len(own) <= FOLD_ABOVE:
            ordered.extend(
                (replace(line, label=line.label or line.name.removeprefix(f"{group.name}_")), depth + 1) for line in own
            )

    for task in pair.tasks:
        holders = [group for group in pair.groups if task.name in group.members and group.name not in done]
        if holders and task.name not in done:
            add(max(holders, key=lambda group: len(group.members)), 0)
        if task.name not in done:
            ordered.append((task, 0))
            done.add(task.name)
    ordered += [(line, 0) for line in pair.scorers]
    overall = [(pair.overall, 0)] if pair.overall is not None and len(pair.tasks) > 1 else []
    return [*ordered, *overall]


def shown_cells(line: Difference, depth: int = 0) -> list[str]:
    """Return a line's cells: name, both values, difference, interval, p, n, answers that became right and wrong."""
    is_share = line.scale == "proportion"
    name = (line.label if depth else "") or line.name
    return [
        f"{name} ({line.n_tasks})" if line.kind == "group" else name,
        shown_value(line.first, proportion=is_share),
        shown_value(line.second, proportion=is_share),
        shown_line_difference(line),
        shown_interval_of(line),
        shown_p(line.p if line.p_adjusted is None else line.p_adjusted),
        f"{line.n:,}",
        "" if line.n_gained is None else f"{line.n_gained:,} / {line.n_lost or 0:,}",
    ]


def _line_json(line: Difference, labels: tuple[str, str]) -> dict[str, JsonValue]:
    better = line.better
    return {**asdict(line), "gain": line.gain, "better": None if better is None else labels[better]}


def tasks_by_change(pair: PairComparison) -> list[str]:
    """Return the tasks, significant differences first, then by decreasing absolute difference."""
    ordered = sorted(pair.tasks, key=lambda line: (not line.is_significant, -abs(line.difference)))
    return [line.name for line in ordered]


def _flips_of(task: str, flips: Sequence[Flip], labels: tuple[str, str]) -> list[Block]:
    rows = []
    for flip in flips[:MAX_FLIPS]:
        index = str(flip.first_index)
        index += "" if flip.first_index == flip.second_index else f" / {flip.second_index}"
        first = _flipped(flip.first_answer, flip.first_picked, flip.first)
        rows.append((index, first, _flipped(flip.second_answer, flip.second_picked, flip.second)))
    more = len(flips) - MAX_FLIPS
    return [
        Heading(f"{task}: {len(flips):,}", 4),
        table(("sample", *(Column(label, "text") for label in labels)), rows, n_text=0),
        *([Paragraph(f"and {more:,} more (--json)", "facts")] if more > 0 else []),
    ]


def _flipped(answer: str | None, picked: int | None, score: float) -> str:
    """Return the answer as the choice's text, else its number; with its score if that is neither 0 nor 1."""
    text = answer if answer is not None else "" if picked is None else f"choice {picked}"
    tail = "" if text and score in {0.0, 1.0} else f"score {score:.3g}"
    return ", ".join(part for part in (clipped(text, LONGEST_ANSWER), tail) if part)
