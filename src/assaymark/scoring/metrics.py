"""What other code reads of a metric: its row in the table (`metric_table`), and what follows from it."""

import re
from dataclasses import replace
from functools import cache

from assaymark.registry import Registry
from assaymark.scoring.metric import (
    ANY_CALL,
    BRIER,
    CALIBRATION,
    CALL_MATCH,
    CONFIDENCE,
    GENERATE,
    LOGLIKELIHOOD,
    MULTIPLE_CHOICE,
    ROLLING,
    TIES,
    TOOL_CALLS,
    Metric,
    facts_of,
)
from assaymark.scoring.metric_table import METRICS

__all__ = [
    "ANY_CALL",
    "BRIER",
    "CALIBRATION",
    "CALL_MATCH",
    "CONFIDENCE",
    "GENERATE",
    "LOGLIKELIHOOD",
    "METRICS",
    "MULTIPLE_CHOICE",
    "ROLLING",
    "TIES",
    "TOOL_CALLS",
    "Metric",
    "accuracies_over_choices",
    "aggregation_of",
    "defaults_for",
    "find_metric",
    "formula_of",
    "is_auxiliary",
    "is_higher_better",
    "is_number",
    "is_own_metric",
    "is_right_or_wrong",
    "may_be_share",
    "metric_item",
    "names_for",
    "names_of_calls",
    "needs_unconditional",
    "preferred_names",
]  # fmt: skip

REGISTERED: Registry[object] = Registry("metrics", "metric")  # of installed packages
_BY_NAME = {metric.name: metric for metric in METRICS}
_PASS_AT = re.compile(r"pass@\d+")

# words in the names of metrics without a row, which decide what values between 0 and 1 mean
_NUMBER_WORDS = frozenset({
    "perplexity", "ppl", "bits", "loss", "nll", "logprob", "logprobs", "tokens", "latency", "time", "seconds", "cost",
    "mse", "rmse", "mae", "std", "stdev", "var", "variance", "corr", "correlation", "corrcoef", "pearson", "spearman",
    "kendall", "matthews", "mcc", "brier", "ece", "calibration", "bleu", "chrf", "ter",
})  # fmt: skip
_SHARE_WORDS = frozenset({"acc", "accuracy"})  # these win: `bleu_acc` is a share


@cache
def find_metric(name: str) -> Metric | None:
    """Return the row of a metric; None where there is none."""
    metric = _BY_NAME.get(name)
    if metric is None and _PASS_AT.fullmatch(name):
        return replace(_BY_NAME["pass@k"], name=name)
    if metric is None and name in REGISTERED:
        return facts_of(REGISTERED.load(name))
    return metric


def is_own_metric(name: str) -> bool:
    """Return whether this package has a row for a metric; those that other packages register have none here."""
    return name in _BY_NAME or _PASS_AT.fullmatch(name) is not None


@cache
def names_of_calls() -> tuple[str, ...]:
    """Return the metrics of what is known of an application's calls."""
    return tuple(metric.name for metric in METRICS if metric.is_of_call)


@cache
def names_for(output_type: str) -> tuple[str, ...]:
    """Return the metrics that `scoring` computes for an output type, in lm-eval's order."""
    return tuple(metric.name for metric in METRICS if output_type in metric.output_types)


@cache
def defaults_for(output_type: str) -> tuple[str, ...]:
    """Return the default metrics of an output type, as in lm-eval 0.4.13."""
    return tuple(metric.name for metric in METRICS if output_type in metric.default_for)


@cache
def accuracies_over_choices(*, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the metrics that pick one choice, by preference, except those with a need in `without`."""
    picking = [m for m in METRICS if m.picks_choice and not m.is_auxiliary and not set(m.needs) & set(without)]
    return tuple(m.name for m in sorted(picking, key=lambda metric: metric.preference or len(METRICS)))


@cache
def preferred_names() -> tuple[str, ...]:
    """Return the candidates for the primary metric of a task whose card names none, by preference."""
    ranked = [(metric.preference, metric.name) for metric in METRICS if metric.preference is not None]
    return tuple(name for _, name in sorted(ranked))


def aggregation_of(name: str) -> str:
    """Return a metric's aggregation where its task file names none; the mean for unknown metrics."""
    metric = find_metric(name)
    return "mean" if metric is None else metric.aggregation


def is_higher_better(name: str) -> bool:
    """Return a metric's direction where its task file gives none; True for unknown metrics."""
    metric = find_metric(name)
    return metric is None or metric.higher_is_better


def is_auxiliary(name: str) -> bool:
    """Return whether a metric is only computed for the details of others, without a row of its own in tables."""
    metric = find_metric(name)
    return metric is not None and metric.is_auxiliary


def is_number(name: str) -> bool:
    """Return whether a metric is known not to be a share, even where all its values are in [0, 1]."""
    metric = find_metric(name)
    return metric is not None and not metric.is_share


def is_right_or_wrong(name: str) -> bool:
    """Return whether a sample's score is 0 or 1 for a wrong or right answer, comparable between runs."""
    metric = find_metric(name)
    return metric is not None and metric.scale == "right or wrong"


def needs_unconditional(name: str) -> bool:
    """Return whether a metric needs each choice's log-likelihood after an empty context too."""
    metric = find_metric(name)
    return metric is not None and "unconditional" in metric.needs


def may_be_share(name: str) -> bool:
    """Return whether values between 0 and 1 are shares: by the metric's row, else by the words in its name."""
    metric = find_metric(name)
    if metric is not None:
        return metric.is_share
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return not words & _NUMBER_WORDS or bool(words & _SHARE_WORDS)


def formula_of(name: str, output_type: str) -> str | None:
    """Return a metric's formula for an output type; None for a metric without a row."""
    metric = find_metric(name)
    return None if metric is None else dict(metric.formulas).get(output_type, metric.formula)


def metric_item(name: str) -> dict[str, str | bool]:
    """Return a metric as an item of a task file's `metric_list`. Raises: KeyError for a name without a row."""
    metric = _BY_NAME[name]
    return {"metric": name, "aggregation": metric.aggregation, "higher_is_better": metric.higher_is_better}
