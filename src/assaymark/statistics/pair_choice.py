"""Which two models should meet next: the expected reduction of the variances of Bradley-Terry strengths by one battle.

With V the covariance of the strengths (inverse curvature of the penalised likelihood), a battle of i and j with win
probability p adds the information w = p(1 - p) along x = e_i - e_j, and by Sherman and Morrison V becomes
V - w V x xᵀ V / (1 + w xᵀ V x). The sum of the variances falls by w |V x|² / (1 + w xᵀ V x).
"""

from dataclasses import dataclass

import numpy as np

from assaymark.statistics.arrays import Floats

__all__ = ["Strengths", "expected_reductions", "penalised_strengths"]

PRIOR_DEVIATION = 1.5
"""Standard deviation of strengths before any vote, in logits: 260 points."""

_STEPS = 50
_TOLERANCE = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Strengths:
    """Shapes: strengths [models], logits; covariance [models, models]."""

    strengths: Floats
    covariance: Floats


def penalised_strengths(wins: Floats) -> Strengths:
    """Return strengths under a normal prior of mean 0; defined for any counts, also none at all.

    Args:
        wins: wins of the row's model over the column's, a tie half for each. Shapes: [models, models].
    """
    n = len(wins)
    battles = wins + wins.T
    precision = 1.0 / PRIOR_DEVIATION**2
    strengths = np.zeros(n)
    curvature = np.eye(n) * precision
    for _ in range(_STEPS):
        expected = 1.0 / (1.0 + np.exp(strengths[None, :] - strengths[:, None]))
        gradient = (wins - battles * expected).sum(axis=1) - precision * strengths
        weight = battles * expected * (1.0 - expected)
        curvature = np.diag(weight.sum(axis=1) + precision) - weight
        step = np.linalg.solve(curvature, gradient)
        strengths = strengths + np.clip(step, -2.0, 2.0)
        if np.abs(step).max(initial=0.0) < _TOLERANCE:
            break
    covariance: Floats = np.linalg.inv(curvature).astype(np.float64)
    return Strengths(strengths, covariance)


def expected_reductions(fit: Strengths) -> Floats:
    """Return by how much one battle of each two models lowers the sum of variances; 0 on the diagonal.

    Shapes: [models, models], symmetric. Units: squared logits.
    """
    v = fit.covariance
    difference = fit.strengths[:, None] - fit.strengths[None, :]
    p = 1.0 / (1.0 + np.exp(-difference))
    w = p * (1.0 - p)
    own, squared = np.diag(v), v @ v
    along = own[:, None] + own[None, :] - 2.0 * v
    length = np.diag(squared)[:, None] + np.diag(squared)[None, :] - 2.0 * squared
    found: Floats = w * length / (1.0 + w * along)
    np.fill_diagonal(found, 0.0)
    return np.maximum(found, 0.0)
