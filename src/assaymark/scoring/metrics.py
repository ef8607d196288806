"""All metrics: those of this package, found by their declarations (`metric`), and those of installed packages.

What other code needs to know of a metric it reads here, from the facts beside the metric's function; none of it depends
on a name. The modules with the functions are imported at the first question.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import chain
from math import inf
from typing import Any

from assaymark.registry import Registry
from assaymark.scoring.metric import CALIBRATED, OUTPUT_TYPES, Metric, facts_of
from assaymark.scoring.uncomputed import UNCOMPUTED

REGISTERED: Registry[object] = Registry("metrics", "metric")  # of installed packages
_MODULES = (
    "generation", "choices", "loglikelihood", "call_match", "simulated_calls", "application_calls", "inspect_scorers",
    "uncomputed",
)  # fmt: skip
"""The modules of `scoring` with declared metrics. Of two declarations of a name the first module's is the main one."""
_PASS_AT = re.compile(r"pass@\d+")
_REDUCED = re.compile(r"(inspect_\w+?)_(max|mode|median|(?:pass_at|at_least)_\d+)")

# words in the names of unknown metrics, which decide what values between 0 and 1 mean
_NUMBER_WORDS = frozenset({
    "perplexity", "ppl", "bits", "loss", "nll", "logprob", "logprobs", "tokens", "latency", "time", "seconds", "cost",
    "mse", "rmse", "mae", "std", "stdev", "var", "variance", "corr", "correlation", "corrcoef", "pearson", "spearman",
    "kendall", "matthews", "mcc", "brier", "ece", "calibration", "bleu", "chrf", "ter",
})  # fmt: skip
_SHARE_WORDS = frozenset({"acc", "accuracy"})  # these win: `bleu_acc` is a share
_ERROR_WORDS = frozenset({
    "wer", "cer", "ter", "eer", "error", "errors", "loss", "nll", "perplexity", "ppl", "mae", "mse", "rmse", "ece",
    "brier", "latency", "cost", "hallucination", "toxicity", "fid",
})  # fmt: skip


@cache
def _declared() -> tuple[tuple[Metric, Callable[..., object]], ...]:
    """Return the facts and functions that this package's modules declare, in order."""
    modules = [import_module(f"assaymark.scoring.{name}") for name in _MODULES]
    values = ((module, value) for module in modules for value in vars(module).values())
    return tuple(
        (facts, value)
        for module, value in values
        if (facts := facts_of(value)) is not None and value.__module__ == module.__name__
    )


@cache
def computations(kind: str) -> Mapping[str, Callable[..., Any]]:
    """Return this package's metrics of a kind of answer, by name, in lm-eval's order."""
    return {facts.name: function for facts, function in _declared() if kind in facts.of}


@cache
def _own() -> Mapping[str, Metric]:
    """Return this package's metrics by name; those declared for several kinds of answers once."""
    declarations: dict[str, list[Metric]] = {}
    for facts in chain((facts for facts, _ in _declared()), UNCOMPUTED):
        declarations.setdefault(facts.name, []).append(facts)
    return {
        name: replace(
            main,
            of=(*main.of, *(kind for facts in others for kind in facts.of)),
            default_for=tuple(kind for kind in OUTPUT_TYPES for facts in (main, *others) if kind in facts.default_for),
            formulas=tuple((kind, facts.formula) for facts in others for kind in facts.of),
        )
        for name, (main, *others) in declarations.items()
    }


@cache
def own_metrics() -> tuple[Metric, ...]:
    """Return the metrics of this package."""
    return tuple(_own().values())


@cache
def find_metric(name: str) -> Metric | None:
    """Return a metric's facts; None where none are known."""
    metric = _own().get(name)
    if metric is None and _PASS_AT.fullmatch(name):
        return replace(_own()["pass@k"], name=name)
    base, reducer = split_reduced(name)
    if reducer is not None:
        facts = _own()[base]
        scale = "share" if reducer.startswith(("pass_at", "median")) else facts.scale
        return replace(facts, name=name, formula=f"{reducer} of several answers: {facts.formula}", scale=scale)
    if metric is None and name in REGISTERED:
        return facts_of(REGISTERED.load(name))
    return metric


def is_own_metric(name: str) -> bool:
    """Return whether this package has a metric of that name; other packages cannot replace it."""
    return name in _own() or _PASS_AT.fullmatch(name) is not None or split_reduced(name)[1] is not None


def split_reduced(name: str) -> tuple[str, str | None]:
    """Return the metric of one answer and the reducer of several that a name has: `inspect_match_pass_at_2`.

    The reducer is None, and the metric the name itself, for any other name.
    """
    matched = _REDUCED.fullmatch(name)
    return (matched[1], matched[2]) if matched is not None and matched[1] in _own() else (name, None)


def is_graded_by_model(name: str) -> bool:
    """Return whether a run leaves a metric without a value, and a grader is asked about the stored answers."""
    return split_reduced(name)[0] in ("inspect_model_graded_qa", "inspect_model_graded_fact")


def declared_for(name: str, kind: str) -> Metric | None:
    """Return the declaration of a metric of this package for a kind of answer; None where it has no such metric."""
    function = computations(kind).get(name)
    return None if function is None else facts_of(function)


def names_for(kind: str) -> tuple[str, ...]:
    """Return the metrics that `scoring` computes of a kind of answer, in lm-eval's order."""
    return tuple(computations(kind))


@cache
def defaults_for(output_type: str) -> tuple[str, ...]:
    """Return the default metrics of an output type, as in lm-eval 0.4.13."""
    return tuple(name for name in computations(output_type) if output_type in _own()[name].default_for)


@cache
def accuracies_over_choices(*, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the metrics that pick one choice, by preference, except those with a need in `without`."""
    picking = [m for m in own_metrics() if m.picks_choice and not m.is_auxiliary and not set(m.needs) & set(without)]
    return tuple(m.name for m in sorted(picking, key=lambda metric: metric.preference or inf))


@cache
def preferred_names() -> tuple[str, ...]:
    """Return the candidates for the primary metric of a task whose card names none, by preference."""
    ranked = [(metric.preference, metric.name) for metric in own_metrics() if metric.preference is not None]
    return tuple(name for _, name in sorted(ranked))


def aggregation_of(name: str) -> str:
    """Return a metric's aggregation where its task file names none; the mean for unknown metrics."""
    metric = find_metric(name)
    return "mean" if metric is None else metric.aggregation


def is_higher_better(name: str) -> bool:
    """Return a metric's direction where its task file gives none; for unknown ones by their name, else True."""
    return known_direction(name) is not False


def known_direction(name: str) -> bool | None:
    """Return whether higher is better: by the metric's facts, else not for an error's name; None where neither says."""
    metric = find_metric(name)
    if metric is not None:
        return metric.higher_is_better
    words = _words(name)
    return False if words & _ERROR_WORDS and not words & _SHARE_WORDS else None


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


def is_credit(name: str) -> bool:
    """Return whether a sample's score is how right its answer is: 0 or 1, or a share among tied choices."""
    metric = find_metric(name)
    return metric is not None and (metric.scale == "right or wrong" or metric.picks_choice)


def context_without_question(name: str) -> str | None:
    """Return the context in which a metric needs each choice's log-likelihood too; None: it needs no other."""
    metric = find_metric(name)
    if metric is None or "unconditional" not in metric.needs:
        return None
    return "Answer:" if name == CALIBRATED else ""


def needs_every_choice(name: str) -> bool:
    """Return whether a metric has no value where only some of a question's choices are known."""
    metric = find_metric(name)
    return metric is not None and "every choice" in metric.needs


def may_be_share(name: str) -> bool:
    """Return whether values between 0 and 1 are shares: by the metric's facts, else by the words in its name."""
    metric = find_metric(name)
    if metric is not None:
        return metric.is_share
    words = _words(name)
    return not words & _NUMBER_WORDS or bool(words & _SHARE_WORDS)


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def formula_of(name: str, output_type: str) -> str | None:
    """Return a metric's formula for an output type; None for an unknown metric."""
    metric = find_metric(name)
    return None if metric is None else dict(metric.formulas).get(output_type, metric.formula)


def metric_item(name: str) -> dict[str, str | bool]:
    """Return a metric as an item of a task file's `metric_list`. Raises: KeyError for another's or an unknown name."""
    metric = _own()[name]
    return {"metric": name, "aggregation": metric.aggregation, "higher_is_better": metric.higher_is_better}
