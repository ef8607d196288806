"""Numbers of others beside a board's models: baselines as rows of their own, and claims below a model's scores.

Baselines are guessing and the best constant answer, computed from the data, and people, as cited. The score of guessing
is computed from the stored runs' samples (the mean of one over the number of choices), that of the best constant answer
from the frequencies of right choices. If no run holds a benchmark, the suite's own number is used. The averages follow
the same rule as every model's. Claims are what a paper or a model card states, from the board's file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from assaymark.leaderboard.about import cited_human
from assaymark.leaderboard.averages import average_of
from assaymark.leaderboard.board import Board, CitedScores, slug
from assaymark.leaderboard.guide import measured_task
from assaymark.leaderboard.own_rows import estimates_of_member, number_of, scored_columns, with_present_names
from assaymark.leaderboard.rows import Average, BoardRow, ClaimedScore, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.stored import StoredRun
from assaymark.records import Estimate
from assaymark.statistics.board_scores import Part
from assaymark.tasks.suite_scores import MemberScore
from assaymark.tasks.suites import Member, Suite

PEOPLE: Final = "People (cited)"
CONSTANT: Final = "best_constant"  # in an estimate's details: the score of always picking the same choice
FEWEST_OF_MAJORITY = 1_000  # samples, if the task has more: of 50 the commonest of four letters is 38%, not 26%


def baseline_rows(board: Board, columns: Sequence[ScoreColumn], runs: Sequence[StoredRun]) -> list[BoardRow]:
    """Return the rows that a board has beside its models'; columns that are not known stay empty."""
    rows: list[BoardRow | None] = []
    if board.suite is not None:
        runs = [with_present_names(run) for run in runs if not run.is_upload]
        rows.append(_computed(board.suite, columns, runs, "Random", _chance, "random guessing: one over the number of "
                              "choices, averaged over the samples"))  # fmt: skip
        rows.append(_computed(board.suite, columns, runs, "Majority class", _constant,
                              "always the most frequent correct choice, counted on all samples, or 1,000"))  # fmt: skip
    if board.has_card_baselines:
        rows.append(_people(board, columns))
    rows += [_cited(scores.name, scores.scores, scores.source, columns) for scores in board.baselines]
    by_id: dict[str, BoardRow] = {}
    for row in rows:
        if row is not None:
            again = sum(known.partition("~")[0] == row.id for known in by_id) + 1
            named_row = (
                row if again == 1 else replace(row, id=f"{row.id}~{again}")
            )  # names in other scripts share a slug
            by_id[named_row.id] = named_row
    return list(by_id.values())


def _computed(
    suite: Suite,
    columns: Sequence[ScoreColumn],
    runs: Sequence[StoredRun],
    name: str,
    of: Callable[[Member, Sequence[Estimate]], float | None],
    citation: str,
) -> BoardRow | None:
    members = [_member(member, runs, of) for member in suite.members]
    if not any(members):
        return None
    counted, raw = scored_columns(suite, members)
    raws = {} if raw is None else {title: number_of(number) for title, number in raw.columns}
    keys = {column.title: column.key for column in columns}
    cells = {keys[title]: RowScore(IntervalValue(number.value), raws.get(title)) for title, number in counted.columns}
    whole = counted.value
    if whole is not None:
        average: Average | None = Average(IntervalValue(whole.value), len(columns))
    else:
        average = average_of(columns, cells, "geometric" if suite.aggregate == "geometric" else "weighted")
    return BoardRow(
        id=f"baseline-{slug(name)}", model=name, origin="baseline", cells=cells, average=average,
        facts={"origin": "baseline"}, citation=citation,
    )  # fmt: skip


def _member(
    member: Member, runs: Sequence[StoredRun], of: Callable[[Member, Sequence[Estimate]], float | None]
) -> MemberScore | None:
    """Return a baseline's score in a member, from the run with the most samples of it.

    Runs measured here come before files, which seldom hold the score of guessing.
    """
    known = [(run, estimates) for run in runs if (estimates := estimates_of_member(member, run))]
    _, best = max(
        known, key=lambda pair: (pair[0].origin == "measured", sum(each.n for each in pair[1])), default=(None, [])
    )
    value = of(member, best)
    chance = member.chance if isinstance(member.chance, float) else _chance(member, best)
    return None if value is None else MemberScore(Part(value), chance)


def _chance(member: Member, estimates: Sequence[Estimate]) -> float | None:
    """Return the score of guessing; the suite's number if no run has it."""
    chance = _mean([estimate.chance for estimate in estimates])
    if chance is not None:
        return chance
    return member.chance if isinstance(member.chance, float) else None


def _constant(member: Member, estimates: Sequence[Estimate]) -> float | None:  # noqa: ARG001 - as `_chance`
    """Return the score of always the same choice; None for few samples, where chance decides the commonest choice."""
    is_part = any(each.n < min(each.details.get("n_total") or 0, FEWEST_OF_MAJORITY) for each in estimates)
    return None if is_part else _mean([estimate.details.get(CONSTANT) for estimate in estimates])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _people(board: Board, columns: Sequence[ScoreColumn]) -> BoardRow | None:
    """Return the row of people's scores as the cards of a board's tasks cite them; None where no card cites any."""
    if board.suite is not None:
        cited = {
            member.task: human for member in board.suite.members if (human := cited_human(member.task)) is not None
        }
        titles = {member.task: member.column for member in board.suite.members}
        citation = "; ".join(f"{titles[task]}: {human.source}" for task, human in cited.items())

        def of(member: Member, estimates: Sequence[Estimate]) -> float | None:  # noqa: ARG001 - as `_chance`
            human = cited.get(member.task)
            return None if human is None else human.value

        return _computed(board.suite, columns, (), PEOPLE, of, citation)
    known = {column.title: human for column in columns if (human := cited_human(measured_task(column))) is not None}
    if not known:
        return None
    scores = {title: 100.0 * human.value for title, human in known.items()}
    return _cited(PEOPLE, scores, "; ".join(f"{title}: {human.source}" for title, human in known.items()), columns)


def _cited(name: str, scores: Mapping[str, float], source: str, columns: Sequence[ScoreColumn]) -> BoardRow:
    cells = {}
    for column in columns:
        if column.title in scores:
            value = float(scores[column.title]) / (100.0 if column.is_share else 1.0)
            cells[column.key] = RowScore(IntervalValue(value))
    return BoardRow(
        id=f"baseline-{slug(name)}", model=name, origin="baseline", cells=cells,
        average=average_of(columns, cells, "weighted"), facts={"origin": "baseline"}, citation=source,
    )  # fmt: skip


def with_claims(
    rows: Sequence[BoardRow], claims: Sequence[CitedScores], columns: Sequence[ScoreColumn]
) -> list[BoardRow]:
    """Return the rows with claims about their models, without claims for benchmarks that were not measured."""
    by_model: dict[str, list[CitedScores]] = {}
    for scores in claims:
        by_model.setdefault(scores.name.lower(), []).append(scores)
    return [
        replace(row, cells=_claimed(row.cells, by_model[row.model.lower()], columns))
        if row.model.lower() in by_model and not row.is_baseline
        else row
        for row in rows
    ]


def _claimed(
    cells: Mapping[str, RowScore], claims: Sequence[CitedScores], columns: Sequence[ScoreColumn]
) -> dict[str, RowScore]:
    claimed = dict(cells)
    for column in columns:
        cell = claimed.get(column.key)
        first_claim = next((claim for claim in claims if column.title in claim.scores), None)
        if cell is not None and first_claim is not None:
            value = float(first_claim.scores[column.title]) / (100.0 if column.is_share else 1.0)
            low, high = cell.number.low, cell.number.high
            is_outside = low is not None and high is not None and not low <= value <= high
            claimed[column.key] = replace(cell, claim=ClaimedScore(value, first_claim.source, is_outside))
    return claimed
