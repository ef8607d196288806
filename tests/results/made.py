"""Synthetic rows, tasks and estimates for the tests of this folder."""

from collections.abc import Sequence
from typing import Any, cast

from assaymark.records import Estimate, EstimateDetails, ScoreStatus
from assaymark.results.evidence.records import MetricInput, ScoreRow, TaskSummaryInput

ACC = MetricInput("acc")
PERPLEXITY = MetricInput("word_perplexity", "weighted_perplexity", higher_is_better=False)


def task_of(name: str = "t", *metrics: MetricInput, **changes: Any) -> TaskSummaryInput:
    """Return a task with these metrics (accuracy if none is given)."""
    return TaskSummaryInput(name, metrics or (ACC,), **changes)


def choice_rows(task: str, earned: Sequence[float], *, n_choices: int = 4, metric: str = "acc") -> list[ScoreRow]:
    """Return rows of an accuracy with these credits; a fraction is a tie whose first choice was wrong."""
    return [
        ScoreRow(
            task,
            index,
            f"sha256:{task}-{index}",
            metric,
            float(credit == 1.0),
            detail={
                "picked": 0,
                "n_tied": 1 if credit in {0.0, 1.0} else round(1 / credit),
                "credit": credit,
                "n_choices": n_choices,
            },
        )
        for index, credit in enumerate(earned)
    ]


def plain_rows(task: str, values: Sequence[float | None], metric: str = "acc", **changes: Any) -> list[ScoreRow]:
    """Return rows with these values; None is a failed request."""
    return [
        ScoreRow(
            task,
            index,
            f"sha256:{task}-{index}",
            metric,
            value,
            status=ScoreStatus.SCORED if value is not None else ScoreStatus.FAILED,
            **changes,
        )
        for index, value in enumerate(values)
    ]


def estimate_of(task: str, value: float | None, n: int = 100, metric: str = "acc", **changes: Any) -> Estimate:
    """Return an estimate of a share with a plausible interval; `changes` set its fields, unknown ones its details."""
    known = {
        key: changes.pop(key)
        for key in ("low", "high", "n_failed", "n_unparsed", "chance", "filter", "higher_is_better")
        if key in changes
    }
    own = {"kind": "task", "path": (), "alias": task, "primary": True, "unit": "proportion", **changes}
    half = 0.05
    low, high = (None, None) if value is None else (max(0.0, value - half), min(1.0, value + half))
    fields = {"filter": "none", "low": low, "high": high, "chance": 0.25, **known}
    return Estimate(
        task=task,
        metric=metric,
        value=value,
        method="wilson",
        n=n,
        stderr=0.04,
        details=cast("EstimateDetails", own),
        **fields,
    )
