"""Pairing of two runs' scores by sample, and the differences in set-up between the runs.

Samples are paired by content, not by position: (task, sample hash, number of earlier occurrences of that hash). So
runs over differently ordered or filtered copies of a data set are paired correctly, and runs over different questions
are refused.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from assaymark.errors import UsageError, clipped, few
from assaymark.options.lm_eval_options import PROMPT_STYLE
from assaymark.records import JsonValue, ScoreStatus
from assaymark.results.evidence.records import (
    MetricInput,
    RunEvidence,
    ScoreRow,
    TaskSummaryInput,
    row_value,
    score_number,
)
from assaymark.scoring.metrics import is_credit
from assaymark.statistics.aggregate import traits_of

EXPECTED_TO_DIFFER = frozenset({"model", "tokenizer"})  # the subject of the comparison
Key = tuple[str, int]  # (sample hash, occurrence)
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class SamplePair:
    """One sample in both runs."""

    sample_sha256: str
    first: ScoreRow
    second: ScoreRow


@dataclass(frozen=True, slots=True)
class PairedTask:
    """One task's metric in both runs, sample by sample."""

    task: str
    metric: MetricInput
    filter: str
    pairs: tuple[SamplePair, ...]  # samples with a score in both runs
    n_missing: int  # paired samples for which one run has no score (a failed request)
    notes: tuple[str, ...] = ()
    alias: str | None = None
    asks: str = ""  # as `TaskSummaryInput.asks`
    copy_of: str | None = None  # the task whose samples these are perturbed copies of

    @property
    def is_log_scale(self) -> bool:
        """Whether differences are of logarithms: perplexities are compared by their ratio."""
        return traits_of(self.metric.aggregation).is_log_scale

    def values(self) -> tuple[list[float], list[float]]:
        """Return both runs' comparable numbers per sample, in the metric's own direction.

        For means these are the scores themselves (tied choices share the credit). For ratios of sums they are each
        document's contribution, nats over the mean weight, whose mean is the (logarithmic) metric itself.
        """
        first = [row_value(pair.first) for pair in self.pairs]
        second = [row_value(pair.second) for pair in self.pairs]
        traits = traits_of(self.metric.aggregation)
        if traits.ratio is None:
            return (
                ([-value for value in first], [-value for value in second]) if traits.is_log_scale else (first, second)
            )
        unit = math.log(2) if traits.ratio == "bits" else 1.0
        weights = [1.0 if (parts := pair.first.parts) is None else float(score_number(parts[1])) for pair in self.pairs]
        scale = len(weights) / sum(weights) / unit
        return [-value * scale for value in first], [-value * scale for value in second]


def pair_task(
    first: RunEvidence, second: RunEvidence, task: TaskSummaryInput, of: tuple[str, str] | None = None
) -> PairedTask:
    """Pair a task's main metric, or the (metric, filter) named by `of`.

    Raises: UsageError if the runs evaluated different questions, or one lacks the metric.
    """
    chosen = of or _shared(task, second) or task.primary
    metric = next((m for m in task.metrics if chosen is not None and m.name == chosen[0]), None)
    if chosen is None or metric is None:
        raise UsageError(f"task {task.name} has no metric that can be compared")
    ours = _keyed(first, task.name, *chosen)
    theirs, their_metric = _rows_for(second, task.name, chosen, first)
    for run, rows in ((first, ours), (second, theirs)):
        if not rows:
            raise UsageError(f"run {run.label} ({run.run_id}) has no scores of {task.name} {chosen[0]} ({chosen[1]})")
    common = [key for key in ours if key in theirs]
    notes = _coverage(task.name, first, second, (len(ours), len(theirs), len(common)))
    for run in (first, second):
        if n_skipped := next((each.n_skipped for each in run.tasks if each.name == task.name), 0):
            notes = (*notes, f"{task.name}: {run.label} skipped {n_skipped:,} rows that could not be read")
    if chosen != task.primary:
        notes = (*notes, f"{task.name}: by {chosen[0]}, which both runs have")
    if their_metric != chosen:
        compared = f"{chosen[0]} of {first.label} is compared with {their_metric[0]} of {second.label}"
        notes = (*notes, f"{task.name}: {compared}; both state whether an answer is correct")
    pairs = tuple(
        SamplePair(key[0], ours[key], theirs[key])
        for key in common
        if _has_value(ours[key]) and _has_value(theirs[key])
    )
    return PairedTask(
        task.name, metric, chosen[1], pairs, len(common) - len(pairs), notes, task.alias, task.asks, task.copy_of
    )


def _shared(task: TaskSummaryInput, second: RunEvidence) -> tuple[str, str] | None:
    """Return the first metric of a task that another tool's run has too, if that lacks the task's primary metric."""
    theirs = {(row.metric, row.filter) for row in second.rows if row.task == task.name}
    if not second.pairing or task.primary in theirs:
        return None
    ours = [(metric.name, name) for metric in task.metrics for name in metric.filters]
    return next((pair for pair in ours if pair in theirs), None)


def common_values(runs: Sequence[RunEvidence], task: PairedTask) -> list[list[float]]:
    """Return each run's numbers on the samples of a task for which all runs have a score, in one order."""
    keyed = [_rows_for(run, task.task, (task.metric.name, task.filter), runs[0])[0] for run in runs]
    common = [key for key in keyed[0] if all(key in rows and _has_value(rows[key]) for rows in keyed)]
    return [[row_value(rows[key]) for key in common] for rows in keyed]


def _rows_for(
    run: RunEvidence, task: str, wanted: tuple[str, str], first: RunEvidence
) -> tuple[dict[Key, ScoreRow], tuple[str, str]]:
    """Return a run's rows to compare with the first run's `wanted` metric, with their metric and filter.

    If the runs differ in prompt style, or come from tools with different metric names, the rows are those of this
    run's own primary metric: the same questions, each scored as right or wrong.
    """
    own = next((each.primary for each in run.tasks if each.name == task), None)
    rows = _keyed(run, task, *wanted)
    if own is None or own == wanted:
        return rows, wanted
    is_same_style = run.settings.get(PROMPT_STYLE) == first.settings.get(PROMPT_STYLE)
    if run.pairing and not rows and _say_right_or_wrong(first, task, wanted) and _say_right_or_wrong(run, task, own):
        return _keyed(run, task, *own), own  # another tool's name for it
    if is_same_style or not (is_credit(own[0]) and is_credit(wanted[0])):
        return rows, wanted
    return _keyed(run, task, *own), own


def _say_right_or_wrong(run: RunEvidence, task: str, of: tuple[str, str]) -> bool:
    """Return whether all of a metric's scores are 0 or 1; of a mean over trials, each trial's."""
    rows = [row for row in run.rows if (row.task, row.metric, row.filter) == (task, *of)]
    details = [row.detail if isinstance(row.detail, dict) else {} for row in rows]
    values = [value for row, detail in zip(rows, details, strict=True) for value in detail.get("trials", (row.value,))]
    return bool(rows) and all(value in {None, 0.0, 1.0} for value in values)


def _keyed(run: RunEvidence, task: str, metric: str, name_of_filter: str) -> dict[Key, ScoreRow]:
    rows = [row for row in run.rows if (row.task, row.metric, row.filter) == (task, metric, name_of_filter)]
    rows.sort(key=lambda row: row.sample_index)
    return dict(zip(occurrences(row.sample_sha256 for row in rows), rows, strict=True))


def occurrences(contents: Iterable[T]) -> Iterator[tuple[T, int]]:
    """Yield each content with the number of its earlier occurrences."""
    seen: Counter[T] = Counter()
    for content in contents:
        yield content, seen[content]
        seen[content] += 1


def _coverage(task: str, first: RunEvidence, second: RunEvidence, counts: tuple[int, int, int]) -> tuple[str, ...]:
    """Return a note if one run has only some of the other's samples; raise UsageError if each has others."""
    n_first, n_second, n_common = counts
    if n_common == n_first == n_second:
        return ()
    if n_common == min(n_first, n_second):
        counts_shown = f"{first.label} has {n_first:,} samples and {second.label} {n_second:,}"
        return (f"{task}: {counts_shown}; the {n_common:,} that both have are compared",)
    raise UsageError(
        f"task {task}: the runs evaluated different questions; {first.label} has {n_first:,} samples, "
        f"{second.label} {n_second:,}, and {n_common:,} are the same; run both on the same data and limit"
    )


def set_up_differences(first: RunEvidence, second: RunEvidence, tasks: Sequence[str]) -> list[str]:
    """Return a line for each setting in which the runs differ, besides the model, with the tasks of which it is so."""
    lines = [
        _difference(name, first, second, first.settings.get(name), second.settings.get(name))
        for name in first.settings
        if name in second.settings  # a setting that one run lacks is not a difference
        and name not in EXPECTED_TO_DIFFER
        and first.settings.get(name) != second.settings.get(name)
    ]
    tasks_of: dict[str, list[str]] = {}
    for task in tasks:
        ours, theirs = first.task_settings.get(task, {}), second.task_settings.get(task, {})
        for name in ours:
            if name in theirs and ours[name] != theirs[name]:
                tasks_of.setdefault(_difference(name, first, second, ours[name], theirs[name]), []).append(task)
    lines += [f"{few(named)} {line}" for line, named in tasks_of.items()]
    counts = {task: differing_prompts(first, second, task) for task in tasks}
    if named := [task for task, (n_differing, _) in counts.items() if n_differing]:
        n_differing, n = (sum(counts[task][at] for task in named) for at in (0, 1))
        lines.append(f"{few(named)} prompts: different for {n_differing:,} of {n:,} samples")
    return lines


def differing_prompts(first: RunEvidence, second: RunEvidence, task: str) -> tuple[int, int]:
    """Return the number of samples with different prompts, and of samples whose prompts both runs have."""
    ours, theirs = _prompts_by_sample(first, task), _prompts_by_sample(second, task)
    common = [key for key in ours if key in theirs]
    return sum(ours[key] != theirs[key] for key in common), len(common)


def _prompts_by_sample(run: RunEvidence, task: str) -> dict[Key, str]:
    hashes = {row.sample_index: row.sample_sha256 for row in run.rows if row.task == task}
    indices = sorted(hashes)
    keys = occurrences(hashes[index] for index in indices)
    prompts = {key: run.prompt_hashes.get((task, index)) for key, index in zip(keys, indices, strict=True)}
    return {key: prompt for key, prompt in prompts.items() if prompt is not None}


def _difference(name: str, first: RunEvidence, second: RunEvidence, ours: JsonValue, theirs: JsonValue) -> str:
    return f"{name}: {_setting_text(ours)} in {first.label}, {_setting_text(theirs)} in {second.label}"


def _setting_text(value: JsonValue) -> str:
    if value is None:
        return "none"
    text = str(value)
    return text[:19] if text.startswith("sha256:") else clipped(text, 60)


def _has_value(row: ScoreRow) -> bool:
    return row.status is not ScoreStatus.FAILED and math.isfinite(row_value(row))
