"""Calibration as HELM defines it, for numbers beside HELM's own; `statistics.calibration` has ours.

The definitions differ: HELM's bins end midway between confidences and are merged where those are equal, and Platt's
scaling is fitted to 0 and 1 without Platt's prior. HELM leaves the order of samples with one confidence to a sort that
is not stable; here they keep their order.
Source: HELM, metrics/basic_metrics.py; uncertainty-calibration 0.1.4, calibration/utils.py.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.calibration import Scores
from assaymark.statistics.intervals import as_floats

N_BINS = 10
SMALLEST = 1e-12  # confidences are kept this far from 0 and 1 before their logarithms are taken
PENALTY = 1e-10  # of the squared slope: 1 / C of the regression that HELM fits


@dataclass(frozen=True, slots=True)
class HelmCalibration:
    """HELM's calibration metrics, under its names. Field names are shown in JSON."""

    ece_10_bin: float
    ece_1_bin: float
    selective_cov_acc_area: float
    selective_acc_at_10: float  # HELM's `selective_acc@10`
    platt_coef: float | None  # None where all are right or all wrong
    platt_intercept: float | None
    platt_ece_10_bin: float  # 0 where all are right or all wrong, as HELM says
    platt_ece_1_bin: float


def helm_calibration(confidences: Scores, credits_: Scores) -> HelmCalibration:
    """Return HELM's metrics of samples' confidences and credits; partial credit counts as wrong, as in HELM.

    Raises: DataError for lengths that differ, no samples, or values outside of 0 to 1.
    """
    confidence, credit = as_floats(confidences, "confidences"), as_floats(credits_, "credits")
    if len(confidence) != len(credit) or not len(confidence):
        raise DataError(f"{len(confidence)} confidences and {len(credit)} credits; expected one of each per sample")
    if min(confidence.min(), credit.min()) < 0 or max(confidence.max(), credit.max()) > 1:
        raise DataError("confidences and credits lie outside of 0 to 1")
    right = (credit == 1.0).astype(np.float64)
    order = np.argsort(-confidence, kind="stable")
    accuracies = np.cumsum(right[order]) / np.arange(1, len(right) + 1)
    slope = intercept = None
    ece_10, ece_1 = 0.0, 0.0
    if 0 < right.sum() < len(right):
        slope, intercept = _platt(confidence, right)
        scaled = 1.0 / (1.0 + np.exp(-(slope * _logit(confidence) + intercept)))
        ece_10, ece_1 = _ece(scaled, right), abs(float(scaled.mean() - right.mean()))
    return HelmCalibration(
        ece_10_bin=_ece(confidence, right),
        ece_1_bin=abs(float(confidence.mean() - right.mean())),
        selective_cov_acc_area=float(accuracies.mean()),
        selective_acc_at_10=float(accuracies[int(0.1 * len(right))]),
        platt_coef=slope,
        platt_intercept=intercept,
        platt_ece_10_bin=ece_10,
        platt_ece_1_bin=ece_1,
    )


def _ece(confidence: Floats, right: Floats) -> float:
    """Return the error over bins of about equal numbers of samples: sum of n_b / n |mean confidence - accuracy|."""
    parts = np.array_split(np.sort(confidence), min(N_BINS, len(confidence)))
    edges = [(before[-1] + after[0]) / 2.0 for before, after in pairwise(parts)]
    bins = np.searchsorted(np.unique([*edges, 1.0]), confidence)  # the first edge that is not below
    n = np.bincount(bins)
    return float(np.abs(np.bincount(bins, confidence) - np.bincount(bins, right))[n > 0].sum() / len(confidence))


def _logit(confidence: Floats) -> Floats:
    kept = np.clip(confidence, SMALLEST, 1.0 - SMALLEST)
    return np.asarray(np.log(kept) - np.log(1.0 - kept))


def _platt(confidence: Floats, right: Floats) -> tuple[float, float]:
    """Return slope and intercept of the logistic regression of 0 and 1 on logit(confidence), by Newton's method.

    Where right and wrong separate, only the penalty keeps the slope finite, and the value is that of the last step.
    """
    design = np.column_stack([_logit(confidence), np.ones_like(confidence)])
    penalty = np.array([PENALTY, 0.0])
    weights = np.zeros(2)
    for _ in range(200):
        p = 0.5 * (1.0 + np.tanh(0.5 * (design @ weights)))
        gradient = design.T @ (right - p) - penalty * weights
        curvature = (design * (p * (1.0 - p))[:, None]).T @ design + np.diag(penalty + SMALLEST)
        step = np.linalg.solve(curvature, gradient)
        step *= min(1.0, 5.0 / max(float(np.abs(step).max()), SMALLEST))
        weights += step
        if float(np.abs(step).max()) < 1e-10:
            break
    return float(weights[0]), float(weights[1])
