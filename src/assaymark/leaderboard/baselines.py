"""Rows that are no models: guessing and the best constant answer, computed from the data; people, as cited.

What guessing scores comes from the stored runs' own samples (the mean of one over the number of choices), the best
constant answer from how often each choice is the right one. Where no run holds a benchmark, the suite's own number
counts. The averages go through the same rule as every model's; none is ever typed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from assaymark.leaderboard.averages import average_of
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.keys import slug
from assaymark.leaderboard.own_rows import estimates_of_member, number_of, scored_columns, with_present_names
from assaymark.leaderboard.rows import Average, Cell, Number, Row, ScoreColumn
from assaymark.leaderboard.stored import StoredRun
from assaymark.records import Estimate
from assaymark.statistics.board_scores import Part
from assaymark.tasks.suite_scores import MemberScore
from assaymark.tasks.suites import Member, Suite

__all__ = ["baseline_rows"]

CONSTANT = "best_constant"  # in an estimate's details: what always picking one choice scores


def baseline_rows(board: Board, columns: Sequence[ScoreColumn], runs: Sequence[StoredRun]) -> list[Row]:
    """Return the rows that a board has beside its models'; columns that are not known stay empty."""
    rows: list[Row | None] = []
    if board.suite is not None:
        runs = [with_present_names(run) for run in runs if not run.is_upload]
        rows.append(_computed(board.suite, columns, runs, "Random", _chance, "random guessing: one over the number of "
                              "choices, averaged over the samples"))  # fmt: skip
        rows.append(_computed(board.suite, columns, runs, "Majority class", _constant,
                              "always the most frequent correct choice, counted on the samples"))  # fmt: skip
    rows += [_cited(one.name, one.scores, one.source, columns) for one in board.baselines]
    found: dict[str, Row] = {}
    for row in rows:
        if row is not None:
            again = sum(known.partition("~")[0] == row.id for known in found) + 1
            one = row if again == 1 else replace(row, id=f"{row.id}~{again}")  # names in other scripts share a slug
            found[one.id] = one
    return list(found.values())


def _computed(
    suite: Suite,
    columns: Sequence[ScoreColumn],
    runs: Sequence[StoredRun],
    name: str,
    of: Callable[[Member, Sequence[Estimate]], float | None],
    citation: str,
) -> Row | None:
    members = [_member(member, runs, of) for member in suite.members]
    if not any(members):
        return None
    counted, raw = scored_columns(suite, members)
    raws = {} if raw is None else {title: number_of(number) for title, number in raw.columns}
    keys = {column.title: column.key for column in columns}
    cells = {keys[title]: Cell(Number(number.value), raws.get(title)) for title, number in counted.columns}
    whole = counted.value
    if whole is not None:
        average: Average | None = Average(Number(whole.value), len(columns))
    else:
        average = average_of(columns, cells, "geometric" if suite.aggregate == "geometric" else "weighted")
    return Row(
        id=f"baseline-{slug(name)}", model=name, origin="baseline", cells=cells, average=average,
        facts={"origin": "baseline"}, citation=citation,
    )  # fmt: skip


def _member(
    member: Member, runs: Sequence[StoredRun], of: Callable[[Member, Sequence[Estimate]], float | None]
) -> MemberScore | None:
    """Return what a baseline scores in a member, from the run with the most samples of it.

    A run that was measured here comes before any file: files seldom hold what guessing scores.
    """
    known = [(run, found) for run in runs if (found := estimates_of_member(member, run))]
    _, best = max(
        known, key=lambda one: (not one[0].is_self_reported, sum(each.n for each in one[1])), default=(None, [])
    )
    value = of(member, best)
    chance = member.chance if isinstance(member.chance, float) else _chance(member, best)
    return None if value is None else MemberScore(Part(value), chance)


def _chance(member: Member, estimates: Sequence[Estimate]) -> float | None:
    """Return what guessing scores; the suite's number where no run says."""
    found = _mean([one.chance for one in estimates])
    if found is not None:
        return found
    return member.chance if isinstance(member.chance, float) else None


def _constant(member: Member, estimates: Sequence[Estimate]) -> float | None:  # noqa: ARG001 - as `_chance`
    return _mean([one.details.get(CONSTANT) for one in estimates])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _cited(name: str, given: Mapping[str, float], source: str, columns: Sequence[ScoreColumn]) -> Row:
    cells = {}
    for column in columns:
        if column.title in given:
            value = float(given[column.title]) / (100.0 if column.is_share else 1.0)
            cells[column.key] = Cell(Number(value))
    return Row(
        id=f"baseline-{slug(name)}", model=name, origin="baseline", cells=cells,
        average=average_of(columns, cells, "weighted"), facts={"origin": "baseline"}, citation=source,
    )  # fmt: skip
