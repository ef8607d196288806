"""Calibration: a model's confidence compared with the credit of its answers.

The expected calibration error is never zero for a finite sample, so it is reported with its value under perfect
calibration and a p. Bins contain equally many samples; samples of equal confidence are averaged before binning, so that
their order does not matter. Credit may be partial.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.bradley_terry import sigmoid
from assaymark.statistics.intervals import as_floats

Scores = Sequence[float] | NDArray[np.number | np.bool_]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a reliability diagram."""

    n: int
    confidence: float  # mean
    accuracy: float  # mean credit


@dataclass(frozen=True, slots=True)
class CalibrationError:
    """Expected calibration error, with its distribution under perfect calibration."""

    value: float
    null_value: float  # mean under perfect calibration, these confidences, this n
    null_high: float  # its 95% quantile
    p: float  # probability of at least this value under perfect calibration
    n: int
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class BrierSplit:
    """Murphy's decomposition of the Brier score; brier = reliability - resolution + uncertainty + within."""

    brier: float
    reliability: float  # lower is better
    resolution: float  # higher is better
    uncertainty: float  # of the task, not the model
    within: float  # variation within bins: 0 if all confidences in a bin are equal


@dataclass(frozen=True, slots=True)
class PlattScaling:
    """Logistic recalibration: σ(slope · logit(confidence) + intercept)."""

    slope: float | None  # None where it is not defined: all right, all wrong, or one confidence for all
    intercept: float

    def apply(self, confidences: Scores) -> Floats:
        """Return recalibrated confidences; without a slope one for all."""
        return sigmoid((self.slope or 0.0) * _logit(as_floats(confidences)) + self.intercept)


@dataclass(frozen=True, slots=True)
class SelectiveCurve:
    """Accuracy if only the most confident share of samples is answered."""

    coverage: tuple[float, ...]  # 1/n, 2/n, ... 1
    accuracy: tuple[float, ...]  # of that share
    aurc: float  # mean risk (1 - accuracy) over coverages; lower is better
    excess_aurc: float  # above the best order of the same answers

    def accuracy_at(self, coverage: float) -> float:
        """Return the accuracy of the most confident share of that size (at least one sample)."""
        index = max(math.ceil(coverage * len(self.coverage) - 1e-9), 1) - 1
        return self.accuracy[min(index, len(self.accuracy) - 1)]


def calibration_error(
    confidences: Scores, credits_: Scores, *, n_bins: int = 10, draws: int = 1000
) -> CalibrationError:
    """Return the equal-mass ECE: Σ_b (n_b / n) |accuracy_b - confidence_b|.

    The null is simulated: correct answers are drawn with the confidences as probabilities. Ten bins need about 300
    samples to be informative.

    Source: Naeini et al. 2015; equal mass as in HELM; null after Vaicenavicius et al. 2019.
    """
    confidence, credit = _checked(confidences, credits_)
    order = np.argsort(confidence, kind="stable")
    sorted_confidence = confidence[order]
    edges = _edges(len(confidence), n_bins)
    groups = _tie_groups(sorted_confidence)
    bins = _bins(sorted_confidence, _pool(credit[order], groups), edges)
    value = sum(b.n * abs(b.accuracy - b.confidence) for b in bins) / len(confidence)
    null = _null_errors(sorted_confidence, groups, edges, draws)
    return CalibrationError(
        value, float(null.mean()), float(np.quantile(null, 0.95)),
        float((1 + (null >= value - 1e-12).sum()) / (draws + 1)), len(confidence), bins
    )  # fmt: skip


def brier_split(confidences: Scores, credits_: Scores, *, n_bins: int | None = None) -> BrierSplit:
    """Decompose the mean (confidence - credit)², over distinct confidences or over equal-mass bins.

    Source: Murphy 1973, equation 16; the within-bin term after Stephenson, Coelho and Jolliffe 2008.
    """
    confidence, credit = _checked(confidences, credits_)
    order = np.argsort(confidence, kind="stable")
    groups = _tie_groups(confidence[order])
    p, y = confidence[order], _pool(credit[order], groups)
    if n_bins is not None:
        groups = np.repeat(np.arange(n_bins), np.diff(_edges(len(p), n_bins)))
    counts = np.bincount(groups)
    used = counts > 0
    mean_p = (np.bincount(groups, p)[used] / counts[used])[np.cumsum(used)[groups] - 1]  # [n]
    mean_y = (np.bincount(groups, y)[used] / counts[used])[np.cumsum(used)[groups] - 1]
    base = float(credit.mean())
    brier = float(((confidence - credit) ** 2).mean())
    reliability = float(((mean_p - mean_y) ** 2).mean())
    resolution = float(((mean_y - base) ** 2).mean())
    uncertainty = float(((credit - base) ** 2).mean())  # base (1 - base) if credit is 0 or 1
    return BrierSplit(brier, reliability, resolution, uncertainty, brier - reliability + resolution - uncertainty)


def platt_scaling(confidences: Scores, credits_: Scores) -> PlattScaling:
    """Fit a logistic regression of correctness on logit(confidence), by Newton's method.

    Targets are Platt's (N₊+1)/(N₊+2) and 1/(N₋+2), so the fit exists even if right and wrong separate.
    Source: Platt 1999; Lin, Lin and Weng 2007.
    """
    confidence, credit = _checked(confidences, credits_)
    positives, negatives = float(credit.sum()), float((1.0 - credit).sum())
    high, low = (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0)
    target = credit * high + (1.0 - credit) * low
    x = _logit(confidence)
    design = np.column_stack([x, np.ones_like(x)])
    if float(np.ptp(x)) == 0.0 or float(np.ptp(credit)) == 0.0:  # the intercept is identified, the slope is not
        level = float(target.mean())
        return PlattScaling(None, math.log(level / (1.0 - level)))
    weights = np.zeros(2)
    for _ in range(100):
        step = _newton_step(design, target, weights)
        weights = weights + step
        if float(np.abs(step).max()) < 1e-12:
            break
    return PlattScaling(float(weights[0]), float(weights[1]))


def selective_curve(confidences: Scores, credits_: Scores) -> SelectiveCurve:
    """Return accuracy against coverage, most confident first; samples of equal confidence share their credit.

    Source: El-Yaniv and Wiener 2010; Geifman, Uziel and El-Yaniv 2019 (AURC and its excess).
    """
    confidence, credit = _checked(confidences, credits_)
    order = np.argsort(-confidence, kind="stable")
    shared = _pool(credit[order], _tie_groups(confidence[order]))
    counts = np.arange(1, len(credit) + 1)
    accuracy = np.cumsum(shared) / counts
    best = np.cumsum(np.sort(credit)[::-1]) / counts
    aurc = float((1.0 - accuracy).mean())
    return SelectiveCurve(
        tuple((counts / len(credit)).tolist()), tuple(accuracy.tolist()), aurc, aurc - float((1.0 - best).mean())
    )


def _checked(confidences: Scores, credits_: Scores) -> tuple[Floats, Floats]:
    confidence, credit = as_floats(confidences, "confidences"), as_floats(credits_, "credits")
    if len(confidence) != len(credit):
        raise DataError(f"{len(confidence)} confidences and {len(credit)} credits; expected one of each per sample")
    for name, values in (("confidences", confidence), ("credits", credit)):
        if values.min() < 0 or values.max() > 1:
            raise DataError(f"{name} lie between {values.min()} and {values.max()}; expected 0 to 1")
    return confidence, credit


def _tie_groups(ordered: Floats) -> NDArray[np.int64]:
    """Number the runs of equal values in a sorted array."""
    return np.concatenate([[0], np.cumsum(np.diff(ordered) != 0)]).astype(np.int64)


def _pool(values: Floats, groups: NDArray[np.int64]) -> Floats:
    return np.asarray((np.bincount(groups, values) / np.bincount(groups))[groups])


def _edges(n: int, n_bins: int) -> NDArray[np.int64]:
    if n_bins < 1:
        raise DataError(f"n_bins is {n_bins}; expected at least 1")
    return np.linspace(0, n, n_bins + 1).round().astype(np.int64)


def _bins(confidence: Floats, credit: Floats, edges: NDArray[np.int64]) -> tuple[Bin, ...]:
    return tuple(
        Bin(end - start, float(confidence[start:end].mean()), float(credit[start:end].mean()))
        for start, end in pairwise(edges.tolist())
        if end > start
    )


def _null_errors(confidence: Floats, groups: NDArray[np.int64], edges: NDArray[np.int64], draws: int) -> Floats:
    """Return the ECE of answers drawn with the confidences as probabilities. Shapes: result [draws]."""
    generator = generator_for("calibration null", len(confidence), len(edges))
    starts = np.unique(edges[:-1][np.diff(edges) > 0])
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(np.append(first, len(groups)))
    errors = np.empty(draws)
    for index in range(draws):
        right = (generator.random(len(confidence)) < confidence).astype(np.float64)
        pooled = (np.add.reduceat(right, first) / sizes)[groups]
        errors[index] = np.abs(np.add.reduceat(pooled - confidence, starts)).sum() / len(confidence)
    return errors


def _logit(p: Floats) -> Floats:
    clipped = np.clip(p, 1e-12, 1.0 - 1e-12)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def _newton_step(design: Floats, target: Floats, weights: Floats) -> Floats:
    """Return one damped Newton step of logistic regression: halved until the loss decreases."""
    p = sigmoid(design @ weights)
    gradient = design.T @ (target - p)
    curvature = (design * (p * (1.0 - p))[:, None]).T @ design + 1e-12 * np.eye(2)
    step = np.linalg.solve(curvature, gradient)
    before = _loss(design, target, weights)
    for _ in range(50):
        if _loss(design, target, weights + step) <= before + 1e-12:
            break
        step = step / 2.0
    return np.asarray(step)


def _loss(design: Floats, target: Floats, weights: Floats) -> float:
    score = design @ weights
    return float((np.logaddexp(0.0, score) - target * score).sum())
