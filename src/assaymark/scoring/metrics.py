"""What other code reads of a metric: its row in the table (`metric_table`), and what follows from it."""

import re
from dataclasses import replace
from functools import cache

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
)
from assaymark.scoring.metric_table import METRICS

__all__ = [
    "ANY_CALL", "BRIER", "CALIBRATION", "CALL_MATCH", "CONFIDENCE", "GENERATE", "LOGLIKELIHOOD", "METRICS",
    "MULTIPLE_CHOICE", "ROLLING", "TIES", "TOOL_CALLS", "Metric", "accuracies_over_choices", "aggregation_of",
    "defaults_for", "find_metric", "formula_of", "is_auxiliary", "is_higher_better", "is_number", "is_right_or_wrong",
    "may_be_share", "metric_item", "names_for", "needs_unconditional", "preferred_names",
]  # fmt: skip

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
    found = _BY_NAME.get(name)
    if found is None and _PASS_AT.fullmatch(name):
        return replace(_BY_NAME["pass@k"], name=name)
    return found


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
    found = find_metric(name)
    return "mean" if found is None else found.aggregation


def is_higher_better(name: str) -> bool:
    """Return a metric's direction where its task file gives none; True for unknown metrics."""
    found = find_metric(name)
    return found is None or found.higher_is_better


def is_auxiliary(name: str) -> bool:
    """Return whether a metric is only computed for the details of others, without a row of its own in tables."""
    found = find_metric(name)
    return found is not None and found.is_auxiliary


def is_number(name: str) -> bool:
    """Return whether a metric is known not to be a share, even where all its values are in [0, 1]."""
    found = find_metric(name)
    return found is not None and not found.is_share


def is_right_or_wrong(name: str) -> bool:
    """Return whether a sample's score is 0 or 1 for a wrong or right answer, comparable between runs."""
    found = find_metric(name)
    return found is not None and found.scale == "right or wrong"


def needs_unconditional(name: str) -> bool:
    """Return whether a metric needs each choice's log-likelihood after an empty context too."""
    found = find_metric(name)
    return found is not None and "unconditional" in found.needs


def may_be_share(name: str) -> bool:
    """Return whether values between 0 and 1 are shares: by the metric's row, else by the words in its name."""
    found = find_metric(name)
    if found is not None:
        return found.is_share
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return not words & _NUMBER_WORDS or bool(words & _SHARE_WORDS)


def formula_of(name: str, output_type: str) -> str | None:
    """Return a metric's formula for an output type; None for a metric without a row."""
    found = find_metric(name)
    return None if found is None else dict(found.formulas).get(output_type, found.formula)


def metric_item(name: str) -> dict[str, str | bool]:
    """Return a metric as an item of a task file's `metric_list`. Raises: KeyError for a name without a row."""
    found = _BY_NAME[name]
    return {"metric": name, "aggregation": found.aggregation, "higher_is_better": found.higher_is_better}
