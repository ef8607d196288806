"""Tails and quantiles of the normal, t, beta, binomial and chi-square distributions, without scipy.

The t, beta and binomial distributions use the incomplete beta function, computed by its continued fraction; quantiles
are found by bisection, which always terminates.
"""

import math
from collections.abc import Callable
from functools import lru_cache

_TINY = 1e-300
_EPSILON = 1e-16


def normal_cdf(z: float) -> float:
    """Return P(Z <= z) of the standard normal."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def normal_quantile(probability: float) -> float:
    """Return z with P(Z <= z) = probability. Source: Wichura 1988 (AS 241), as in Python's NormalDist."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(probability)


def two_sided_z(confidence: float) -> float:
    """Return the half-width of a two-sided normal interval in standard errors: 1.96 for 0.95."""
    return normal_quantile(0.5 + confidence / 2.0)


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b).

    Source: Abramowitz and Stegun 26.5.8 (continued fraction), evaluated after Lentz; I_x(a, b) = 1 - I_(1-x)(b, a).
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _continued_fraction(x, a, b) / a
    return 1.0 - front * _continued_fraction(1.0 - x, b, a) / b


def _continued_fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 100_000):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0)),
        ):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + term / c
            c = c if abs(c) > _TINY else _TINY
            value *= c * d
        if abs(c * d - 1.0) < _EPSILON * 4:
            return value
    return value


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return x with I_x(a, b) = probability."""
    return bisect(lambda x: beta_cdf(x, a, b) - probability, 0.0, 1.0)


def t_cdf(t: float, df: float) -> float:
    """Return P(T <= t) of Student's t; df may be fractional."""
    tail = 0.5 * beta_cdf(df / (df + t * t), df / 2.0, 0.5)
    return 1.0 - tail if t > 0 else tail


def t_sf(t: float, df: float) -> float:
    """Return P(T > t) without cancellation."""
    return t_cdf(-t, df)


@lru_cache(maxsize=10_000)  # a leaderboard needs the same few for thousands of cells
def t_quantile(probability: float, df: float) -> float:
    """Return t with P(T <= t) = probability."""
    if probability < 0.5:
        return -t_quantile(1.0 - probability, df)
    if probability == 0.5:
        return 0.0
    tail = 1.0 - probability
    high = 1.0
    while t_sf(high, df) > tail:
        high *= 2.0
    low, high = _near_t(tail, df, high)
    return bisect(lambda t: tail - t_sf(t, df), low, high)


def _near_t(tail: float, df: float, high: float) -> tuple[float, float]:
    """Return a narrow range around t with P(T > t) = tail; [0, high] where Newton's steps do not find one.

    Each evaluation is slow for thousands of degrees of freedom, and bisection alone needs fifty.
    """
    log_front = math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0) - 0.5 * math.log(df * math.pi)
    t = min(-normal_quantile(tail), high) if tail > _TINY else high
    for _ in range(8):
        density = math.exp(log_front - (df + 1.0) / 2.0 * math.log1p(t * t / df))
        step = (t_sf(t, df) - tail) / density if density > 0.0 else math.inf
        if not abs(step) < high or not 0.0 < t + step < high:
            return 0.0, high
        t += step
        if abs(step) < 1e-9 * t:
            reach = 1e-11 * t  # the function itself is this inexact for thousands of degrees of freedom
            is_inside = t_sf(t - reach, df) > tail >= t_sf(t + reach, df)
            return (t - reach, t + reach) if is_inside else (0.0, high)
    return 0.0, high


def binomial_pmf(k: int, n: int, p: float) -> float:
    """Return P(X = k) of n trials."""
    if not 0 <= k <= n:
        return 0.0
    if p in (0.0, 1.0):
        return float(k == (n if p else 0))
    log_choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log_choose + k * math.log(p) + (n - k) * math.log1p(-p))


def binomial_sf(k: int, n: int, p: float) -> float:
    """Return P(X >= k) (k included) of n trials: I_p(k, n - k + 1)."""
    if k <= 0:
        return 1.0
    return 0.0 if k > n else beta_cdf(p, k, n - k + 1)


def bisect(function: Callable[[float], float], low: float, high: float, steps: int = 200) -> float:
    """Return the zero of an increasing function between low and high, to nearly the last bit."""
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if function(middle) < 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def chi_square_sf(x: float, df: float) -> float:
    """Return P(X > x) of the chi-square distribution: the upper incomplete gamma function Q(df/2, x/2).

    Source: Abramowitz and Stegun 6.5.29 (series, for small x) and 6.5.31 (continued fraction), evaluated after Lentz.
    """
    a, y = df / 2.0, x / 2.0
    if y <= 0.0:
        return 1.0
    front = math.exp(a * math.log(y) - y - math.lgamma(a))
    return 1.0 - front * _gamma_series(a, y) if y < a + 1.0 else front * _gamma_fraction(a, y)


def _gamma_series(a: float, y: float) -> float:
    term = total = 1.0 / a
    step = a
    while abs(term) > _EPSILON * abs(total):
        step += 1.0
        term *= y / step
        total += term
    return total


def _gamma_fraction(a: float, y: float) -> float:
    b = y + 1.0 - a
    c, d = 1.0 / _TINY, 1.0 / b
    value = d
    for i in range(1, 100_000):
        factor = -i * (i - a)
        b += 2.0
        d = factor * d + b
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = b + factor / c
        c = c if abs(c) > _TINY else _TINY
        value *= c * d
        if abs(c * d - 1.0) < _EPSILON * 4:
            return value
    return value
