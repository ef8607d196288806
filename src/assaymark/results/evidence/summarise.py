"""Compute one estimate per task, filter and metric of a run's scores, and one per group.

Every estimate has two values. `value` is ours: tied best choices share the credit, failed requests are excluded and
counted, and the interval is valid at 0%, at 100% and for few samples. `details["lm_eval_value"]` and
`["lm_eval_stderr"]` are what lm-evaluation-harness computes from the same answers. They differ where there are ties.

`details` of a task's estimate: kind "task", path (its groups, outermost first), alias, primary, unit ("proportion" or
"plain"), n_shots, n_total, n_tied, n_leaked, n_cut, n_mostly_cut, lm_eval_value, lm_eval_stderr, lm_eval_n; for choices
also brier, calibration_error, calibration_error_null, n_gold_absent and first_gold_absent (rows whose gold answer is
none of their choices); first_error where requests failed; n_infinite where scores are; labels where a scorer gave those
alone; n_skipped and first_skipped where rows were left out. Of a group: kind "group", members, weighting, n_tasks. Of
the samples of one subject of a user's own task: kind "subject", with the task at the end of its path; its name is
TASK:SUBJECT.

Of every multiple-choice task the Brier score and the calibration error are computed. The confidence of an answer is the
share of the choices' probability on the best one. With few samples even a perfectly calibrated model has a calibration
error above zero, so its expected value is reported too.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import shorten
from typing import Any

from assaymark.errors import DataError, UnknownName
from assaymark.limits.characters import exception_text
from assaymark.records import CalibrationDetails, Estimate, EstimateDetails, JsonValue, SampleDetails, ScoreStatus
from assaymark.results.evidence.groups import group_estimates
from assaymark.results.evidence.records import GroupSummaryInput, MetricInput, ScoreRow, TaskSummaryInput, score_number
from assaymark.scoring.metric import BRIER, CONFIDENCE, TIES
from assaymark.scoring.metrics import find_metric, is_auxiliary, is_higher_better
from assaymark.statistics import aggregate, lm_eval_errors
from assaymark.statistics.aggregate import AGGREGATIONS, estimate_label_metric, traits_of
from assaymark.statistics.calibration import calibration_error
from assaymark.statistics.estimate import (
    IntervalEstimate,
    estimate_by_resampling,
    estimate_mean,
    estimate_perplexity,
    estimate_ratio,
)
from assaymark.statistics.intervals import wilson

Scored = Mapping[tuple[str, str], Sequence[ScoreRow]]  # by filter and metric

NULL_DRAWS = 200  # enough for the mean of the null distribution; its tail is not used


def calibration_details(own: Scored) -> CalibrationDetails:
    """Return a task's calibration details; empty where it has no choices, or not all of their probabilities are known.

    Keys: brier, calibration_error, calibration_error_null (expected of a calibrated model), calibration_p.
    """
    brier = [row.value for row in _scored(own, BRIER) if row.value is not None]
    confidence = _scored(own, CONFIDENCE)
    if not brier or any(row.value is None and row.parts is None for row in confidence):
        return {}  # also if some samples have them: those with every letter in a server's list are no random ones
    pairs = [row.parts for row in confidence if row.parts is not None]
    details: CalibrationDetails = {"brier": sum(brier) / len(brier)}
    if pairs:
        confidences, right = ([score_number(pair[at]) for pair in pairs] for at in (0, 1))
        error = calibration_error(confidences, right, draws=NULL_DRAWS)
        details["calibration_error"] = error.value
        details["calibration_error_null"] = error.null_value
        details["calibration_p"] = error.p
    return details


def _scored(own: Scored, metric: str) -> list[ScoreRow]:
    score_rows = next((rows for (_, name), rows in own.items() if name == metric), ())
    return [row for row in score_rows if row.status is not ScoreStatus.FAILED]


BOOTSTRAP_ITERS = 100_000  # lm-eval's default
NO_BOUNDS = (-math.inf, math.inf)
MOST_SUBJECTS = 200  # of a task; a column with more values names something else
LONGEST_ERROR = 240  # characters shown of a failure's cause
MOST_LABELS = 10  # listed of a scorer that gives labels alone
LONGEST_LABEL = 100  # characters of each


def summarise(
    rows: Iterable[ScoreRow],
    tasks: Sequence[TaskSummaryInput],
    groups: Sequence[GroupSummaryInput] = (),
    *,
    bootstrap_iters: int = BOOTSTRAP_ITERS,
    confidence: float = 0.95,
) -> tuple[Estimate, ...]:
    """Return the estimates of a run: each group before its members, tasks in the order given.

    Args:
        rows: every score of the run.
        groups: the groups of tasks; groups may contain groups.
        bootstrap_iters: draws of lm-eval's bootstrap errors; 0 omits lm-eval's errors, as in lm-eval.

    Raises: DataError or UnknownName where items do not fit their aggregation.
    """
    by_task: dict[str, dict[tuple[str, str], list[ScoreRow]]] = {}
    for row in rows:
        by_task.setdefault(row.task, {}).setdefault((row.filter, row.metric), []).append(row)
    of_task: dict[str, list[Estimate]] = {}
    of_subjects: dict[str, list[Estimate]] = {}
    for task in tasks:
        own = by_task.get(task.name, {})
        shared = _shared_details(task, own)
        of_task[task.name] = [
            _estimate(task, metric, own[name_of_filter, metric.name], shared, bootstrap_iters, confidence)
            for metric, name_of_filter in _metrics_of(task, own)
        ]
        of_subjects[task.name] = [
            _estimate(part, metric, part_rows[name_of_filter, metric.name], _of_subject(part, shared), 0, confidence)
            for part, part_rows in _subjects(task, own)
            for metric, name_of_filter in _metrics_of(task, part_rows)
        ]
    return tuple(_with_subjects(group_estimates(of_task, groups, confidence), of_subjects))


def _subjects(task: TaskSummaryInput, own: Scored) -> Iterator[tuple[TaskSummaryInput, Scored]]:
    """Yield a task for the samples of each subject, in alphabetical order, with their scores.

    Nothing where the task is a published one, or its rows name fewer than two subjects or more than MOST_SUBJECTS.
    """
    if not task.is_own:
        return
    parts: dict[str, dict[tuple[str, str], list[ScoreRow]]] = {}
    for key, rows in own.items():
        for row in rows:
            if row.subject:
                parts.setdefault(row.subject, {}).setdefault(key, []).append(row)
    if 2 <= len(parts) <= MOST_SUBJECTS:
        for name in sorted(parts, key=lambda each: (each.casefold(), each)):
            part = replace(task, name=f"{task.name}:{name}", alias=name, n_total=None, n_skipped=0)
            yield part, parts[name]


def _of_subject(part: TaskSummaryInput, shared: EstimateDetails) -> EstimateDetails:
    """Return the details of a subject's estimates: those of its task that hold for a part of the samples."""
    kept: EstimateDetails = {
        "kind": "subject",
        "alias": part.alias or part.name,
        "version": part.version,
        "output_type": part.output_type,
        "n_shots": shared.get("n_shots"),
    }
    return kept


def _with_subjects(estimates: Sequence[Estimate], of_subjects: Mapping[str, Sequence[Estimate]]) -> Iterator[Estimate]:
    """Yield estimates, those of a task's subjects after its own."""
    for index, estimate in enumerate(estimates):
        yield estimate
        following = estimates[index + 1].task if index + 1 < len(estimates) else None
        if estimate.details.get("kind") == "task" and estimate.task != following:
            path = (*estimate.details.get("path", ()), estimate.task)
            for cell in of_subjects.get(estimate.task, ()):
                yield replace(cell, details={**cell.details, "path": path})


def _metrics_of(task: TaskSummaryInput, own: Scored) -> list[tuple[MetricInput, str]]:
    """Return metric and filter of each estimate: those that the task lists, then others that were scored."""
    listed = {metric.name: metric for metric in task.metrics}
    filters = list(dict.fromkeys([*(f for metric in task.metrics for f in metric.filters), *(f for f, _ in own)]))
    extra = [name for _, name in own if name not in listed and not is_auxiliary(name)]
    whole = {name: listed.get(str(_detail(rows[0], "part_of", ""))) for (_, name), rows in own.items()}
    for name in dict.fromkeys(extra):
        default = MetricInput(name, higher_is_better=is_higher_better(name))
        listed[name] = default if (metric := whole[name]) is None else replace(metric, name=name)
    return [(metric, f) for f in filters for metric in listed.values() if (f, metric.name) in own]


def _shared_details(task: TaskSummaryInput, own: Scored) -> EstimateDetails:
    """Return the details common to all metrics of a task: of its prompts, gold answers and calibration."""
    first = next(iter(own.values()), ())
    details: EstimateDetails = {
        "kind": "task",
        "alias": task.alias or task.name,
        "version": task.version,
        "output_type": task.output_type,
        "n_shots": task.num_fewshot,
        "n_total": task.n_total,
        "n_leaked": sum(row.n_leaked_shots > 0 for row in first),
        "n_cut": sum(row.n_cut_tokens > 0 for row in first),
        "n_mostly_cut": sum(row.n_cut_tokens > row.n_context_tokens > 0 for row in first),
    }
    if task.copy_of is not None:
        details["copy_of"] = task.copy_of
    if task.n_skipped:
        details |= {"n_skipped": task.n_skipped, "first_skipped": task.first_skipped}
    return {**details, **_absent_golds(task.name, own), **calibration_details(own)}


def _first_tokens(rows: Sequence[ScoreRow]) -> SampleDetails:
    """Return how many choices were outside a server's most probable first tokens; empty where none was scored so."""
    own = [row for row in rows if _detail(row, "first_token", default=False)]
    return {"n_first_token": len(own), "n_outside": sum(_count(row, "n_outside", 0) for row in own)} if own else {}


def _equal_by(rows: Sequence[ScoreRow]) -> SampleDetails:
    """Count right answers that are not the reference to the letter, and wrong ones that may not be meant as such."""
    details: SampleDetails = {}
    if equal := _named(rows, "equal_by"):
        details["equal_by"] = equal
    near = _named(rows, "near_miss")
    if n_of_type := _named(rows, "reason").get("wrong_type"):  # of a call's argument
        near["wrong_type"] = n_of_type
    if near:
        details["near_misses"] = near
    if among := sum(bool(_detail(row, "among_words", default=False)) for row in rows):
        details["n_among_words"] = among
    return details


def _named(rows: Sequence[ScoreRow], key: str) -> dict[str, int]:
    """Count the texts under a key of the scores' details, or of a scorer's metadata; the most frequent first."""
    stated = (_detail(row, key, None) or _detail(row, "metadata", None) for row in rows)
    names = (each.get(key) if isinstance(each, Mapping) else each for each in stated)
    return dict(Counter(name for name in names if name and isinstance(name, str) and name.isprintable()).most_common())


def _absent_golds(name: str, own: Scored) -> SampleDetails:
    """Return how many rows have a gold answer that is none of their choices, and the first; empty without any."""
    of_choices = next((rows for (_, metric), rows in own.items() if metric == TIES), ())
    absent = [row.sample_index for row in of_choices if _detail(row, "gold_is_absent", default=False)]
    return {"n_gold_absent": len(absent), "first_gold_absent": f"{name}, sample {min(absent)}"} if absent else {}


def _estimate(
    task: TaskSummaryInput,
    metric: MetricInput,
    rows: Sequence[ScoreRow],
    shared: EstimateDetails,
    bootstrap_iters: int,
    confidence: float,
) -> Estimate:
    counted = [row for row in rows if row.status is not ScoreStatus.FAILED and _has_item(row)]
    items = [row.item for row in counted]
    try:
        ours = _interval(metric, counted, items, confidence)
        lm_evals = _lm_eval_value(metric, items)
    except (DataError, UnknownName):
        raise
    except Exception as error:
        if metric.aggregation in AGGREGATIONS:  # one of ours
            raise DataError(
                f"task {task.name}: the aggregation {metric.aggregation} cannot take what {metric.name} gives, such as "
                f"{items[0]!r:.80} ({exception_text(error)}); name another one in metric_list, and run the same "
                "command again: the answers are stored"
            ) from error
        raise DataError(
            f"task {task.name}: the aggregation of {metric.name} raises {exception_text(error)}; mend it, and "
            "run the same command again: the answers are stored"
        ) from error
    without = [row for row in rows if row.status is not ScoreStatus.FAILED and not _has_item(row)]
    unscored = Counter(  # a label is what its scorer gives
        row.status for row in without if row.status is ScoreStatus.UNPARSED or _detail(row, "label", None) is None
    )
    tied = [row for row in counted if _count(row, "n_tied", 1) > 1]
    details: EstimateDetails = {
        **shared,
        "path": (),
        "primary": task.primary == (metric.name, rows[0].filter),
        "unit": _unit(metric, counted),
        "n_tied": len(tied),
        **_first_tokens(counted),
        **_equal_by(counted),
        **_first_error(rows),
        "lm_eval_value": lm_evals,
        "lm_eval_stderr": _lm_eval_stderr(metric, items, bootstrap_iters),
        "lm_eval_n": len(items),
    }
    if metric.is_neutral:
        details["is_neutral"] = True
    if unscored:
        details["n_unscored"] = unscored.total()
    if infinite := sum(row.value is not None and math.isinf(row.value) for row in counted):
        details["n_infinite"] = infinite
    if not counted and (
        labels := Counter(str(label)[:LONGEST_LABEL] for row in rows if (label := _detail(row, "label", None)))
    ):
        details["labels"] = dict(labels.most_common(MOST_LABELS))
    if in_scoring := sum(bool(_detail(row, "in_scoring", False)) for row in rows if row.status is ScoreStatus.FAILED):
        details["n_failed_in_scoring"] = in_scoring
    return Estimate(
        task=task.name,
        metric=metric.name,
        filter=rows[0].filter,
        value=_finite(ours.value) if ours else None,
        low=_finite(ours.low) if ours else None,
        high=_finite(ours.high) if ours else None,
        method=ours.method if ours else "none",
        n=len(counted),
        n_failed=sum(row.status is ScoreStatus.FAILED for row in rows),
        n_unparsed=sum(row.status is ScoreStatus.UNPARSED for row in rows) - unscored[ScoreStatus.UNPARSED],
        stderr=_finite(ours.stderr) if ours else None,
        chance=_chance(task, metric, counted),
        higher_is_better=metric.higher_is_better,
        confidence=confidence,
        details=details,
    )


def _first_error(rows: Sequence[ScoreRow]) -> SampleDetails:
    """Return the error of the first failed request, in one line; empty where none failed."""
    errors = (_detail(row, "error", None) for row in rows if row.status is ScoreStatus.FAILED)
    message = next((str(error) for error in errors if error), None)
    return {} if message is None else {"first_error": shorten(message, LONGEST_ERROR, placeholder=" …")}


def _interval(
    metric: MetricInput, rows: Sequence[ScoreRow], items: aggregate.Items, confidence: float
) -> IntervalEstimate | None:
    """Return our value and interval, by a method that fits the metric's aggregation."""
    if not items:
        return None
    traits = traits_of(metric.aggregation)
    if _is_share_of_parts(metric, items):
        if len(items) == 1:
            return IntervalEstimate(sum(items[0]) / len(items[0]), None, None, None, "none: one sample", 1, confidence)
        parts = [(float(part), at) for at, item in enumerate(items) for part in item]
        return estimate_mean([part for part, _ in parts], clusters=[at for _, at in parts], confidence=confidence)
    facts = find_metric(metric.name)
    declared = NO_BOUNDS if facts is None or facts.bounds is None else facts.bounds  # as ROUGE's, of 0 to 100
    bounds = declared if metric.is_number else None
    if traits.is_mean:
        return _mean(rows, confidence, bounds)
    if traits.interval == "fitted":
        return estimate_perplexity([float(item) for item in items], confidence)
    if traits.ratio is not None:
        amounts, weights = ([float(item[i]) for item in items] for i in (0, 1))
        return estimate_ratio(amounts, weights, family=traits.ratio, confidence=confidence)
    if traits.interval == "mean of values" and all(row.value is not None for row in rows):
        values = [row.value for row in rows if row.value is not None]
        return estimate_mean(values, confidence=confidence, bounds=bounds)
    if traits.interval == "bootstrap" and not traits.is_of_labels:
        return estimate_by_resampling(traits.function, items, confidence=confidence)
    value = _lm_eval_value(metric, items)
    if value is None:
        return None
    if traits.is_of_labels and len(items) > 1:
        return estimate_label_metric(str(metric.aggregation), items, confidence=confidence)
    return IntervalEstimate(value, None, None, None, "none", len(items), confidence)


def _is_share_of_parts(metric: MetricInput, items: aggregate.Items) -> bool:
    """Return whether each sample has several parts that are right or wrong, all of which are counted (IFEval's)."""
    facts = find_metric(metric.name)
    return (
        not isinstance(metric.aggregation, str)
        and facts is not None
        and facts.is_share
        and all(isinstance(item, list | tuple) and item and set(item) <= {0, 1} for item in items)
        and metric.aggregation(list(items)) == sum(map(sum, items)) / sum(map(len, items))
    )


def _mean(rows: Sequence[ScoreRow], confidence: float, bounds: tuple[float, float] | None) -> IntervalEstimate | None:
    """Return the mean with tied best choices sharing the credit; with partial credit, too, by Wilson's interval.

    A share of credits has no more variance than a share of correct answers with the same mean, so Wilson's interval is
    at most too wide for it, and it remains valid where all answers are correct. None where a score is infinite: in
    lm-eval the mean is too.
    """
    values = [score_number(credit) for row in rows if (credit := _detail(row, "credit", row.value)) is not None]
    if not values or not all(map(math.isfinite, values)):
        return None
    plain = estimate_mean(values, binary=None if bounds is None else False, confidence=confidence, bounds=bounds)
    if any("credit" in (row.detail or {}) for row in rows if isinstance(row.detail, dict)):
        interval = wilson(sum(values), len(values), confidence)
        return IntervalEstimate(
            plain.value, interval.low, interval.high, plain.stderr, "wilson", len(values), confidence
        )
    return plain


def _has_item(row: ScoreRow) -> bool:
    return row.parts is not None or row.value is not None


def _detail(row: ScoreRow, key: str, default: JsonValue) -> JsonValue:
    return row.detail.get(key, default) if isinstance(row.detail, dict) else default


def _count(row: ScoreRow, key: str, default: int) -> int:
    value = _detail(row, key, default)
    return value if isinstance(value, int) else int(score_number(value))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _unit(metric: MetricInput, rows: Sequence[ScoreRow]) -> str:
    """Return "proportion" for a mean of scores that are all in [0, 1], else "plain"."""
    if traits_of(metric.aggregation).is_share:
        return "proportion"
    if metric.is_number:
        return "plain"
    if rows and _is_share_of_parts(metric, [row.parts for row in rows]):
        return "proportion"
    is_share = traits_of(metric.aggregation).is_mean and all(
        row.value is not None and 0 <= row.value <= 1 for row in rows
    )
    return "proportion" if is_share else "plain"


def _chance(task: TaskSummaryInput, metric: MetricInput, rows: Sequence[ScoreRow]) -> float | None:
    """Return the chance score: the mean of 1/choices over these samples, or the one in the task's card.

    A score whose chance is another one (`circular_acc`) has it among its details.
    """
    shares = [score_number(_detail(row, "chance", 1.0 / k)) for row in rows if (k := _count(row, "n_choices", 0)) > 1]
    if shares and len(shares) == len(rows):
        return sum(shares) / len(shares)
    primary = task.primary
    return task.chance if primary is not None and primary[0] == metric.name else None


def _lm_eval_value(metric: MetricInput, items: Sequence[object]) -> float | None:
    if not items:
        return None
    if not isinstance(metric.aggregation, str):
        own: Any = metric.aggregation(list(items))
        return None if own is None else _finite(float(own))
    return _finite(aggregate.aggregate(metric.aggregation, items))


def _lm_eval_stderr(metric: MetricInput, items: Sequence[object], bootstrap_iters: int) -> float | None:
    if not isinstance(metric.aggregation, str) or not items:
        return None
    return _finite(lm_eval_errors.stderr(metric.aggregation, items, bootstrap_iters))
