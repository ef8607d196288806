"""Confidence intervals for one number: proportions, means, and any statistic that can be resampled.

When to use which: `wilson` for a proportion of correct answers with any n; `clopper_pearson` if the coverage must never
be below the confidence; `t_interval` for graded scores; `bca` for skewed scores and statistics other than means. The
intervals of proportions have positive width at 0% and 100%.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import beta_quantile, normal_cdf, normal_quantile, t_quantile, two_sided_z

_DRAWS_AT_ONCE = 4_000_000  # bounds memory: 32 MB of indices


@dataclass(frozen=True, slots=True)
class Interval:
    """The two ends of a confidence interval."""

    low: float
    high: float


def as_floats(values: Sequence[float] | NDArray[np.generic], what: str = "scores") -> Floats:
    """Return a one-dimensional float64 array. Raises: DataError if it is empty or has values that are not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise DataError(f"{what} have shape {array.shape}; expected one number per sample, at least one")
    if not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise DataError(f"{what} contain {count} values that are not finite; exclude such samples and count them")
    return array


def check_confidence(confidence: float) -> None:
    """Raise DataError unless the confidence is strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise DataError(f"confidence is {confidence}; expected a number between 0 and 1, such as 0.95")


def wilson(successes: float, n: float, confidence: float = 0.95, *, z: float | None = None) -> Interval:
    """Return Wilson's score interval of a proportion; n may be an effective, fractional number.

    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).
    Source: Wilson 1927; recommended in Brown, Cai and DasGupta 2001.
    """
    check_confidence(confidence)
    if n <= 0 or not -1e-9 <= successes <= n + 1e-9:
        raise DataError(f"{successes} successes in {n} trials; expected 0 <= successes <= n and n > 0")
    z = two_sided_z(confidence) if z is None else z
    p = min(max(successes / n, 0.0), 1.0)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Interval(0.0 if p == 0 else max(centre - half, 0.0), 1.0 if p == 1 else min(centre + half, 1.0))


def wilson_size(p: float, width: float, confidence: float = 0.95) -> float:
    """Return the number of trials, an effective one, at which Wilson's interval of a proportion p has a width.

    With h half the width, x = 1/n solves z⁴(1/4 - h²)x² + z²(p(1-p) - 2h²)x - h² = 0; infinite for a width of 0.
    """
    z2, h = two_sided_z(confidence) ** 2, min(width / 2.0, 0.499)
    linear = 2.0 * h * h - p * (1.0 - p)
    x = (linear + math.sqrt(linear**2 + 4.0 * h * h * (0.25 - h * h))) / (2.0 * z2 * (0.25 - h * h))
    return 1.0 / x if x > 0 else math.inf


def score_interval(values: Floats, sizes: Floats, weights: Floats, confidence: float = 0.95) -> Interval:
    """Return the score interval of Σ w_t p_t for independent proportions; with one of weight 1 it is Wilson's.

    An end is the mean M = Σ w_t p_t that is z errors from the observed one, where the p_t are the most likely ones with
    that mean and the error is theirs: (Σ w_t v_t - M)² = z² Σ w_t² e_t. So a part that is all right or all wrong has
    the error that it may have. By Lagrange, p_t solves λw_t p² - (n_t + λw_t) p + n_t v_t = 0.

    Most likely shares lie too near their own few answers for e_t = p_t (1-p_t) / n_t: of 57 parts of two answers that
    interval covers 80%, not 95%. So one degree of freedom is taken off, but for the share h_t of the error that the
    common mean fixes: e_t = p_t (1-p_t) / (n_t - 1 + h_t), and (1 - h_t) of what the observed v_t (1-v_t) / (n_t - 1),
    carried over to M, is above that. A part of one answer says nothing about its own error: M (1-M) / n_t then.

    Args:
        values: the observed proportions v_t.
        sizes: the n_t; effective, fractional numbers, at most 1e12.
        weights: the w_t, not negative.

    Source: Miettinen and Nurminen 1985 (two proportions), Martin Andres, Alvarez Hernandez and Herranz Tejedor 2011;
        one degree of freedom and collapsed strata: Cochran 1977, 5.4 and 5A.12.
    """
    if len(values) == 1:  # most columns of a board, in closed form
        value, size, weight = float(values[0]), float(sizes[0]), float(weights[0])
        own = wilson(value * size, size, confidence)
        return Interval(weight * own.low, weight * own.high)
    z, observed = two_sided_z(confidence), float(weights @ values)
    is_single = (sizes < 2.0 - 1e-6) & (len(sizes) > 1)  # two that were computed from a width are rounded
    observed_errors = values * (1.0 - values) / np.maximum(sizes - 1.0, 1.0)

    def likeliest(multiplier: float) -> Floats:
        a = multiplier * weights
        b = sizes + a
        root = np.sqrt(np.maximum(b * b - 4.0 * a * sizes * values, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):  # the branch that is not chosen
            p = np.where(b > 0, 2.0 * sizes * values / (b + root), (b - root) / (2.0 * a))
        return np.asarray(np.clip(p, 0.0, 1.0), dtype=np.float64)

    def error(p: Floats) -> float:
        mean, parts = float(weights @ p), weights**2 * p * (1.0 - p) / sizes
        fixed = parts / max(float(parts.sum()), 1e-300)
        errors = p * (1.0 - p) / np.maximum(sizes - 1.0 + fixed, sizes / 2.0)
        carried = observed_errors * mean * (1.0 - mean) / max(observed * (1.0 - observed), 1e-300)
        errors += (1.0 - fixed) * np.maximum(carried - errors, 0.0)
        errors = np.where(is_single, np.maximum(errors, mean * (1.0 - mean) / sizes), errors)
        return math.sqrt(float(weights**2 @ errors))

    def is_within(multiplier: float) -> bool:
        p = likeliest(multiplier)
        return abs(observed - float(weights @ p)) <= z * error(p) + 1e-12

    def end(sign: float) -> float:
        near, far = 0.0, 1.0
        while is_within(sign * far) and far < 1e15:
            near, far = far, 2.0 * far
        for _ in range(60):
            middle = (near + far) / 2.0
            near, far = (middle, far) if is_within(sign * middle) else (near, middle)
        return float(weights @ likeliest(sign * far))

    return Interval(min(max(end(1.0), 0.0), observed), max(min(end(-1.0), 1.0), observed))


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the exact interval of a proportion: its coverage is never below the confidence.

    Source: Clopper and Pearson 1934; ends are quantiles of Beta(x, n - x + 1) and Beta(x + 1, n - x).
    """
    check_confidence(confidence)
    if n <= 0 or not 0 <= successes <= n:
        raise DataError(f"{successes} successes in {n} trials; expected 0 <= successes <= n and n > 0")
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else beta_quantile(tail, successes, n - successes + 1)
    high = 1.0 if successes == n else beta_quantile(1.0 - tail, successes + 1, n - successes)
    return Interval(low, high)


def t_interval(mean: float, stderr: float, df: float, confidence: float = 0.95) -> Interval:
    """Return mean ± t(df) stderr. Source: Student 1908."""
    check_confidence(confidence)
    half = t_quantile(0.5 + confidence / 2.0, df) * stderr
    return Interval(mean - half, mean + half)


def unseen_share(n: int, confidence: float = 0.95) -> float:
    """Return the upper bound on the share of samples that differ, after n equal ones were seen: 1 - (alpha/2)^(1/n).

    This is Clopper and Pearson's upper end at 0 of n; about 3.7/n for 95%.
    """
    check_confidence(confidence)
    return float(-math.expm1(math.log((1.0 - confidence) / 2.0) / n))


def bootstrap(
    values: Floats, statistic: Callable[[Floats], Floats], *, draws: int = 10_000, name: Sequence[object] = ()
) -> Floats:
    """Return the statistic of `draws` resamples of the rows of `values`.

    Shapes: values [n] or [n, columns]; `statistic` maps [draws, n(, columns)] to [draws].
    """
    n = len(values)
    generator = generator_for("bootstrap", *name)
    rows = max(1, min(draws, _DRAWS_AT_ONCE // values.size))
    parts = []
    for start in range(0, draws, rows):
        index = generator.integers(0, n, size=(min(rows, draws - start), n))
        parts.append(np.asarray(statistic(values[index]), dtype=np.float64))
    return np.concatenate(parts)


def mean_of_rows(samples: Floats) -> Floats:
    """Return the mean along the second axis: the default statistic of a bootstrap."""
    return np.asarray(samples.mean(axis=1))


def bca(
    values: Sequence[float] | Floats,
    statistic: Callable[[Floats], Floats] = mean_of_rows,
    confidence: float = 0.95,
    *,
    draws: int = 10_000,
    name: Sequence[object] = (),
) -> Interval:
    """Return the bias-corrected and accelerated bootstrap interval.

    Shapes: values [n] or [n, columns]; `statistic` maps [m, n(, columns)] to [m]. `name` seeds the random draws.
    Source: Efron 1987, equations 2.3 and 6.6; Efron and Tibshirani 1993, section 14.3. Ties with the observed value
    count half, so that a discrete statistic does not appear biased.
    """
    check_confidence(confidence)
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    if n < 2:
        raise DataError(f"a bootstrap of {n} sample(s); expected at least 2")
    observed = float(statistic(array[None])[0])
    replicates = bootstrap(array, statistic, draws=draws, name=name)
    if replicates.min() == replicates.max():
        return Interval(observed, observed)
    return bca_ends(observed, replicates, jackknife(array, statistic), confidence)


def bca_ends(observed: float, replicates: Floats, jackknifed: Floats, confidence: float) -> Interval:
    """Return BCa's ends from the resampled and the leave-one-out values of a statistic."""
    draws = len(replicates)
    deviations = jackknifed.mean() - jackknifed
    cubes, squares = float((deviations**3).sum()), float((deviations**2).sum())
    acceleration = cubes / (6.0 * squares**1.5) if squares > 0 else 0.0
    tolerance = 1e-12 * max(1.0, abs(observed))
    below = float((replicates < observed - tolerance).mean() + (np.abs(replicates - observed) <= tolerance).mean() / 2)
    bias = normal_quantile(min(max(below, 0.5 / draws), 1.0 - 0.5 / draws))
    ends = []
    for tail in ((1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0):
        z = bias + normal_quantile(tail)
        ends.append(normal_cdf(bias + z / (1.0 - acceleration * z)))
    low, high = np.quantile(replicates, ends)
    return Interval(float(low), float(high))


def jackknife(values: Floats, statistic: Callable[[Floats], Floats]) -> Floats:
    """Return the statistic with each sample omitted in turn. Shapes: result [n]."""
    n = len(values)
    if statistic is mean_of_rows and values.ndim == 1:
        return np.asarray((values.sum() - values) / (n - 1))
    index = np.arange(n)
    return np.array([float(statistic(values[index != i][None])[0]) for i in range(n)])
