"""Comparisons of runs that a rule stopped: the difference on the whole benchmark, with an interval valid at any time.

Where such a run stopped depends on its answers, so intervals for samples of a fixed size are not valid for it. Its
questions are the beginning of an order that all models share, so a betting interval over the questions that both runs
answered, in that order, is. Source: `statistics.sequential`.
"""

from collections.abc import Mapping

import numpy as np

from assaymark.records import ScoreStatus
from assaymark.results.evidence.records import RunEvidence
from assaymark.statistics.sequential import PairedRace, RaceState
from assaymark.tasks.question_order import question_order

__all__ = ["difference_at_any_time", "stopped_lines"]


def stopped_lines(first: RunEvidence, second: RunEvidence) -> list[str]:
    """Return what to say where a rule stopped one of two runs; nothing where none was."""
    stopped = [run for run in (first, second) if run.stopped is not None]
    if not stopped:
        return []
    lines = [
        f"{run.label} was stopped by its rule after {run.stopped.n_seen:,} of {run.stopped.n:,} questions"
        for run in stopped
        if run.stopped is not None
    ]
    state = difference_at_any_time(first, second)
    if state is None:
        lines[-1] += ", so intervals and p are not valid; evaluate the rest with `assaymark run`"
        return lines
    gain, low, high = (-100 * value for value in (state.difference, state.high, state.low))
    interval = f"{gain:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}"
    lines.append(
        f"valid at any time, about the whole benchmark: {interval}, by the first {state.n_seen:,} questions of the "
        "common order; the other intervals and p are for samples of a fixed size"
    )
    return lines


def difference_at_any_time(first: RunEvidence, second: RunEvidence) -> RaceState | None:
    """Return the difference of scores, first minus second, over the questions that both answered in the common order.

    None where the order is not known, a question of it is missing, the runs have different data, or scores are no
    shares in [0, 1].
    """
    seeds = {run.stopped.seed for run in (first, second) if run.stopped is not None}
    sizes = {task.name: task.n_total for task in first.tasks}
    if len(seeds) != 1 or sizes != {task.name: task.n_total for task in second.tasks} or None in sizes.values():
        return None
    hashes = {task: str(first.task_settings.get(task, {}).get("data set")) for task in sizes}
    if hashes != {task: str(second.task_settings.get(task, {}).get("data set")) for task in sizes}:
        return None
    order = question_order({task: range(n) for task, n in sizes.items() if n is not None}, hashes, seeds.pop())
    values = _main_values(first), _main_values(second)
    differences = []
    for place in order:
        if place not in values[0] or place not in values[1]:
            break
        differences.append(values[0][place] - values[1][place])
    n_asked = min(run.stopped.n_seen for run in (first, second) if run.stopped is not None)
    if len(differences) < n_asked or any(not -1 <= difference <= 1 for difference in differences):
        return None
    return PairedRace(len(order)).add(np.array(differences))


def _main_values(run: RunEvidence) -> Mapping[tuple[str, int], float]:
    """Return the scores of each task's primary metric by task and sample."""
    wanted = {task.name: task.primary for task in run.tasks}
    return {
        (row.task, row.sample_index): float(row.value or 0.0)
        for row in run.rows
        if wanted.get(row.task) == (row.metric, row.filter) and row.status is not ScoreStatus.FAILED
    }
