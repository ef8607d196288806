"""Minimum detectable effect of a weighted mean of several tasks, for planning a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.errors import DataError
from assaymark.statistics.power import detectable_z

__all__ = ["WORST_SHARE", "WeightedTask", "mde_of_weighted"]

WORST_SHARE = 0.5  # accuracy at which the variance is largest


@dataclass(frozen=True, slots=True)
class WeightedTask:
    """One task of a weighted mean: its weight and its number of samples."""

    weight: float
    n: int


def mde_of_weighted(
    tasks: Sequence[WeightedTask], disagreement: float | None, *, confidence: float = 0.95, power: float = 0.8
) -> float:
    """Return the minimum detectable difference in Σ w_t accuracy_t with these samples.

    Var = Σ w_t² v / n_t, with v the share of samples on which the models disagree (an upper bound, hence
    conservative), or 2 p (1 - p) at p = 1/2 if the models answer different samples.

    Args:
        tasks: with their weights.
        disagreement: share of samples on which the models differ; None: different samples, unpaired.
        confidence: of the two-sided test.
        power: probability of detecting the difference.

    Raises: DataError without tasks or samples.
    Source: Miller 2024 (arXiv 2411.00640), equations 9 and 10, summed over strata (Cochran 1977, section 5.3).
    """
    if not tasks or any(task.n < 1 for task in tasks):
        raise DataError(f"tasks have {[task.n for task in tasks]} samples; expected at least one of each, one task")
    variance = 2.0 * WORST_SHARE * (1.0 - WORST_SHARE) if disagreement is None else disagreement
    total = sum(task.weight**2 * variance / task.n for task in tasks)
    return detectable_z(confidence, power) * math.sqrt(total)
