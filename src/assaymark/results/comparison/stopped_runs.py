"""Runs that a rule stopped: their scores and differences on the whole benchmark, with intervals valid at any time.

Where such a run stopped depends on its answers, so intervals for samples of a fixed size are not valid for it. Its
questions are the beginning of an order that all models share, so a betting interval over the questions that both runs
answered, in that order, is. Source: `statistics.sequential`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from assaymark.records import Estimate, ScoreStatus
from assaymark.results.evidence.from_store import stopped_by_rule
from assaymark.results.evidence.records import RunEvidence
from assaymark.results.evidence.task_facts import tasks_from
from assaymark.statistics.intervals import wilson
from assaymark.statistics.sequential import MeanState, PairedRace, RaceState, SequentialMean
from assaymark.store import RunRow, SampleScoreRow
from assaymark.tasks.question_order import macro_weights, question_order


def stopped_lines(first: RunEvidence, second: RunEvidence) -> list[str]:
    """Return the note for a pair of which a rule stopped one run; none where it stopped neither."""
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
    macro = any(run.stopped is not None and run.stopped.macro for run in stopped)
    mean = " of the tasks' mean" if macro else ""
    interval = f"{gain:+.1f} points{mean}, 95% interval {low:+.1f} to {high:+.1f}"
    lines.append(
        f"valid at any time, about the whole benchmark: {interval}, by the first {state.n_seen:,} questions of the "
        "common order; the other intervals and p are for samples of a fixed size"
    )
    return lines


def difference_at_any_time(first: RunEvidence, second: RunEvidence) -> RaceState | None:
    """Return the difference of scores, first minus second, over the questions that both answered in the common order.

    None where the order is not known or followed the answers of one of them, a question of it is missing, the runs have
    different data, or scores are no shares in [0, 1].
    """
    if any(run.stopped is not None and run.stopped.is_active for run in (first, second)):
        return None
    orders = {(run.stopped.seed, run.stopped.macro) for run in (first, second) if run.stopped is not None}
    sizes = {task.name: task.n_total for task in first.tasks}
    if len(orders) != 1 or sizes != {task.name: task.n_total for task in second.tasks} or None in sizes.values():
        return None
    hashes = {task: str(first.task_settings.get(task, {}).get("data set")) for task in sizes}
    if hashes != {task: str(second.task_settings.get(task, {}).get("data set")) for task in sizes}:
        return None
    ((seed, macro),) = orders
    order = question_order({task: range(n) for task, n in sizes.items() if n is not None}, hashes, seed, macro=macro)
    values = _main_values(first), _main_values(second)
    differences = []
    for place in order:
        if place not in values[0] or place not in values[1]:
            break
        differences.append(values[0][place] - values[1][place])
    n_asked = min(run.stopped.n_seen for run in (first, second) if run.stopped is not None)
    if len(differences) < n_asked or any(not -1 <= difference <= 1 for difference in differences):
        return None
    weights = np.array(macro_weights(order)) if macro else None
    return PairedRace(len(order), weights=weights).add(np.array(differences))


def _main_values(run: RunEvidence) -> Mapping[tuple[str, int], float]:
    """Return the scores of each task's primary metric by task and sample."""
    wanted = {task.name: task.primary for task in run.tasks}
    return {
        (row.task, row.sample_index): float(row.value or 0.0)
        for row in run.rows
        if wanted.get(row.task) == (row.metric, row.filter) and row.status is not ScoreStatus.FAILED
    }


ALPHA = 0.05
AT_ANY_TIME = "betting, at any time"  # of an interval, for estimates of runs that a rule stopped


def means_at_any_time(
    row: RunRow, scores_of: Callable[[str], Iterable[SampleScoreRow]], alpha: float = ALPHA
) -> dict[str, MeanState]:
    """Return the state of each task's primary metric on the whole benchmark, of a run that a rule stopped.

    The tasks share alpha (Bonferroni). Of a random order of all questions those of one task are in random order too. A
    task whose scores are not all in [0, 1] is missing, and so are all of a run whose order followed its answers.

    scores_of: returns a task's stored scores. alpha: how often any of the intervals may miss.
    """
    stopped = stopped_by_rule(row)
    if stopped is None or stopped.is_active:
        return {}
    plans = {task.name: task for task in row.plan.tasks}
    order = question_order(
        {name: range(task.n_samples) for name, task in plans.items()},
        {name: task.dataset_hash for name, task in plans.items()},
        stopped.seed,
        macro=stopped.macro,
    )
    states: dict[str, MeanState] = {}
    for task in tasks_from(row.extra):
        if task.primary is None or task.name not in plans:
            continue
        values = {
            score.sample_index: float(score.value or 0.0)
            for score in scores_of(task.name)
            if (score.metric, score.filter) == task.primary and score.status is not ScoreStatus.FAILED
        }
        # evidence counts in the order, up to the first question that has no score
        seen = takewhile(values.__contains__, (at for name, at in order if name == task.name))
        scores = np.array([values[at] for at in seen])
        if scores.size and not ((scores >= 0) & (scores <= 1)).all():
            continue
        states[task.name] = SequentialMean(plans[task.name].n_samples, alpha / len(plans)).add(scores)
    return states


def for_new_questions(state: MeanState, alpha: float) -> tuple[float, float]:
    """Return an interval for the mean on new questions of this kind, from one for the mean of all of a benchmark's.

    alpha: how often the benchmark's own N questions may mislead; by the union bound, both together miss at most as
        often as the interval at any time and this say. At its ends the benchmark's questions are a sample of N.
    """
    low = wilson(state.low * state.n, state.n, 1 - alpha).low
    return low, wilson(state.high * state.n, state.n, 1 - alpha).high


def estimates_at_any_time(
    row: RunRow, estimates: Sequence[Estimate], scores_of: Callable[[str], Iterable[SampleScoreRow]]
) -> tuple[Estimate, ...]:
    """Return a run's estimates, those of a run that a rule stopped with intervals that are valid for it.

    The primary metric of a task has one at any time about new questions; what has none (other metrics, groups,
    composites) is left without an interval, so that nothing is said to differ from it.
    """
    if stopped_by_rule(row) is None:
        return tuple(estimates)
    states = means_at_any_time(row, scores_of, ALPHA / 2)
    primary = {task.name: task.primary for task in tasks_from(row.extra)}
    share = ALPHA / 2 / max(len(row.plan.tasks), 1)
    widened = []
    for estimate in estimates:
        state = states.get(estimate.task)
        is_own = estimate.details.get("kind", "task") == "task"
        if state is None or not is_own or primary.get(estimate.task) != (estimate.metric, estimate.filter):
            widened.append(replace(estimate, low=None, high=None, stderr=None, method=""))
            continue
        low, high = for_new_questions(state, share)
        widened.append(replace(estimate, low=low, high=high, stderr=None, method=AT_ANY_TIME))
    return tuple(widened)
