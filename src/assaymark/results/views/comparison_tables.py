"""Comparisons as tables: one table per pair of runs with the verdict under it, changed samples, JSON and Markdown."""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.records import JsonValue
from assaymark.results.comparison.records import OVERALL, Comparison, Difference, Flip, PairComparison
from assaymark.results.comparison.verdict import shown_interval_of, shown_line_difference, table_notes
from assaymark.results.console import Text
from assaymark.results.numbers import shown_p, shown_value
from assaymark.results.views.cells import FOLD_ABOVE, Sized, plain_table

LONGEST_HEADER = 12
MAX_SET_UP_LINES = 12
LOWER = 16  # columns of "lower is better" with its indent, less one
MIN_NAME = 15  # columns that a name gets at least before it is broken at its underscores
MAX_FLIPS = 5  # per task and direction, in the drawn list
LONGEST_ANSWER = 34
MARKS = {1: "▲", 0: "▼", None: " "}
STYLES = {1: "green", 0: "red", None: ""}


def comparison_table(comparison: Comparison, *, unfold: bool = False) -> RenderableType:
    """Return every pair's table, verdict and set-up differences; with three or more runs also their ranks.

    Tasks of a large group are folded into the group's line unless `unfold` is set.
    """
    parts: list[RenderableType] = []
    for pair in comparison.pairs:
        parts += [_pair_table(pair, unfold), _pair_lines(pair)]
    if comparison.ranks:
        parts.append(ranks_table(comparison))
    return Group(*parts)


def ranks_table(comparison: Comparison) -> RenderableType:
    """Return the possible ranks of each run, given which differences are significant."""
    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("run", overflow="fold")
    table.add_column("significantly better than", overflow="fold")
    for possible_ranks, label, beaten in _rank_rows(comparison):
        table.add_row(possible_ranks, label, Text(beaten, style="dim"))
    return Padding(table, (0, 1, 1, 1))


def _rank_rows(comparison: Comparison) -> list[list[str]]:
    return [
        [
            str(rank.best) if rank.best == rank.worst else f"{rank.best}–{rank.worst}",
            comparison.labels[rank.index],
            ", ".join(comparison.labels[index] for index in rank.beats) or "none",
        ]
        for rank in comparison.ranks
    ]


def flips_table(comparison: Comparison) -> RenderableType:
    """Return the samples whose outcome changed, those that became wrong first."""
    parts: list[RenderableType] = []
    for pair in comparison.pairs:
        for title, flips in (
            (f"right in {pair.labels[0]}, wrong in {pair.labels[1]}", [f for f in pair.flips if not f.is_better]),
            (f"wrong in {pair.labels[0]}, right in {pair.labels[1]}", [f for f in pair.flips if f.is_better]),
        ):
            parts.append(Text(f" {title}: {len(flips):,}", style="bold"))
            for task in tasks_by_change(pair):
                own = [flip for flip in flips if flip.task == task]
                parts += [Padding(_flips_of(task, own, pair.labels), (0, 1, 1, 1))] if own else []
    return Group(*parts)


def comparison_to_json(comparison: Comparison) -> dict[str, JsonValue]:
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
    }


def comparison_markdown(comparison: Comparison) -> str:
    """Return the comparison for a pull request's comment; with three or more runs also their ranks."""
    parts = []
    for pair in comparison.pairs:
        header = ["task", "metric", *pair.labels, "difference", "95% interval", "p", "n", "became right / wrong"]
        rows = [header, ["---", "---", *["---:"] * (len(header) - 2)]]
        rows += [
            [line.name + ("" if line.higher_is_better else " (lower is better)"), line.metric, *shown_cells(line)[1:]]
            for line, _ in ordered_lines(pair)
        ]
        parts.append(f"**{pair.verdict}**\n")
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n")
        parts += [f"- {line}\n" for line in (*table_notes(pair), *pair.set_up, *pair.notes, *_excluded(pair))]
    if comparison.ranks:
        rows = [["rank", "run", "significantly better than"], ["---:", "---", "---"], *_rank_rows(comparison)]
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n")
    return "\n".join(parts)


def _pair_table(pair: PairComparison, unfold: bool) -> RenderableType:
    ordered = ordered_lines(pair, unfold=unfold)
    lines = [line for line, _ in ordered]
    rows = [shown_cells(line, depth) for line, depth in ordered]

    def laid_out(width: int) -> RenderableType:
        headers = ["task", *pair.labels, "diff.", "95% interval", "p", "n", "+ / -"]
        legend = Text("")
        if max(map(len, pair.labels)) > LONGEST_HEADER:
            headers[1:3] = ["A", "B"]
            legend = Text(f" A {pair.labels[0]}, B {pair.labels[1]}")
        sizes = [max(len(header), *(len(row[i]) + 2 * (i == 3) for row in rows)) for i, header in enumerate(headers)]
        n_kept = len(headers) if sum(sizes) + 2 * len(sizes) <= width else len(headers) - 1
        table = plain_table()
        left = max(MIN_NAME, width - 2 - sum(sizes[1:n_kept]) - 2 * (n_kept - 1))
        table.add_column(headers[0], no_wrap=sizes[0] <= left, overflow="fold")
        for header in headers[1:n_kept]:
            table.add_column(header, justify="right", no_wrap=True)
        for index, (line, row) in enumerate(zip(lines, rows, strict=True)):
            cells: list[RenderableType] = [_name_cell(line, row[0], left), *row[1:n_kept]]
            cells[3] = Text(f"{row[3]} {MARKS[line.better]}", style=STYLES[line.better])
            is_before_overall = index + 1 < len(lines) and lines[index + 1].kind == OVERALL
            table.add_row(*cells, end_section=is_before_overall)
        parts: list[RenderableType] = [legend] if legend.plain else []
        parts.append(Padding(table, (0, 1)))
        if n_kept < len(headers):
            n_right = sum(flip.is_better for flip in pair.flips)  # as `--flips` lists them
            changed = f" answers that changed: {n_right:,} became right, {len(pair.flips) - n_right:,} became wrong"
            parts.append(Text(changed, style="dim"))
        notes = [metrics_note(lines), *table_notes(pair)]
        parts += [Padding(Text(note, style="dim"), (0, 1)) for note in notes if note]
        return Group(*parts)

    return Sized(laid_out)


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


def _pair_lines(pair: PairComparison) -> RenderableType:
    winner = pair.overall.better if pair.overall is not None else None
    lines = [Text(pair.verdict, style=f"bold {STYLES[winner]}".strip())]
    set_up = list(pair.set_up[:MAX_SET_UP_LINES])
    if len(pair.set_up) > MAX_SET_UP_LINES:
        set_up.append(f"and {len(pair.set_up) - MAX_SET_UP_LINES} more (--json)")
    lines += [Text(f"! set-up differs: {line}", style="yellow") for line in set_up]
    lines += [Text(f"! {line}", style="yellow") for line in pair.notes]
    lines += [Text(f"! {line}", style="yellow") for line in _excluded(pair)]
    return Group(*(Padding(line, (1 if index == 0 else 0, 1, 0, 1)) for index, line in enumerate(lines)), Text(""))


def _excluded(pair: PairComparison) -> list[str]:
    missing = sum(line.n_missing for line in pair.tasks)
    return [f"{missing:,} samples are excluded: one run has no answer to them"] if missing else []


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
            ordered.extend((_shortened(line, group), depth + 1) for line in own)

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


def _shortened(line: Difference, group: Difference) -> Difference:
    """Return a member's line labelled for display under its group: its alias, or its name without the group's."""
    return replace(line, label=line.label or line.name.removeprefix(f"{group.name}_"))


def _name_cell(line: Difference, name: str, width: int) -> Text:
    """Return a name, broken at its underscores if it is wider than the column."""
    rows = [""]
    for piece in re.findall(r"[^_\-/ ]*[_\-/ ]?", name):
        if rows[-1].strip() and len(rows[-1]) + len(piece.rstrip()) > width:
            rows.append("  ")
        rows[-1] += piece
    text = Text("\n".join(row.rstrip() for row in rows), style="bold" if line.kind != "task" else "")
    if line.is_neutral:
        text.append(f"\n{'  ' if width > LOWER else ''}neither is better", style="not bold dim")
    elif not line.higher_is_better:
        text.append(f"\n{'  ' if width > LOWER else ''}lower is better", style="not bold dim")
    return text


def shown_cells(line: Difference, depth: int = 0) -> list[str]:
    """Return a line's cells: name, both values, difference, interval, p, n, answers that became right and wrong."""
    is_share = line.scale == "proportion"
    name = (line.label if depth else "") or line.name
    return [
        "  " * depth + (f"{name} ({line.n_tasks})" if line.kind == "group" else name),
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


def _flips_of(task: str, flips: Sequence[Flip], labels: tuple[str, str]) -> RenderableType:
    table = plain_table()
    table.add_column("sample", justify="right", no_wrap=True)
    for label in labels:
        table.add_column(label, overflow="fold")
    for flip in flips[:MAX_FLIPS]:
        index = str(flip.first_index)
        index += "" if flip.first_index == flip.second_index else f" / {flip.second_index}"
        first = _flipped(flip.first_answer, flip.first_picked, flip.first)
        table.add_row(index, first, _flipped(flip.second_answer, flip.second_picked, flip.second))
    parts: list[RenderableType] = [Text(f"{task}: {len(flips):,}", style="bold"), table]
    if len(flips) > MAX_FLIPS:
        parts.append(Text(f"and {len(flips) - MAX_FLIPS:,} more (--json)", style="dim"))
    return Group(*parts)


def _flipped(answer: str | None, picked: int | None, score: float) -> Text:
    """Return the answer as the choice's text, else its number; with its score if that is neither 0 nor 1."""
    text = answer if answer is not None else "" if picked is None else f"choice {picked}"
    text = text if len(text) <= LONGEST_ANSWER else text[: LONGEST_ANSWER - 1] + "…"
    tail = "" if text and score in {0.0, 1.0} else f"score {score:.3g}"
    return Text(", ".join(part for part in (text, tail) if part))
