"""Correction of a judge model's verdicts by a smaller number of human verdicts.

Prediction-powered inference takes the judge's mean over all answers and adds its mean error on the answers that humans
judged too; it is valid whatever the judge's quality. Rogan and Gladen's estimator inverts the judge's sensitivity and
specificity; it is more precise if these are well known, and undefined if the judge is no better than chance.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.distributions import two_sided_z
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.intervals import as_floats

Scores = Sequence[float] | NDArray[np.number | np.bool_]


def rogan_gladen(
    judged_right: int, judged: int, on_wrong: tuple[int, int], on_right: tuple[int, int], *, confidence: float = 0.95
) -> IntervalEstimate:
    """Estimate the true share of correct answers from a judge's verdicts.

    θ = (p + q0 - 1) / (q0 + q1 - 1), clipped to [0, 1], with p the share judged right, q1 the judge's sensitivity and
    q0 its specificity; Var ≈ [p(1-p)/m + (1-θ)² q0(1-q0)/n0 + θ² q1(1-q1)/n1] / (q0 + q1 - 1)².

    Args:
        judged_right: number of answers that the judge calls right, of `judged` answers without human verdict.
        judged: number of answers without human verdict.
        on_wrong: (called wrong by the judge, all) of answers that humans call wrong: specificity.
        on_right: (called right by the judge, all) of answers that humans call right: sensitivity.

    Raises: DataError for a judge no better than chance. Source: Rogan and Gladen 1978; variance Lee 2025 (2511.21140).
    """
    q0, q1, p = on_wrong[0] / on_wrong[1], on_right[0] / on_right[1], judged_right / judged
    gain = q0 + q1 - 1.0
    if gain <= 0.0:
        raise DataError(
            f"specificity {q0:.3f} and sensitivity {q1:.3f} sum to at most 1: the judge is no better than chance"
        )
    theta = min(max((p + q0 - 1.0) / gain, 0.0), 1.0)
    # shares of 0 or 1 among few labels are still uncertain: one of each kind is added for the variance
    s0, s1, s = (_smoothed(*counts) for counts in (on_wrong, on_right, (judged_right, judged)))
    variance = s + (1.0 - theta) ** 2 * s0 + theta**2 * s1
    stderr = math.sqrt(variance) / gain
    half = two_sided_z(confidence) * stderr
    n = judged + on_wrong[1] + on_right[1]
    return IntervalEstimate(
        theta, max(theta - half, 0.0), min(theta + half, 1.0), stderr, "Rogan-Gladen", n, confidence
    )


def ppi_mean(
    judged_only: Scores, judged_labelled: Scores, labels: Scores, *, tune: bool = True, confidence: float = 0.95
) -> IntervalEstimate:
    """Return the prediction-powered mean: λ mean_N(f) + mean_n(y - λ f).

    Args:
        judged_only: the judge's scores of the answers without a human label.
        judged_labelled: the judge's scores of the answers with a human label.
        labels: human scores, in the order of `judged_labelled`.
        tune: choose λ for the least variance (PPI++); else λ = 1.

    λ = cov(y, f) / ((1 + n/N) var f), clipped to [0, 1].
    Source: Angelopoulos et al. 2023 (Science 382); PPI++ (arXiv 2311.01453), example 6.1.
    """
    unlabelled, seen, truth = (as_floats(v) for v in (judged_only, judged_labelled, labels))
    if len(seen) != len(truth) or len(truth) < 2:
        raise DataError(f"{len(seen)} judged and {len(truth)} labelled answers; expected equal numbers, at least 2")
    n, total = len(truth), len(unlabelled)
    weight = 1.0
    if tune:
        spread = float(np.concatenate([unlabelled, seen]).var(ddof=1))
        shared = float(np.cov(truth, seen)[0, 1])
        weight = min(max(shared / ((1.0 + n / total) * spread), 0.0), 1.0) if spread > 0 else 0.0
    value = weight * float(unlabelled.mean()) + float((truth - weight * seen).mean())
    variance = float((truth - weight * seen).var(ddof=1)) / n
    variance += weight**2 * (float(unlabelled.var(ddof=1)) / total if total > 1 else 0.0)
    stderr = math.sqrt(variance)
    half = two_sided_z(confidence) * stderr
    method = f"prediction-powered, λ = {weight:.2f}"
    return IntervalEstimate(value, value - half, value + half, stderr, method, n + total, confidence)


def _smoothed(successes: int, n: int) -> float:
    """Return the variance of a share, with one success and one failure added."""
    p = (successes + 1.0) / (n + 2.0)
    return p * (1.0 - p) / (n + 2.0)
