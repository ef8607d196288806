"""Models whose rating differs between parts of the votes, such as months: their rating of all votes is an average."""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.statistics.distributions import chi_square_sf, two_sided_z
from assaymark.statistics.multiplicity import holm

PartRatings = tuple[str, Sequence[tuple[str, float, float | None, float | None]]]  # part; model, rating, low, high


@dataclass(frozen=True, slots=True)
class RatingChange:
    """One model's ratings in several parts. points: the rating in the last one minus that in the first."""

    model: str
    first: str  # part
    last: str
    points: float
    p: float  # that all parts have the same rating
    significance: float  # p after Holm's correction over all models


def changes_between(parts: Sequence[PartRatings], confidence: float) -> tuple[RatingChange, ...]:
    """Test for each model whether its ratings in all parts are equal: Σ (r - mean)² / error² is χ² on parts - 1.

    The mean is weighted by 1 / error². Errors are taken from the intervals as normal ones, so they are a little too
    large where few clusters widen an interval; votes of different parts count as independent. Ratings are relative to
    the mean of the models: one that changes by D shifts each of the n - 1 others by D / n the other way.

    Source: Cochran 1937 (homogeneity of several measurements); Holm 1979.
    """
    z = two_sided_z(confidence)
    known: dict[str, list[tuple[str, float, float]]] = {}
    for part, ratings in parts:
        for model, rating, low, high in ratings:
            if low is not None and high is not None and high > low:
                known.setdefault(model, []).append((part, rating, (high - low) / (2.0 * z)))
    tested = [(model, estimates, _p_of_equal(estimates)) for model, estimates in known.items() if len(estimates) > 1]
    adjusted = holm([p for *_, p in tested]) if tested else ()
    changes = [
        RatingChange(model, estimates[0][0], estimates[-1][0], estimates[-1][1] - estimates[0][1], p, float(after))
        for (model, estimates, p), after in zip(tested, adjusted, strict=True)
    ]
    return tuple(sorted(changes, key=lambda change: change.p))


def _p_of_equal(estimates: Sequence[tuple[str, float, float]]) -> float:
    weights = [1.0 / error**2 for *_, error in estimates]
    mean = sum(weight * rating for weight, (_, rating, _) in zip(weights, estimates, strict=True)) / sum(weights)
    spread = sum(weight * (rating - mean) ** 2 for weight, (_, rating, _) in zip(weights, estimates, strict=True))
    return chi_square_sf(spread, len(estimates) - 1)
