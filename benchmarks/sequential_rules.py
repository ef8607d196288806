"""Rules that others use to stop a comparison, over many orders at once: what ours are measured beside.

Values are differences in [-1, 1] of N questions in random orders, [orders, N]; every rule tests a mean of 0. The rules
of the package itself are in `assaymark.statistics.sequential`.

Source: Waudby-Smith and Ramdas 2020 (arXiv 2006.04347) and 2024 (2010.09686) for predictable mixtures, empirical
Bernstein and Kelly bets; Johari, Pekelis and Walsh 2015 (1512.04922) for the mixture test; O'Brien and Fleming 1979.
"""

import math
from collections.abc import Callable

import numpy as np

from assaymark.statistics.arrays import Floats

__all__ = ["RULES", "empirical_bernstein", "fixed_size", "hedged_capital", "peeking"]

OBF_CONSTANT, OBF_LOOKS, OBF_INFLATION = 2.040, 5, 1.028  # two-sided 5%, 80% power


def _before(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return t (from 1) and, for each value, the sums of those before it and of their squares."""
    zeros = np.zeros((len(values), 1))
    sums = np.concatenate([zeros, np.cumsum(values, axis=1)[:, :-1]], axis=1)
    squares = np.concatenate([zeros, np.cumsum(values**2, axis=1)[:, :-1]], axis=1)
    return np.arange(1.0, values.shape[1] + 1), sums, squares


def _mixture_bets(x: Floats, alpha: float) -> Floats:
    """Return lambda_t of predictable mixtures for values in [0, 1] (one value more: mean 1/2, variance 1/4)."""
    t = np.arange(1, x.shape[1] + 1)
    means = (0.5 + np.cumsum(x, axis=1)) / (t + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2, axis=1)) / (t + 1)
    before = np.concatenate([np.full((len(x), 1), 0.25), variances[:, :-1]], axis=1)
    bets: Floats = np.sqrt(2 * math.log(1 / alpha) / (t * np.log(1 + t) * before))
    return bets


def hedged_capital(x: Floats, n: int, mean: float, alpha: float = 0.05) -> Floats:
    """Return (K+ + K-) / 2 of values in [0, 1] under a mean, predictable mixtures capped at half. Shape: as x."""
    t, sums, _ = _before(x)
    expected = (n * mean - sums) / (n - t + 1)
    bets = _mixture_bets(x, alpha / 2)
    capital = np.zeros_like(x)
    for sign, room in ((1, expected), (-1, 1 - expected)):
        capped = np.minimum(bets, 0.5 / np.maximum(room, 1e-12))
        capital += 0.5 * np.exp(np.cumsum(np.log1p(np.maximum(sign * capped * (x - expected), -0.5)), axis=1))
    capital[(expected < -1e-12) | (expected > 1 + 1e-12)] = np.inf
    return capital


def empirical_bernstein(x: Floats, n: int, alpha: float = 0.05) -> tuple[Floats, Floats]:
    """Return the ends of the predictable mixture's interval after each value in [0, 1], intersected. Shapes: as x."""

    def lower(values: Floats) -> Floats:
        t, sums, _ = _before(values)
        before = np.where(t > 1, sums / np.maximum(t - 1, 1), 0.0)
        bets = np.minimum(_mixture_bets(values, alpha / 2), 0.5)
        psi = -np.log1p(-bets) - bets
        left = n - t + 1
        weights = np.cumsum(bets * n / left, axis=1)
        centre = np.cumsum(bets * (values + sums / left), axis=1) / weights
        width = (math.log(2 / alpha) + np.cumsum((values - before) ** 2 * psi, axis=1)) / weights
        ends: Floats = np.maximum.accumulate(np.maximum(centre - width, 0), axis=1)
        return ends

    return lower(x), 1 - lower(1 - x)


def _first(refuted: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    """Return how many values each order needed, the number of values where it never was."""
    when: Floats = np.where(refuted.any(axis=1), refuted.argmax(axis=1) + 1, refuted.shape[1])
    return when


def _hedged(values: Floats, n: int, alpha: float, _: float) -> Floats:
    return _first(hedged_capital((values + 1) / 2, n, 0.5, alpha) >= 1 / alpha)


def _empirical_bernstein(values: Floats, n: int, alpha: float, _: float) -> Floats:
    low, high = empirical_bernstein((values + 1) / 2, n, alpha)
    return _first((low > 0.5) | (high < 0.5))


def _kelly(values: Floats, n: int, alpha: float, _: float) -> Floats:
    """One capital, whose bets may have either sign: gain over variance, of what remains."""
    t, sums, squares = _before(values)
    left = n - t + 1
    mean = sums / t
    variance = (1 + squares) / t - mean**2
    expected = -sums / left
    gain = (n * mean - sums) / left - expected
    bets = gain / (variance + gain**2)
    bets = np.clip(bets, -0.9 / np.maximum(1 - expected, 1e-12), 0.9 / np.maximum(1 + expected, 1e-12))
    logs = np.cumsum(np.log1p(np.maximum(bets * (values - expected), -0.9)), axis=1)
    return _first((logs >= math.log(1 / alpha)) | (np.abs(expected) > 1 + 1e-12))


def _mixture_test(values: Floats, n: int, alpha: float, delta: float) -> Floats:
    """Values taken as independent draws, with the variance estimated: the mixture's variance is delta squared."""
    t = np.arange(1, n + 1)
    sums, squares = np.cumsum(values, axis=1), np.cumsum(values**2, axis=1)
    variance = np.maximum(squares / t - (sums / t) ** 2, 1e-9)
    spread = variance + t * delta**2
    logs = 0.5 * np.log(variance / spread) + sums**2 * delta**2 / (2 * variance * spread)
    return _first((logs >= math.log(1 / alpha)) & (t >= 20))


def fixed_size(n: int, discordance: float, delta: float) -> float:
    """Return the number of questions with which a test at one time has a power of 80%, corrected for N."""
    infinite = 7.849 * (discordance - delta**2) / delta**2
    return infinite / (1 + infinite / n)


def _looks(values: Floats, n: int, _: float, delta: float) -> Floats:
    """O'Brien and Fleming's five planned looks, up to the fixed size; not decided by then: n."""
    discordance = float(np.abs(values[0]).mean())
    most = OBF_INFLATION * fixed_size(n, discordance, delta)
    when = np.full(len(values), n)
    for look in range(OBF_LOOKS, 0, -1):
        # equal steps of information, which with a finite list is n / (1 - n/N)
        information = most / (1 - most / n) * look / OBF_LOOKS
        t = min(n - 1, round(information / (1 + information / n)))
        seen = values[:, :t]
        error = np.sqrt(np.maximum(seen.var(axis=1), 1e-9) / t * (1 - t / n))
        when[np.abs(seen.mean(axis=1)) > OBF_CONSTANT * math.sqrt(OBF_LOOKS / look) * error] = t
    return when


def peeking(values: Floats, n: int, alpha: float = 0.05, _: float = 0.05) -> Floats:
    """Return when an ordinary z test, corrected for N, decides if looked at after each value. Not valid."""
    t = np.arange(1, n + 1)
    mean = np.cumsum(values, axis=1) / t
    error = np.sqrt(np.maximum(np.cumsum(values**2, axis=1) / t - mean**2, 1e-9) / t * (1 - t / n))
    quantile = {0.05: 1.959964}[alpha]
    return _first((np.abs(mean) > quantile * error) & (t >= 20) & (t < n))


RULES: dict[str, Callable[[Floats, int, float, float], Floats]] = {
    "Kelly": _kelly,
    "hedged predmix": _hedged,
    "EB": _empirical_bernstein,
    "iid mSPRT": _mixture_test,
    "OBF, 5 looks": _looks,
    "z at each t": peeking,
}
"""By name: (values, N, alpha, planned difference) -> after how many values each order was decided, N for never."""
