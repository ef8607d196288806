"""AlpacaEval's win rate against a baseline, and the one at equal length of the answers."""

from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.bradley_terry import sigmoid

__all__ = ["LengthWeights", "item_difficulties", "length_controlled_win_rate", "length_gaps", "win_rate"]

_STEPS = 50
_RIDGE = 1e-2  # keeps the difficulty of an item finite that all models win or lose


@dataclass(frozen=True, slots=True)
class LengthWeights:
    """One model's weights in logit q = θ + φ tanh(gap) + ψ γ, with γ the item's difficulty."""

    quality: float  # θ
    length: float  # φ
    difficulty: float  # ψ


def win_rate(preferences: Floats) -> float:
    """Return the mean preference minus 1, for preferences from 1 (the baseline's answer) to 2 (the model's).

    Shapes: preferences [items]. Raises: DataError for none, or other values.
    Source: AlpacaEval 2 (Dubois et al. 2024).
    """
    if len(preferences) == 0 or not ((preferences >= 1.0) & (preferences <= 2.0)).all():
        raise DataError("preferences are missing or outside of 1 to 2; expected 1 for the baseline, 2 for the model")
    return float(preferences.mean() - 1.0)


def length_gaps(baseline: Floats, model: Floats) -> Floats:
    """Return tanh of (the baseline's length minus the model's) in standard deviations. Shapes: [items] each."""
    gaps = baseline - model
    return np.asarray(np.tanh(gaps / gaps.std()))


def item_difficulties(preferences: Floats, offsets: Floats, slopes: Floats) -> Floats:
    """Return the γ of each item that maximises Σ_m log-likelihood of logit q = offset + ψ_m γ, by Newton's method.

    Shapes: preferences [models, items], 0 to 1, NaN where missing; offsets [models, items], θ + φ tanh(gap); slopes
    [models], ψ; result [items].
    """
    known = ~np.isnan(preferences)
    outcome, slope = np.where(known, preferences, 0.0), slopes[:, None]
    found = np.zeros(preferences.shape[1])
    for _ in range(_STEPS):
        p = sigmoid(offsets + slope * found)
        gradient = (known * slope * (outcome - p)).sum(axis=0) - _RIDGE * found
        step = gradient / ((known * slope**2 * p * (1.0 - p)).sum(axis=0) + _RIDGE)
        found = found + np.clip(step, -2.0, 2.0)
        if float(np.abs(step).max()) < 1e-9:
            break
    return found


def length_controlled_win_rate(weights: LengthWeights, difficulties: Floats) -> float:
    """Return the mean of σ(θ + ψ γ) over items: the win rate if answers were as long as the baseline's.

    Source: Dubois et al. 2024 (arXiv 2404.04475).
    """
    return float(sigmoid(weights.quality + weights.difficulty * difficulties).mean())
