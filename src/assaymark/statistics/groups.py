"""Averages over tasks: micro and macro averages, weighted composites and rescaled scores, with their errors.

A macro average gives every task the same weight, a micro average every sample. Both are linear, so the error is the
root of the weighted sum of squares of the tasks' errors: not their mean, and not that of one large pooled task. These
errors describe the variation over other samples of the same tasks; `estimate_over_tasks` describes the variation over
other tasks of their kind.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate, effective_wilson
from assaymark.statistics.intervals import t_interval

Parts = Sequence[IntervalEstimate]


def micro_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """Return √Σ(n_t SE_t)² / Σ n_t: the error of the mean over all samples, stratified by task (Cochran 1977, 5.2)."""
    return linear_stderr(stderrs, [n / sum(sizes) for n in sizes])


def macro_stderr(stderrs: Sequence[float]) -> float:
    """Return √Σ SE_t² / T: the error of the unweighted mean of T independent task scores."""
    return linear_stderr(stderrs, [1.0 / len(stderrs)] * len(stderrs))


def linear_stderr(stderrs: Sequence[float], weights: Sequence[float]) -> float:
    """Return √Σ (w_t SE_t)²: the error of Σ w_t score_t with independent tasks."""
    if len(stderrs) != len(weights) or not stderrs:
        raise DataError(f"{len(stderrs)} errors and {len(weights)} weights; expected equal numbers, at least 1")
    return math.sqrt(sum((w * error) ** 2 for w, error in zip(weights, stderrs, strict=True)))


Bounds = tuple[float, float] | None


def estimate_micro(parts: Parts, confidence: float = 0.95, bounds: Bounds = (0.0, 1.0)) -> IntervalEstimate:
    """Return the mean over all samples of all tasks."""
    sizes = [part.n for part in parts]
    weights = [n / max(sum(sizes), 1) for n in sizes]
    return estimate_composite(parts, weights, confidence=confidence, bounds=bounds, name="micro")


def estimate_macro(parts: Parts, confidence: float = 0.95, bounds: Bounds = (0.0, 1.0)) -> IntervalEstimate:
    """Return the unweighted mean of the tasks."""
    weights = [1.0 / max(len(parts), 1)] * len(parts)
    return estimate_composite(parts, weights, confidence=confidence, bounds=bounds, name="macro")


def estimate_composite(
    parts: Sequence[IntervalEstimate | None],
    weights: Sequence[float],
    *,
    confidence: float = 0.95,
    bounds: Bounds = (0.0, 1.0),
    name: str = "composite",
) -> IntervalEstimate:
    """Return Σ w_t value_t with its error and interval.

    Degrees of freedom after Satterthwaite 1946. For scores between 0 and 1 and weights that sum to 1 the interval is
    Wilson's with the effective sample size of the error (`effective_wilson`), so it stays within [0, 1] and has
    positive width at 100%; otherwise it is Student's. A single member with weight 1 keeps its own interval. Pass
    `bounds=None` for metrics other than shares (bits per byte, perplexities).

    Raises: DataError for a missing member: an incomplete composite is never averaged over the members it has.
    """
    members = _complete(parts, weights)
    if len(members) == 1 and weights[0] == 1.0 and members[0].confidence == confidence:
        return members[0]
    value = float(sum(w * part.value for w, part in zip(weights, members, strict=True)))
    n = sum(part.n for part in members)
    n_floor = 1.0 / sum(w * w / (part.n_clusters or part.n) for w, part in zip(weights, members, strict=True) if w)
    shares = [w * w * _variance(part, value) for w, part in zip(weights, members, strict=True)]
    if any(not math.isfinite(share) for share in shares):
        return IntervalEstimate(value, None, None, None, f"none: a part of this {name} has no error", n, confidence)
    stderr, df = math.sqrt(sum(shares)), _satterthwaite(shares, members)
    averaging = abs(sum(weights) - 1.0) < 1e-9 and min(weights) >= 0
    if bounds == (0.0, 1.0) and averaging and all(0.0 <= part.value <= 1.0 for part in members):
        interval, method = effective_wilson(value, stderr, n_floor, df, confidence), f"{name} wilson"
    else:
        interval, method = t_interval(value, stderr, df, confidence), f"{name} t"
    return IntervalEstimate(value, interval.low, interval.high, stderr, method, n, confidence, df=df)


def estimate_over_tasks(parts: Parts, confidence: float = 0.95) -> IntervalEstimate:
    """Return the macro average with the tasks as a sample: error sd(values)/√T, t with T - 1 degrees of freedom.

    The interval is much wider than `estimate_macro`'s; use it for claims about tasks of this kind in general.
    """
    values = np.array([part.value for part in _complete(parts, [1.0] * len(parts))])
    t = len(values)
    n = sum(part.n for part in parts)
    if t < 2:
        return IntervalEstimate(float(values.mean()), None, None, None, "none: one task", n, confidence)
    stderr = float(values.std(ddof=1) / math.sqrt(t))
    interval = t_interval(float(values.mean()), stderr, t - 1, confidence)
    return IntervalEstimate(
        float(values.mean()), interval.low, interval.high, stderr, "tasks t", n, confidence, n_clusters=t, df=t - 1
    )


def rescale(estimate: IntervalEstimate, chance: float, *, best: float = 1.0) -> IntervalEstimate:
    """Return (value - chance) / (best - chance) with error and ends rescaled; below chance it is negative, not zero."""
    if not chance < best:
        raise DataError(f"chance is {chance} and the best score {best}; expected chance below best")
    width = best - chance
    return replace(
        estimate,
        value=(estimate.value - chance) / width,
        low=None if estimate.low is None else (estimate.low - chance) / width,
        high=None if estimate.high is None else (estimate.high - chance) / width,
        stderr=None if estimate.stderr is None else estimate.stderr / width,
        method=f"{estimate.method}, rescaled",
    )


def _complete(parts: Sequence[IntervalEstimate | None], weights: Sequence[float]) -> list[IntervalEstimate]:
    missing = [index for index, part in enumerate(parts) if part is None]
    if missing or not parts or len(parts) != len(weights):
        raise DataError(
            f"{len(parts)} members, {len(missing)} of them missing (positions {missing}), {len(weights)} weights; "
            "expected every member of the composite and one weight each: score the missing tasks first"
        )
    return [part for part in parts if part is not None]


def _variance(part: IntervalEstimate, overall: float) -> float:
    """Return the squared error of one part; that of a single sample is taken from 0s and 1s of the overall mean."""
    if part.stderr is not None:
        return part.stderr**2
    return overall * (1.0 - overall) / part.n if 0.0 <= overall <= 1.0 else math.nan


def _satterthwaite(shares: Sequence[float], members: Parts) -> float:
    freedom = [float(part.df or max((part.n_clusters or part.n) - 1, 1)) for part in members]
    bottom = sum(share * share / df for share, df in zip(shares, freedom, strict=True))
    return sum(shares) ** 2 / bottom if bottom > 0 else sum(freedom)
