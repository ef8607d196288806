"""Experiments on people: the mean outcome of two variants, where each user has several rows.

Users were assigned at random, rows were not: those of one user depend on each other, so all errors are those of
users. A variant's mean is a ratio of two sums over users, whose error is the delta method's; the difference has Welch's
degrees of freedom. Taking the rows as independent rejects in 27% of experiments without any difference, at 6.7 rows a
user.

Sources: Deng, Knoblich and Lu 2018, "Applying the delta method in metric analytics" (arXiv 1803.06336); Deng, Xu,
Kohavi and Walker 2013 (CUPED); Fabijan et al. 2019 (sample-ratio mismatch); Waudby-Smith, Arbour, Sinha, Kennedy and
Ramdas 2021, "Time-uniform central limit theory and asymptotic confidence sequences" (arXiv 2103.06476).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError, UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import chi_square_sf, t_cdf, t_quantile
from assaymark.statistics.estimate import without_rounding
from assaymark.statistics.intervals import Interval, check_confidence, t_interval

SAMPLE_RATIO_P = 0.001  # below it the assignment is broken, and no difference means anything


@dataclass(frozen=True, slots=True)
class ArmUsers:
    """The users of one variant. Shapes: all [users]."""

    sums: Floats  # of a user's outcomes
    counts: Floats  # of a user's rows, at least 1
    covariate: Floats | None = None  # known before the user met the variant

    def __post_init__(self) -> None:
        """Raises: DataError for arrays that do not fit together."""
        arrays = [self.sums, self.counts, *([] if self.covariate is None else [self.covariate])]
        if any(each.shape != self.sums.shape or each.ndim != 1 for each in arrays) or not len(self.sums):
            raise DataError(f"users have {[each.shape for each in arrays]}; expected one number of each for each user")
        if not all(np.isfinite(each).all() for each in arrays) or self.counts.min() < 1:
            raise DataError("users have numbers that are not finite, or no rows; leave them out and count them")


@dataclass(frozen=True, slots=True)
class ArmMean:
    """A variant's mean over rows. low, high: None for a single user, or users who are all alike; stderr: for one."""

    mean: float
    low: float | None
    high: float | None
    stderr: float | None
    n_users: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class ArmsDifference:
    """The second variant's mean minus the first's. low, high, p: None where no user differs from another."""

    difference: float
    low: float | None
    high: float | None
    stderr: float
    df: float
    p: float | None  # two-sided, of no difference, for one look
    theta: float | None  # by which the covariate was taken into account; None: without one
    variance_left: float  # share of the variance that the covariate left; 1 without one
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """Whether users came to the variants as planned."""

    observed: tuple[int, ...]
    expected: tuple[float, ...]
    chi_square: float
    p: float

    @property
    def is_broken(self) -> bool:
        """Whether the numbers of users cannot be chance, so that the variants have different users."""
        return self.p < SAMPLE_RATIO_P


def arm_mean(arm: ArmUsers, confidence: float = 0.95) -> ArmMean:
    """Return a variant's mean with its interval.

    v = (s²_y - 2 r s_yn + r² s²_n) / (k m²), with r = Σy/Σn and m the mean of n over k users; Student's distribution
    with k - 1 degrees of freedom.
    """
    check_confidence(confidence)
    mean, k = float(arm.sums.sum() / arm.counts.sum()), len(arm.sums)
    n_rows = round(float(arm.counts.sum()))
    if k < 2:
        return ArmMean(mean, None, None, None, k, n_rows)
    stderr = without_rounding(math.sqrt(float(_linearised(arm).var(ddof=1)) / k), np.array([mean]))
    if not stderr:
        return ArmMean(mean, None, None, 0.0, k, n_rows)
    interval = t_interval(mean, stderr, k - 1, confidence)
    return ArmMean(mean, interval.low, interval.high, stderr, k, n_rows)


def arms_difference(first: ArmUsers, second: ArmUsers, *, confidence: float = 0.95) -> ArmsDifference:
    """Return the difference of two variants, adjusted for the covariate where both have one (CUPED).

    z_i = (y_i - r n_i) / m is a user's part of the mean's error, and z - theta (x - mean x) replaces it, with theta =
    cov(z, x) / var(x) within variants and the mean of x over both. That is unbiased if x was known before.

    Raises: DataError for fewer than two users in a variant.
    """
    check_confidence(confidence)
    arms = (first, second)
    sizes = [len(arm.sums) for arm in arms]
    if min(sizes) < 2:
        raise DataError(f"the variants have {sizes[0]} and {sizes[1]} users; expected at least 2 in each")
    errors = [_linearised(arm) for arm in arms]
    means = np.array([arm.sums.sum() / arm.counts.sum() for arm in arms])
    difference = float(means[1] - means[0])
    plain = [float(error.var(ddof=1)) / k for error, k in zip(errors, sizes, strict=True)]
    theta = None
    if first.covariate is not None and second.covariate is not None:
        theta, errors, shift = _without_covariate(errors, first.covariate, second.covariate)
        difference -= shift
    parts = [float(error.var(ddof=1)) / k for error, k in zip(errors, sizes, strict=True)]
    stderr = without_rounding(math.sqrt(sum(parts)), means)
    if not stderr:
        return ArmsDifference(difference, None, None, 0.0, 1.0, None, theta, 1.0, confidence)
    df = sum(parts) ** 2 / sum(part**2 / (k - 1) for part, k in zip(parts, sizes, strict=True))
    half = t_quantile(0.5 + confidence / 2, df) * stderr
    p = 2 * t_cdf(-abs(difference) / stderr, df)
    left = sum(parts) / sum(plain)
    return ArmsDifference(difference, difference - half, difference + half, stderr, df, p, theta, left, confidence)


def _linearised(arm: ArmUsers) -> Floats:
    ratio = arm.sums.sum() / arm.counts.sum()
    return np.asarray((arm.sums - ratio * arm.counts) / arm.counts.mean())


def _without_covariate(errors: Sequence[Floats], *covariates: Floats) -> tuple[float, list[Floats], float]:
    """Return theta, the errors without what the covariate explains, and the part of the difference that it explains."""
    centred = [x - x.mean() for x in covariates]
    spread = sum(float((x**2).sum()) for x in centred)
    if spread == 0:
        return 0.0, list(errors), 0.0
    theta = sum(float((error * x).sum()) for error, x in zip(errors, centred, strict=True)) / spread
    left = [error - theta * x for error, x in zip(errors, centred, strict=True)]
    return theta, left, theta * float(covariates[1].mean() - covariates[0].mean())


def sample_ratio(observed: Sequence[int], shares: Sequence[float] | None = None) -> SampleRatio:
    """Return the chi-square test of the numbers of users against the planned shares (None: equal ones).

    Raises: UsageError for shares that are not positive or not as many as variants.
    """
    planned = [1.0] * len(observed) if shares is None else list(shares)
    if len(planned) != len(observed) or not all(0 < share < math.inf for share in planned):
        raise UsageError(
            f"the expected ratio has {len(planned)} parts and there are {len(observed)} variants; expected one "
            "positive part for each"
        )
    total = sum(observed)
    expected = [total * share / sum(planned) for share in planned]
    chi_square = sum((seen - due) ** 2 / due for seen, due in zip(observed, expected, strict=True)) if total else 0.0
    return SampleRatio(tuple(observed), tuple(expected), chi_square, chi_square_sf(chi_square, len(observed) - 1))


def anytime_factor(n: int, planned: int, confidence: float = 0.95) -> float:
    """Return by how many standard errors an interval has to reach so that it holds however often one looks.

    √(2 (N q + 1) / (N q) log(√(N q + 1) / α)), q = (-2 log α + log(-2 log α) + 1) / N*, which makes it narrowest at N*
    users. It holds asymptotically: from about a hundred users on.

    Args:
        n: users so far.
        planned: N*, chosen before the first look: a N* that is chosen by the results voids it.
        confidence: over all looks together.

    Raises: UsageError.
    """
    check_confidence(confidence)
    if n < 1 or planned < 1:
        raise UsageError(f"{n} users so far, {planned} planned; expected at least one of each")
    alpha = 1 - confidence
    rate = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / planned
    scaled = n * rate
    return math.sqrt(2 * (scaled + 1) / scaled * math.log(math.sqrt(scaled + 1) / alpha))


def anytime_interval(estimate: ArmsDifference, n: int, planned: int) -> Interval:
    """Return the interval of a difference that holds at any time; see `anytime_factor`."""
    half = anytime_factor(n, planned, estimate.confidence) * estimate.stderr
    return Interval(estimate.difference - half, estimate.difference + half)
