"""What a multiple choice task gives away: chance, the best constant answer, and a model that never sees the question.

A score means something above the highest of the three. Chance is the mean of one over the number of choices; the best
constant answer always picks the place in which the right choice stands most often (yes-or-no questions are rarely
balanced). A model can follow it where the choices are the same for every sample (letters, yes and no); elsewhere only
ties can. The question-blind floor is the same model asked with the questions taken out, where that was asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding

from evalstone.records import Estimate
from evalstone.report.console import Text
from evalstone.report.evidence.groups import GroupCell
from evalstone.report.evidence.records import ScoreRow
from evalstone.report.numbers import shown_value
from evalstone.report.views.cells import chance_cell, plain_table, value_text
from evalstone.report.views.layout import Row

__all__ = [
    "BLIND",
    "ConstantAnswers",
    "baseline_cells",
    "baseline_notes",
    "baseline_rows",
    "baselines_table",
    "highest_baseline",
    "with_baselines",
]

CONSTANT, CONSTANT_CHOICE, CONSTANT_TEXT = "best_constant", "best_constant_choice", "best_constant_text"
BLIND = "question_blind"
LONGEST_TEXT = 24  # characters of a choice beside its floor
FEWEST_IN_MEMBER = 20  # samples: with fewer the best of a task's places is mostly luck, and so is the groups' mean
HEADERS = ("chance", "best constant answer", "question-blind")


@dataclass(slots=True)
class ConstantAnswers:
    """Collects which choices are right while scores pass by."""

    _golds: dict[str, dict[int, tuple[int, ...]]] = field(default_factory=dict)  # task -> sample -> right choices
    _texts: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # of a task's choices; None: they vary

    def watch(self, rows: Iterable[ScoreRow]) -> Iterator[ScoreRow]:
        """Yield the rows as they come."""
        for row in rows:
            if row.gold:
                self._golds.setdefault(row.task, {})[row.sample_index] = row.gold
                self._texts[row.task] = _in_common(self._texts.get(row.task, row.choices), row.choices)
            yield row

    def text(self, task: str, place: int) -> str | None:
        """Return what stands in a place in every sample; None where samples differ in that, or there is only one."""
        texts = self._texts.get(task)
        is_known = texts is not None and place < len(texts) and len(self._golds[task]) > 1
        return " ".join(texts[place].split()) if texts is not None and is_known else None

    def best(self, task: str) -> tuple[float, int] | None:
        """Return what always picking one place scores, for the best place, and the place; None without choices."""
        golds = self._golds.get(task)
        if not golds:
            return None
        counts: dict[int, int] = {}
        for gold in golds.values():
            for place in set(gold):
                counts[place] = counts.get(place, 0) + 1
        place = min(counts, key=lambda each: (-counts[each], each))
        return counts[place] / len(golds), place


def _in_common(known: tuple[str, ...] | None, choices: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the longer of two lists of choices if it begins with the other."""
    if known is None:
        return None
    short, long = sorted((known, choices), key=len)
    return long if short and long[: len(short)] == short else None


def with_baselines(
    estimates: Sequence[Estimate], constant: ConstantAnswers, blind: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> tuple[Estimate, ...]:
    """Return the estimates with floors in their details; a group's is the mean of its tasks', weighted as its value.

    Args:
        estimates: of tasks, and groups before them.
        constant: what was collected from their scores.
        blind: task -> metric -> value, low, high and n, as `question_blind` of a run holds them.
    """
    found: list[Estimate] = []
    for estimate in estimates:
        own = _of_task(estimate, constant, blind) if estimate.details.get("kind") == "task" else {}
        found.append(replace(estimate, details={**estimate.details, **own}) if own else estimate)
    return tuple(_with_group_baselines(estimate, found) for estimate in found)


def _of_task(
    estimate: Estimate, constant: ConstantAnswers, blind: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    if estimate.chance is None:
        return {}
    details: dict[str, Any] = {}
    best = constant.best(estimate.task)
    if best is not None:
        details = {CONSTANT: best[0], CONSTANT_CHOICE: best[1], CONSTANT_TEXT: constant.text(estimate.task, best[1])}
    asked = blind.get(estimate.task, {}).get(estimate.metric)
    return details | ({BLIND: dict(asked)} if asked is not None else {})


def _with_group_baselines(group: Estimate, estimates: Sequence[Estimate]) -> Estimate:
    if group.details.get("kind") != "group" or group.chance is None:
        return group
    leaves = [
        one
        for one in estimates
        if one.details.get("kind") == "task"
        and group.task in one.details.get("path", ())
        and (one.metric, one.filter) == (group.metric, group.filter)
    ]
    known = [one for one in leaves if one.details.get(CONSTANT) is not None]
    if not leaves or len(known) < len(leaves) or min(one.n for one in leaves) < FEWEST_IN_MEMBER:
        return group
    cell = GroupCell(group.metric, group.filter, (), group.details.get("weighting") == "micro")
    weights = cell.weights([one.n for one in known])
    mean = sum(weight * float(one.details[CONSTANT]) for weight, one in zip(weights, known, strict=True))
    return replace(group, details={**group.details, CONSTANT: mean})


def highest_baseline(estimate: Estimate) -> tuple[str, float] | None:
    """Return the name and height of the highest floor that a model can stand on; None for a task without choices."""
    details = estimate.details
    blind, text = details.get(BLIND), details.get(CONSTANT_TEXT)
    floors = {
        "chance": estimate.chance,
        f"always answering {text!r}": details.get(CONSTANT) if text is not None else None,
        "the question-blind model": blind["value"] if blind else None,
    }
    known = {name: value for name, value in floors.items() if value is not None}
    return max(known.items(), key=lambda item: item[1]) if known else None


def baseline_cells(estimate: Estimate | None) -> list[str]:
    """Return the three floors as they are shown; empty where unknown."""
    if estimate is None:
        return ["", "", ""]
    details = estimate.details
    constant, place, blind = details.get(CONSTANT), details.get(CONSTANT_CHOICE), details.get(BLIND)
    shown = "" if constant is None else shown_value(constant, proportion=True)
    if place is not None:
        text = details.get(CONSTANT_TEXT)
        shown += f" (place {place + 1})" if text is None else f" ({shorten(text, LONGEST_TEXT, placeholder=' …')})"
    return [chance_cell(estimate), shown, "" if blind is None else shown_value(blind["value"], proportion=True)]


def baseline_notes(estimate: Estimate) -> list[str]:
    """Return a warning where a value above chance is not shown to be above the highest floor."""
    floor = highest_baseline(estimate)
    if floor is None or estimate.low is None or estimate.chance is None or floor[0] == "chance":
        return []
    if estimate.low <= floor[1] and estimate.low > estimate.chance:
        return [f"above chance, not shown to be above {floor[0]} ({shown_value(floor[1], proportion=True)})"]
    return []


def baseline_rows(rows: Sequence[Row]) -> tuple[tuple[str, ...], list[tuple[Row, list[str]]]]:
    """Return headers, and the headline value and floors of each task whose best constant answer is known."""
    of_name: dict[tuple[str, str], Row] = {}
    for row in rows:
        cell, place = row.any_cell, (row.name, row.label)
        if cell is None or cell.details.get(CONSTANT) is None:
            continue
        if place not in of_name or (_stands_for_task(row) and not _stands_for_task(of_name[place])):
            of_name[place] = row
    known = list(of_name.values())
    with_blind = any(row.any_cell and row.any_cell.details.get(BLIND) for row in known)
    shown = 3 if with_blind else 2
    return ("value", *HEADERS[:shown]), [
        (row, [value_text(row.any_cell), *baseline_cells(row.any_cell)[:shown]]) for row in known
    ]


def _stands_for_task(row: Row) -> bool:
    return row.any_cell is not None and bool(row.any_cell.details.get("primary", True))


def baselines_table(rows: Sequence[Row]) -> RenderableType | None:
    """Return what answering without the question scores, one line per task; None where no task has choices."""
    headers, known = baseline_rows(rows)
    if not known:
        return None
    table = plain_table()
    table.add_column("floors", overflow="fold")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for row, cells in known:
        table.add_row(Text("  " * row.depth + row.label), *cells)
    return Padding(table, (1, 1, 0, 1))
