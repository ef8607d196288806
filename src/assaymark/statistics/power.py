"""Power analysis: the number of samples for a difference, and the minimum detectable effect of a number of samples.

The minimum detectable effect (MDE) is the true difference that a two-sided test at level 1 - confidence detects with
the given power. Differences are shares, not percent. "Discordance" is the share of samples on which two models differ.

Minimum detectable effect of a weighted mean of several tasks, for planning a run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.errors import DataError
from assaymark.statistics.distributions import binomial_pmf, binomial_sf, bisect, normal_quantile, two_sided_z
from assaymark.statistics.paired import mcnemar_exact

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
        power: probability of detecting the difference.

    Raises: DataError without tasks or samples.
    Source: Miller 2024 (arXiv 2411.00640), equations 9 and 10, summed over strata (Cochran 1977, section 5.3).
    """
    if not tasks or any(task.n < 1 for task in tasks):
        raise DataError(f"tasks have {[task.n for task in tasks]} samples; expected at least one of each, one task")
    variance = 2.0 * WORST_SHARE * (1.0 - WORST_SHARE) if disagreement is None else disagreement
    total = sum(task.weight**2 * variance / task.n for task in tasks)
    return detectable_z(confidence, power) * math.sqrt(total)


def detectable_z(confidence: float = 0.95, power: float = 0.8) -> float:
    """Return z(1 - α/2) + z(power) with α = 1 - confidence: 2.80 for 95% and 80%."""
    if not (0 < confidence < 1 and 0 < power < 1):
        raise DataError(f"confidence is {confidence} and power {power}; expected numbers between 0 and 1")
    return two_sided_z(confidence) + normal_quantile(power)


def samples_for_bound(
    distance: float, variance: float, variance_at_bound: float, *, confidence: float = 0.95, power: float = 0.8
) -> int | None:
    """Return the number of samples with which a one-sided bound lies on the value's own side of a limit.

    n = (z_c √v_0 + z_power √v)² / distance². For a share p against a limit b: v = p (1 - p), v_0 = b (1 - b).

    Args:
        distance: of the true value from the limit; None is returned for 0, since no number of samples decides then.
        variance: of a sample's score at that value.
        variance_at_bound: of a sample's score if the value were the limit.
        confidence: of the one-sided bound.
        power: probability that it lies on that side.

    Source: Fleiss, Levin and Paik 2003, Statistical Methods for Rates and Proportions, 2.5.
    """
    if distance == 0:
        return None
    _check(1, variance)
    _check(1, variance_at_bound)
    if not (0.5 <= confidence < 1 and 0.5 <= power < 1):
        raise DataError(f"confidence is {confidence} and power {power}; expected numbers from 0.5 to below 1")
    top = normal_quantile(confidence) * math.sqrt(variance_at_bound) + normal_quantile(power) * math.sqrt(variance)
    return math.ceil(top**2 / distance**2 - 1e-9)


def mde_paired_binary(n: int, discordance: float, *, confidence: float = 0.95, power: float = 0.8) -> float:
    """Return the minimum detectable difference in accuracy on n shared questions at this discordance, at most 1.0.

    z √(variance / n), where the variance is discordance - δ²; the upper bound, the discordance, is used, so the result
    is slightly conservative. A result above the discordance means that no possible difference can be detected.
    Source: Miller 2024 (arXiv 2411.00640), equation 10.
    """
    _check(n, 0.0)
    _check_share(discordance)
    return min(detectable_z(confidence, power) * math.sqrt(discordance / n), 1.0)


def samples_paired_binary(
    difference: float, discordance: float, *, confidence: float = 0.95, power: float = 0.8
) -> int:
    """Return the number of shared questions that McNemar's test needs.

    (z_α √π + z_β √(π - δ²))² / δ². Source: Connor 1987, equation 3.
    """
    _check_share(discordance)
    if not 0 < abs(difference) <= discordance:
        raise DataError(f"difference {difference} with discordance {discordance}; expected 0 < |difference| <= it")
    level_z, power_z = two_sided_z(confidence), normal_quantile(power)
    top = level_z * math.sqrt(discordance) + power_z * math.sqrt(discordance - difference**2)
    return math.ceil(top**2 / difference**2 - 1e-9)


EXACT_UP_TO = 200  # expected differing answers; beyond, the approximation is within 1% of the exact power's effect


def mde_mcnemar(n: int, discordance: float, *, confidence: float = 0.95, power: float = 0.8) -> float | None:
    """Return the minimum detectable difference in accuracy of McNemar's exact test on n shared questions.

    The models differ on the share max(discordance, δ) of the questions: an effect δ above the discordance is all of it,
    so that a run with few differing answers is not said to detect what the test cannot call significant. None where no
    difference has this power, as with fewer than 6 questions at 95%.

    Source: the test's power, summed over the numbers of differing answers; with more than `EXACT_UP_TO` of them Connor
    1987, equation 3, with the correction 1/n for continuity.
    """
    _check(n, 0.0)
    _check_share(discordance)
    if n * discordance > EXACT_UP_TO:
        enough = bisect(
            lambda d: n - samples_paired_binary(d, discordance, confidence=confidence, power=power), 1e-9, discordance
        )
        return min(enough + 1.0 / n, 1.0)
    needed = _fewest_wins(min(n, 2 * EXACT_UP_TO), 1.0 - confidence)

    def found(difference: float) -> float:
        share = max(discordance, difference)
        spread = 6.0 * math.sqrt(n * share * (1.0 - share)) + 6.0
        likely = range(max(0, math.floor(n * share - spread)), min(n, math.ceil(n * share + spread)) + 1)
        return sum(
            binomial_pmf(d, n, share) * binomial_sf(needed[d], d, 0.5 + 0.5 * difference / share) for d in likely
        )

    largest = min(1.0, max(discordance, 40.0 / n))
    if found(largest) < power:
        return None
    return bisect(lambda difference: found(difference) - power, 1e-9, largest, steps=30)


def _fewest_wins(most: int, level: float) -> list[int]:
    """Return for 0 to `most` differing answers how many must be one model's for p below the level; d + 1: none do."""
    needed = [1]
    for d in range(1, most + 1):
        least = needed[-1]
        needed.append(least if least <= d and mcnemar_exact(least, d - least) < level else least + 1)
    return needed


def _check(n: int, variance: float) -> None:
    if n < 1 or not variance >= 0:
        raise DataError(f"n is {n} and variance {variance}; expected n >= 1 and variance >= 0")


def _check_share(share: float) -> None:
    if not 0.0 <= share <= 1.0:
        raise DataError(f"share is {share}; expected a number between 0 and 1, not percent")
