"""Comparison of runs: differences with intervals and tests, by task, by group and overall.

Each task is tested, and p is corrected over the tasks (Holm). A group averages its tasks' differences with the group's
weights; the overall line gives every group and every task outside of one the same weight: see `averages`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assaymark.documents.numbers import mostly_truncated
from assaymark.errors import UsageError, few
from assaymark.results.comparison.averages import GroupedTasks, MeasuredTask, group_line, overall_line, overall_units
from assaymark.results.comparison.pairing import (
    PairedTask,
    common_values,
    differing_prompts,
    pair_task,
    set_up_differences,
)
from assaymark.results.comparison.records import ONE_SIDED, Comparison, Difference, Flip, PairComparison
from assaymark.results.comparison.stopped_runs import stopped_lines
from assaymark.results.comparison.verdict import sentence
from assaymark.results.evidence.groups import GroupCell, Name, group_cells
from assaymark.results.evidence.records import GroupSummaryInput, MetricInput, RunEvidence, ScoreRow, TaskSummaryInput
from assaymark.results.model_names import labels_apart
from assaymark.scoring.choices import CIRCULAR
from assaymark.scoring.metrics import is_higher_better
from assaymark.statistics.aggregate import traits_of
from assaymark.statistics.multiplicity import RankSet, holm, rank_sets
from assaymark.statistics.paired import compare_paired, difference_interval


def compare_runs(
    runs: Sequence[RunEvidence],
    groups: Sequence[GroupSummaryInput] = (),
    *,
    strict_prompts: bool = False,
    confidence: float = 0.95,
) -> Comparison:
    """Compare the second and later runs with the first.

    Args:
        runs: their scores and set-up.
        groups: groups of tasks; their differences are averaged with the group's weights.
        strict_prompts: raise an error if any prompt differs.
        confidence: of the intervals.

    Raises: UsageError for fewer than two runs, no task in common, different questions, or (strict) different prompts.
    """
    if len(runs) < 2:
        raise UsageError(f"{len(runs)} run was named; a comparison needs two or more")
    labels = distinct_labels(runs)
    named = _by_circular([replace(run, label=label) for run, label in zip(runs, labels, strict=True)])
    known = groups or next((run.groups for run in named if run.groups), ())
    pairs = [_compare(named[0], run, known, strict_prompts, confidence) for run in named[1:]]
    pairs = [replace(pair, verdict=sentence(pair)) for pair in pairs]
    ranks = _ranks(named, known) if len(named) > 2 else ()
    return Comparison(tuple(labels), tuple(run.run_id for run in named), tuple(pairs), ranks)


def _by_circular(runs: Sequence[RunEvidence]) -> list[RunEvidence]:
    """Return the runs with CircularEval's accuracy as the metric of each task for which all of them have it."""
    scored = [{row.task for row in run.rows if row.metric == CIRCULAR} for run in runs]
    common = set.intersection(*scored)
    return [
        replace(run, tasks=tuple(replace(t, primary_metric=CIRCULAR) if t.name in common else t for t in run.tasks))
        for run in runs
    ]


def distinct_labels(runs: Sequence[RunEvidence]) -> list[str]:
    """Return the runs' labels, told apart."""
    return labels_apart([(run.label, str(run.settings.get("dtype", "")), run.run_id) for run in runs])


def _compare(
    first: RunEvidence,
    second: RunEvidence,
    groups: Sequence[GroupSummaryInput],
    strict_prompts: bool,
    confidence: float,
) -> PairComparison:
    paired, notes = _paired_tasks(first, second)
    names = [task.task for task in paired]
    if by_circular := [task.task for task in paired if task.metric.name == CIRCULAR]:
        notes.append(f"{', '.join(by_circular)}: by {CIRCULAR}, right in every rotation of the options")
    if strict_prompts:
        for task in names:
            n_differing, n = differing_prompts(first, second, task)
            if n_differing:
                raise UsageError(
                    f"task {task}: the prompts of {n_differing:,} of {n:,} samples differ between {first.label} and "
                    f"{second.label}, and --strict-prompts is set; run both with the same shots, seed and template"
                )
    flips = {task.task: _flips(task, first, second) for task in paired}
    measured = {task.task: _measure(task, flips[task.task], confidence) for task in paired}
    lines = _adjusted([each.line for each in measured.values()])
    grouped = _grouped_tasks(first, second, groups, measured, confidence)
    of_groups = [line for group in groups if (line := group_line(group, grouped, confidence)) is not None]
    of_groups = [_with_truncated(line, lines, line.members) for line in of_groups]
    overall = overall_line(grouped, confidence)
    return PairComparison(
        labels=(first.label, second.label),
        run_ids=(first.run_id, second.run_id),
        overall=None if overall is None else _with_truncated(overall, lines, names),
        groups=tuple(_adjusted(of_groups)),
        tasks=tuple(lines),
        set_up=tuple(set_up_differences(first, second, names)),
        notes=(
            *stopped_lines(first, second),
            *first.pairing,
            *second.pairing,
            *notes,
            *(note for task in paired for note in task.notes),
            *[
                f"{task.name} of {label}: {note}"
                for task in lines
                for label, n in zip((first.label, second.label), task.n_mostly_cut, strict=True)
                if (note := mostly_truncated(n, task.n))
            ],
        ),
        flips=tuple(flip for task in paired for flip in flips[task.task]),
        stopped=tuple(run.label for run in (first, second) if run.stopped is not None),
        scorers=tuple(_adjusted(list(_of_scorers(first, second, paired, confidence)))),
    )


def _of_scorers(
    first: RunEvidence, second: RunEvidence, paired: Sequence[PairedTask], confidence: float
) -> Iterator[Difference]:
    """Yield the differences of an application's other scorers: each is a question of its own, as tasks are."""
    tasks = {task.name: task for task in first.tasks}
    for main in paired:
        task = tasks[main.task]
        if not any(metric.scale for metric in task.metrics):  # declared by scorers
            continue
        both = set.intersection(*({row.metric for row in run.rows if row.task == task.name} for run in (first, second)))
        listed = {metric.name for metric in task.metrics}
        more = [MetricInput(name, higher_is_better=is_higher_better(name)) for name in sorted(both - listed)]
        with_more = replace(task, metrics=(*task.metrics, *more))
        for metric in with_more.metrics:
            if metric.name not in both or metric.name == main.metric.name:
                continue
            pair = pair_task(first, second, with_more, (metric.name, main.filter))
            if pair.pairs and traits_of(metric.aggregation).is_per_sample:
                measured = _measured(pair, first, second, confidence)
                yield replace(measured.line, name=f"{task.name}/{metric.name}", kind="scorer")


def _paired_tasks(first: RunEvidence, second: RunEvidence) -> tuple[list[PairedTask], list[str]]:
    theirs = {task.name: task for task in second.tasks}
    common = [task for task in first.tasks if task.name in theirs]
    if not common:
        raise UsageError(
            f"the runs have no task in common: {first.label} has {_names(first.tasks)}, "
            f"{second.label} has {_names(second.tasks)}"
        )
    notes = [
        f"only {run.label} has {', '.join(names)}"
        for run, other in ((first, second), (second, first))
        if (names := [task.name for task in run.tasks if task.name not in {t.name for t in other.tasks}])
    ]
    paired = []
    for task in common:
        pair = pair_task(first, second, task)
        if not traits_of(pair.metric.aggregation).is_per_sample or not pair.pairs:
            reason = "no sample has a score in both runs" if not pair.pairs else "it is not a mean over samples"
            notes.append(f"{task.name} {pair.metric.name} is excluded: {reason}")
        else:
            paired.append(pair)
    return paired, notes


def _names(tasks: Sequence[TaskSummaryInput]) -> str:
    return few([task.name for task in tasks], 4)


def _with_truncated(line: Difference, tasks: Sequence[Difference], names: Sequence[str]) -> Difference:
    """Return an average's line with the truncated prompts of its tasks."""
    own = [task.n_mostly_cut for task in tasks if task.name in names]
    return replace(line, n_mostly_cut=(sum(n for n, _ in own), sum(n for _, n in own)))


def _measure(task: PairedTask, flips: Sequence[Flip], confidence: float) -> MeasuredTask:
    ours, theirs = (np.asarray(values, dtype=np.float64) for values in task.values())
    is_share = _is_share(task)
    comparison = compare_paired(ours, theirs, confidence=confidence, is_share=is_share)
    # perplexities and bits per byte are compared as losses: lower is better
    better, worse = comparison.b_only, comparison.a_only
    if not task.metric.higher_is_better:
        better, worse = worse, better
    has_answers = is_share and not task.metric.is_neutral  # which become right or wrong
    scale = "log" if task.is_log_scale else "proportion" if is_share else "plain"
    to_metric = math.exp if scale == "log" else float
    line = Difference(
        name=task.task,
        kind="task",
        metric=task.metric.name,
        filter=task.filter,
        scale=scale,
        first=to_metric(float(ours.mean())),
        second=to_metric(float(theirs.mean())),
        difference=comparison.difference,
        low=comparison.low,
        high=comparison.high,
        p=comparison.p,
        n=comparison.n,
        n_better=better,
        n_worse=worse,
        method=comparison.method,
        confidence=confidence,
        higher_is_better=task.metric.higher_is_better,
        stderr=comparison.stderr,
        one_sided=difference_interval(ours, theirs, confidence=ONE_SIDED, is_share=is_share),
        n_missing=task.n_missing,
        n_mostly_cut=(
            sum(_is_mostly_cut(pair.first) for pair in task.pairs),
            sum(_is_mostly_cut(pair.second) for pair in task.pairs),
        ),
        label=task.alias or "",
        n_gained=sum(flip.is_better for flip in flips) if has_answers else None,
        n_lost=sum(not flip.is_better for flip in flips) if has_answers else None,
        is_neutral=task.metric.is_neutral,
    )
    return MeasuredTask(task, line, ours, theirs)


def _is_mostly_cut(row: ScoreRow) -> bool:
    return row.n_cut_tokens > row.n_context_tokens > 0


def _measured(task: PairedTask, first: RunEvidence, second: RunEvidence, confidence: float) -> MeasuredTask:
    return _measure(task, _flips(task, first, second), confidence)


def _adjusted(lines: Sequence[Difference]) -> list[Difference]:
    """Return the lines with p corrected by Holm's method over them."""
    if not lines:
        return []
    adjusted = holm([line.p for line in lines])
    return [replace(line, p_adjusted=float(p)) for line, p in zip(lines, adjusted, strict=True)]


def _is_share(task: PairedTask) -> bool:
    """Return whether the metric is a proportion of correct answers: a mean of scores in [0, 1]."""
    in_unit = all(0.0 <= value <= 1.0 for values in task.values() for value in values)
    return in_unit and traits_of(task.metric.aggregation).is_mean and not task.metric.is_number


def _flips(task: PairedTask, ours: RunEvidence, theirs: RunEvidence) -> list[Flip]:
    """Return the samples whose answer became right or wrong; graded scores count as right from 0.5."""
    flips: list[Flip] = []
    if not _is_share(task) or task.metric.is_neutral:
        return flips
    for pair, first, second in zip(task.pairs, *task.values(), strict=True):
        if (first >= 0.5) == (second >= 0.5):
            continue
        better = second > first if task.metric.higher_is_better else second < first
        flips.append(
            Flip(
                task=task.task,
                first_index=pair.first.sample_index,
                second_index=pair.second.sample_index,
                sample_sha256=pair.sample_sha256,
                first=first,
                second=second,
                first_picked=_picked(pair.first.detail),
                second_picked=_picked(pair.second.detail),
                first_answer=_answer(ours, pair.first),
                second_answer=_answer(theirs, pair.second),
                is_better=better,
            )
        )
    return flips


def with_answers(
    pair: PairComparison, flips: Sequence[Flip], first: RunEvidence, second: RunEvidence
) -> tuple[Flip, ...]:
    """Return answers that changed with their texts.

    Args:
        pair: the comparison, made without texts.
        flips: those of its answers that changed.
        first: evidence of its first run, with texts, of the flips' samples.
        second: the same of its second run.
    """
    scored = {line.name: (line.metric, line.filter) for line in pair.tasks}
    ours, theirs = (
        {(row.task, row.sample_index, (row.metric, row.filter)): row for row in run.rows} for run in (first, second)
    )
    found = []
    for flip in flips:
        one = ours[flip.task, flip.first_index, scored[flip.task]]
        other = theirs[flip.task, flip.second_index, scored[flip.task]]
        found.append(
            replace(
                flip,
                first_picked=_picked(one.detail),
                second_picked=_picked(other.detail),
                first_answer=_answer(first, one),
                second_answer=_answer(second, other),
            )
        )
    return tuple(found)


def _picked(detail: object) -> int | None:
    picked = detail.get("picked") if isinstance(detail, dict) else None
    return picked if isinstance(picked, int) else None


def _answer(run: RunEvidence, row: ScoreRow) -> str | None:
    picked, choices = _picked(row.detail), run.choices.get((row.task, row.sample_index), ())
    return choices[picked] if picked is not None and 0 <= picked < len(choices) else None


def _ranks(runs: Sequence[RunEvidence], groups: Sequence[GroupSummaryInput]) -> tuple[RankSet, ...]:
    """Return the runs' rank sets on the samples that all of them answered, with the overall line's task weights."""
    paired, _ = _paired_tasks(runs[0], runs[1])
    measured = {task.task: _measure(task, (), 0.95) for task in paired}
    columns: list[list[float]] = [[] for _ in runs]
    grouped = _grouped_tasks(runs[0], runs[1], groups, measured, 0.95)
    units, _ = overall_units(grouped)
    for measurement, weight in [(part, weight / len(units)) for unit in units for part, weight in unit.parts]:
        table = common_values(runs, measurement.task)
        for column, values in zip(columns, table, strict=True):
            column.extend(measurement.sign * weight * value / max(1, len(values)) for value in values)
    if not columns[0]:
        return ()
    return tuple(rank_sets(np.array(columns).T * len(columns[0])))


@dataclass(frozen=True, slots=True)
class _MeasuredRuns:
    """Two runs, and the differences measured so far."""

    first: RunEvidence
    second: RunEvidence
    tasks: Mapping[str, TaskSummaryInput]
    measured: Mapping[str, MeasuredTask]
    confidence: float

    def of_cell(self, cell: GroupCell) -> list[MeasuredTask]:
        """Return a cell's tasks, all measured by its metric; empty if a run lacks it for one of them."""
        tasks = [self.of_task(name, (cell.metric, cell.filter)) for name in cell.tasks]
        known = [task for task in tasks if task is not None]
        if len(known) < len(tasks) and self.second.pairing:  # another tool's names for it
            known = [self.measured[name] for name in cell.tasks if name in self.measured]
        return known if len(known) == len(tasks) else []

    def of_task(self, name: str, wanted: Name) -> MeasuredTask | None:
        """Return a task measured by this metric and filter; None if the runs cannot be compared by it."""
        main = self.measured.get(name)
        if main is not None and (main.line.metric, main.line.filter) == wanted:
            return main
        try:
            paired = pair_task(self.first, self.second, self.tasks[name], wanted)
        except UsageError:
            return None
        if not traits_of(paired.metric.aggregation).is_per_sample or not paired.pairs:
            return None
        return _measured(paired, self.first, self.second, self.confidence)


def _grouped_tasks(
    first: RunEvidence,
    second: RunEvidence,
    groups: Sequence[GroupSummaryInput],
    measured: Mapping[str, MeasuredTask],
    confidence: float,
) -> GroupedTasks:
    """Return the tasks that both runs have, grouped by the groups' declared metrics.

    A group is compared by its primary metric; if a run lacks that (the runs come from different tools), by the first
    declared metric that both have, and else by the primary metric of each of its tasks. The metric of a group may be
    another than a task's primary one.
    """
    by_name = {group.name: group for group in groups}
    names = {task.name for task in second.tasks}
    tasks = {task.name: task for task in first.tasks if task.name in names}
    scored: dict[str, set[Name]] = {name: set() for name in tasks}
    for row in first.rows:
        if row.task in scored:
            scored[row.task].add((row.metric, row.filter))
    primaries = {name: task.primary for name, task in tasks.items()}
    search = _MeasuredRuns(first, second, tasks, measured, confidence)
    by_group: dict[str, tuple[GroupCell, Sequence[MeasuredTask]]] = {}
    for group in groups:
        cells = sorted(group_cells(group, by_name, scored, primaries), key=lambda cell: not cell.is_main)
        chosen = next(((cell, of_cell) for cell in cells if (of_cell := search.of_cell(cell))), None)
        if chosen is not None:
            by_group[group.name] = chosen
    return GroupedTasks(groups, measured, by_group)
