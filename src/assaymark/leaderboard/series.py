"""Checkpoints of one training as a series: values against the step, and the paired difference to the first one.

Runs belong to a series by their names: `train/checkpoint-500`, `model-step2000`, or a revision `step2000` of one model.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.evidence import own_board
from assaymark.leaderboard.own_rows import agreeing_runs, rows_of_runs
from assaymark.leaderboard.rows import IntervalValue, ScoreColumn
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun
from assaymark.registry import nearest
from assaymark.results.comparison.records import PairComparison

MOST_COMPARED = 24  # checkpoints whose samples are paired with the first one's
_STEP = r"(?:checkpoint|ckpt|global_step|step|iter)[-_]?(?P<step>\d{1,12})"
_IN_NAME = re.compile(rf"(?P<series>.+?)[-_/.]{_STEP}", re.IGNORECASE)
_IN_REVISION = re.compile(_STEP, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint; several runs of it are one."""

    step: int
    model: str
    runs: tuple[StoredRun, ...]  # the latest first
    against_first: PairComparison | None  # None for the first one, and where no sample is shared
    why_not: str = ""  # why there is no comparison


@dataclass(frozen=True, slots=True)
class SeriesLine:
    """One benchmark over the steps."""

    column: ScoreColumn
    points: tuple[tuple[int, IntervalValue], ...]  # step and value, by step


@dataclass(frozen=True, slots=True)
class Series:
    """Checkpoints by step, and their values."""

    name: str
    checkpoints: tuple[Checkpoint, ...]
    lines: tuple[SeriesLine, ...]


def step_of(run: StoredRun) -> tuple[str, int] | None:
    """Return the name of a run's series and its step; None if the model is not a checkpoint."""
    match = _IN_NAME.fullmatch(run.model)
    if match is not None:
        return match["series"], int(match["step"])
    of_revision = _IN_REVISION.fullmatch(run.plan.model.revision or "")
    return (run.model, int(of_revision["step"])) if of_revision is not None else None


def series_names(runs: Sequence[StoredRun]) -> Mapping[str, int]:
    """Return the series that have at least two checkpoints, with how many."""
    steps: dict[str, set[int]] = {}
    for run in runs:
        step = step_of(run)
        if step is not None and run.estimates:
            steps.setdefault(step[0], set()).add(step[1])
    return {name: len(some) for name, some in steps.items() if len(some) > 1}


def find_series(site: Site, name: str) -> Series:
    """Return a series of checkpoints.

    Raises: UnknownName where the store has no two checkpoints of that name.
    """
    every = site.stored_runs()
    known = series_names(every)
    if name not in known:
        remedy = "a series has two or more models named like train/checkpoint-500"
        raise UnknownName("series", name[:100], nearest(name[:100], known), remedy)
    by_step: dict[int, list[StoredRun]] = {}
    for run in every:
        named_step = step_of(run)
        if named_step is not None and named_step[0] == name and run.estimates:
            by_step.setdefault(named_step[1], []).append(run)
    steps = sorted(by_step)
    first = by_step[steps[0]][0]
    checkpoints = [
        _checkpoint(site, step, by_step[step], first if 0 < at < MOST_COMPARED else None)
        for at, step in enumerate(steps)
    ]
    return Series(name, tuple(checkpoints), tuple(_lines(by_step)))


def _checkpoint(site: Site, step: int, runs: Sequence[StoredRun], first: StoredRun | None) -> Checkpoint:
    if first is None or site.runs is None:
        return Checkpoint(step, runs[0].model, tuple(runs), None)
    try:
        pair = site.runs.difference(first, runs[0])
    except UsageError as error:
        return Checkpoint(step, runs[0].model, tuple(runs), None, str(error))
    return Checkpoint(step, runs[0].model, tuple(runs), pair)


def _lines(by_step: Mapping[int, Sequence[StoredRun]]) -> list[SeriesLine]:
    """Return the benchmarks that two or more steps have; of several rows of a step, that of the latest run counts."""
    runs = sorted((run for some in by_step.values() for run in some), key=lambda run: run.row.updated_at, reverse=True)
    board = own_board(runs, (), ())
    if board is None:
        return []
    rows = rows_of_runs(board, agreeing_runs(board, runs)[0])
    steps = {run.run_id: step for step, some in by_step.items() for run in some}
    lines = []
    for column in board.score_columns:
        points: dict[int, IntervalValue] = {}
        for row in rows:  # the latest runs first
            cell = row.cells.get(column.key)
            if cell is not None and cell.run_id in steps:
                points.setdefault(steps[cell.run_id], cell.number)
        if len(points) > 1:
            is_share = all(row.cells[column.key].is_share for row in rows if column.key in row.cells)
            lines.append(SeriesLine(replace(column, is_share=is_share), tuple(sorted(points.items()))))
    return lines
