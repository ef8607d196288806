"""Intervals and tests that stay valid however often one looks: the mean of a finite list that is seen in random order.

A benchmark has N questions. In random order, without replacement, the expectation of the next value under a mean m is
(N m - sum so far) / (number left), and a bet against m multiplies its capital by 1 + lambda (value - expectation).
Under a true m the capital is a martingale, so that it ever reaches 1/alpha with probability at most alpha (Ville), at
whatever time one looks and stops. m is refuted where a bet upwards or a bet downwards has reached 2/alpha.

Source: Waudby-Smith and Ramdas 2020, "Confidence sequences for sampling without replacement" (arXiv 2006.04347), and
2024, "Estimating means of bounded random variables by betting" (arXiv 2010.09686).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.forecasts import Control

__all__ = ["PORTFOLIO", "BettingSequence", "MeanState", "PairedRace", "RaceState", "SequentialMean", "Verdict"]

Verdict = Literal["first", "second", "equivalent", "undecided"]
PORTFOLIO = (
    0.02,
    0.05,
    0.1,
    0.2,
    0.4,
    0.8,
)  # their capitals are averaged, where no difference was named
SHARE_AT_RISK = 0.9  # of the capital, in one bet
GRID = 401  # means from -1 to 1
MEAN_GRID = 1001  # means from 0 to 1: an interval is wider by a tenth of a point at either end at most
FIRST_FIT = 50  # values before the first forecast; then there is a new one after each tenth of what was seen
ROUNDING = 1e-9  # of an expectation: less than that is no contradiction


class BettingSequence:
    """A confidence sequence for the mean of N values in [-1, 1], for one or several orders at once.

    Evidence counts in the order in which values are added, so that order must be random and fixed beforehand. Looking
    once for each block is valid too.
    """

    def __init__(
        self,
        n: int,
        alpha: float = 0.05,
        *,
        planned: float | None = None,
        means: Floats | None = None,
        n_orders: int = 1,
        weights: Floats | None = None,
        control: Control | None = None,
    ) -> None:
        """Begin with nothing seen.

        Args:
            n: the number of values in the whole list.
            alpha: how often the interval may miss the mean, over all times together.
            planned: the smallest distance from a mean that is of interest, for which bets are sized; None: a portfolio.
            means: those that are tested, sorted, in [-1, 1]; None: a grid.
            n_orders: the number of orders that are followed side by side.
            weights: of the values in their order, for a weighted mean; each value was drawn with a probability
                proportional to its weight among those left. Shape: [n] or [orders, n]. None: all equal.
            control: what forecasts the values of a single order.
        """
        if n < 1 or not 0 < alpha < 1 or (planned is not None and not 0 < planned <= 2):
            expected = "expected n >= 1, 0 < alpha < 1 and 0 < planned <= 2"
            raise UsageError(f"n={n}, alpha={alpha}, planned={planned}; {expected}")
        if control is not None and (n_orders != 1 or control.others.shape[1] != n):
            raise UsageError(f"forecasts of {control.others.shape[1]} values for {n_orders} orders of {n}")
        self.n, self.alpha, self.n_seen = n, alpha, 0
        self.means = np.linspace(-1.0, 1.0, GRID) if means is None else np.asarray(means, dtype=np.float64)
        self._planned = planned
        self._weights = None if weights is None else _shares(weights, n)
        self._control, self._values = control, np.zeros(n if control is not None else 0)
        self._forecasts, self._next_fit, self._forecast_left = np.zeros(0), FIRST_FIT, 0.0
        self._plain_squares = self._residual_squares = 0.0  # of draws with a forecast
        n_bets = 1 if planned is not None else len(PORTFOLIO)
        shape = (n_bets, n_orders, len(self.means))
        self._up, self._down = np.zeros(shape), np.zeros(shape)  # logs of capitals
        self.most_up = np.full(shape[1:], -np.inf)  # log of the largest capital against each mean, so far
        self.most_down = np.full(shape[1:], -np.inf)
        self._sum, self._squares = np.zeros(n_orders), np.zeros(n_orders)
        self.weighted, self.left = np.zeros(n_orders), np.ones(n_orders)
        """What was seen adds to the mean of all, and the weight that is left. Shapes: [orders]."""

    def add(self, values: Floats) -> None:
        """Add the next values. Shapes: [t], or [orders, t]."""
        block = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if self.n_seen + block.shape[1] > self.n:
            raise UsageError(f"{self.n_seen + block.shape[1]} values of {self.n}")
        for value in block.T:
            self._step(value)

    def _step(self, own: Floats) -> None:
        """Bet on one value of each order. Shape: [orders]."""
        expected = (self.means[None, :] - self.weighted[:, None]) / self.left[:, None]  # [orders, means]
        weight = 1 / self.n if self._weights is None else self._weights[:, self.n_seen]
        # a forecast moves a value by what is known beforehand and has an expectation of 0 among the values left
        lowest, highest, moved = -1.0, 1.0, own
        if self._control is not None:
            lowest, highest, moved = self._moved(self._control, own, np.broadcast_to(weight, own.shape))
        possible = np.clip(expected, lowest, highest)
        surprise = moved[:, None] - possible
        bets = self._bets()
        up = np.minimum(bets, SHARE_AT_RISK / np.maximum(possible - lowest, 1e-12))  # [bets, orders, means]
        down = np.minimum(bets, SHARE_AT_RISK / np.maximum(highest - possible, 1e-12))
        self._up += np.log1p(np.maximum(up * surprise, -SHARE_AT_RISK))
        self._down += np.log1p(np.maximum(-down * surprise, -SHARE_AT_RISK))
        too_low, too_high = expected < lowest - ROUNDING, expected > highest + ROUNDING
        np.maximum(self.most_up, np.where(too_low, np.inf, _log_mean(self._up)), out=self.most_up)
        np.maximum(self.most_down, np.where(too_high, np.inf, _log_mean(self._down)), out=self.most_down)
        self._squares += (moved - self._sum / max(self.n_seen, 1)) ** 2
        self._sum += moved
        self.weighted += weight * own
        self.n_seen += 1
        # a count has no rounding errors; a sum of weights has, so that a last one is not left of them
        self.left = (
            np.full_like(self.left, (self.n - self.n_seen) / self.n)
            if self._weights is None
            else np.maximum(self.left - weight, self._weights[:, self.n_seen :].min(axis=1, initial=1.0))
        )
        if self.n_seen == self.n:  # everything is known: only the mean itself is left
            self.left = np.zeros_like(self.left)
            final = self.weighted[:, None]
            self.most_up[self.means[None, :] < final - 1e-12] = np.inf
            self.most_down[self.means[None, :] > final + 1e-12] = np.inf

    def _moved(self, control: Control, own: Floats, weight: Floats) -> tuple[float, float, Floats]:
        """Return bounds of the moved value, and the value moved by its forecast, which earlier values alone made."""
        at, left = self.n_seen, float(self.left[0])
        if at == self._next_fit:
            self._forecasts = control.forecasts(self._values[:at])
            weights = np.full(self.n - at, 1 / self.n) if self._weights is None else self._weights[0, at:]
            self._forecast_left = float(weights @ self._forecasts[at:])
            self._next_fit = at + max(FIRST_FIT, at // 10)
        self._values[at] = own[0]
        if not len(self._forecasts):
            return -1.0, 1.0, own
        mean_left, forecast = self._forecast_left / left, float(self._forecasts[at])
        self._forecast_left -= float(weight[0]) * forecast
        low, high = control.residuals(self._forecasts[at:])
        moved = own - forecast + mean_left
        mean = float(self._values[:at].mean())
        self._plain_squares += float(own[0] - mean) ** 2
        self._residual_squares += float(own[0] - forecast) ** 2
        return low + mean_left, high + mean_left, moved

    def _bets(self) -> Floats:
        """Return the sizes of the bets, from earlier values only. Shape: [bets, orders, 1].

        What is left of a finite list departs the further from the expectation under a wrong mean, the less is left: if
        the mean is off by delta, the next value is off by delta / (share left). So the bet that suits it grows.
        """
        if self._planned is None:
            return np.asarray(PORTFOLIO)[:, None, None] / self.left[None, :, None]
        variance = (1.0 + self._squares) / (self.n_seen + 1)
        return (self._planned / (variance * self.left))[None, :, None]

    @property
    def mean(self) -> Floats:
        """An estimate of the mean of all: of the values so far, and of forecasts for the rest. Shape: [orders]."""
        n_seen = max(self.n_seen, 1)
        if len(self._forecasts):
            seen, rest = self._forecasts[: self.n_seen], self._forecast_left
            mean: Floats = self.weighted + rest + self.left * (self._values[: self.n_seen] - seen).mean()
            return mean
        if self._weights is None:
            return self.weighted * (self.n / n_seen)
        return self.weighted + self.left * self._sum / n_seen

    @property
    def certain(self) -> tuple[Floats, Floats]:
        """The least and the largest mean of all that the values which are left can make. Shapes: [orders]."""
        if self._control is None:
            return self.weighted - self.left, self.weighted + self.left
        known = 0.0
        if self._control.known is not None:
            rest = self._control.known[self.n_seen :]
            known = float(rest.sum() / self.n if self._weights is None else self._weights[0, self.n_seen :] @ rest)
        low, high = self._control.low, self._control.high
        return self.weighted + known + low * self.left, self.weighted + known + high * self.left

    @property
    def variance_ratio(self) -> float | None:
        """By what factor forecasts lowered the variance, over the draws that had one; None without such a draw."""
        if not self._residual_squares:
            return None
        return self._plain_squares / self._residual_squares

    def log_capitals(self, at: int) -> tuple[float, float]:
        """Return the logs of the present capitals of bets upwards and downwards against a tested mean, of one order.

        Unlike their maxima so far these are e-values, at whatever time one stops. Infinite: the mean is impossible.
        """
        ends = ((self._up, self.most_up), (self._down, self.most_down))
        up, down = (math.inf if most[0, at] == math.inf else float(_log_mean(now)[0, at]) for now, most in ends)
        return up, down

    @property
    def log_needed(self) -> float:
        """The log of the capital that refutes a mean."""
        return math.log(2.0 / self.alpha)

    def interval(self) -> tuple[Floats, Floats]:
        """Return the ends of the means that nothing has refuted up to now. Shapes: [orders]."""
        too_low, too_high = self.most_up >= self.log_needed, self.most_down >= self.log_needed
        rank = np.arange(len(self.means))
        low = np.where(too_low, rank, -1).max(axis=1)  # the ends are refuted themselves: conservative by a grid's step
        high = np.where(too_high, rank, len(self.means)).min(axis=1)
        low_ends = np.where(low >= 0, self.means[np.maximum(low, 0)], -1.0)
        high_ends = np.where(high < len(self.means), self.means[np.minimum(high, len(self.means) - 1)], 1.0)
        if self.n_seen == self.n:
            return self.weighted.copy(), self.weighted.copy()
        return low_ends, high_ends


def _shares(weights: Floats, n: int) -> Floats:
    """Return weights as shares that sum to 1. Shapes: [n] or [orders, n] -> [orders, n]. Raises: UsageError."""
    rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if rows.shape[1] != n or not np.isfinite(rows).all() or (rows <= 0).any():
        raise UsageError(f"{rows.shape[1]} weights of {n} values; expected one above 0 for each")
    shares: Floats = rows / rows.sum(axis=1, keepdims=True)
    return shares


def _log_mean(logs: Floats) -> Floats:
    """Return the log of the mean of capitals over the bets. Shape: [orders, means]."""
    most = logs.max(axis=0)
    mean: Floats = most + np.log(np.exp(logs - most).mean(axis=0))
    return mean


@dataclass(frozen=True, slots=True)
class RaceState:
    """What is known of a difference, first minus second, after some of the questions. Units: 1 is 100 points."""

    n_seen: int
    n: int
    difference: float  # over the questions so far, and forecasts for the rest; after a stop it is biased away from 0
    low: float  # of the interval for the difference on the whole benchmark, valid at any time
    high: float
    verdict: Verdict
    is_certain: bool  # the questions that are left cannot change it
    n_more: int | None  # about how many more would decide, at this rate; None: not to be said

    @property
    def is_decided(self) -> bool:
        """Whether to stop."""
        return self.verdict != "undecided" or self.n_seen == self.n


class PairedRace:
    """Which of two models is better on a benchmark, from the differences of their scores in a random order."""

    def __init__(
        self, n: int, alpha: float = 0.05, margin: float | None = None, *,
        weights: Floats | None = None, control: Control | None = None,
    ) -> None:  # fmt: skip
        """Begin a race.

        Args:
            n: the number of questions of the benchmark.
            alpha: how often a verdict may be wrong about the benchmark.
            margin: the smallest difference of interest, in (0, 1]: bets are sized for it, and a difference that is
                surely smaller is "equivalent". None: any difference, until it is certain.
            weights: of the questions in their order, as in `BettingSequence`.
            control: what forecasts their differences.
        """
        if margin is not None and not 0 < margin <= 1:
            raise UsageError(f"the margin is {margin}; expected a share above 0 and up to 1, such as 0.05 for 5 points")
        self.margin = margin
        means = np.union1d(np.linspace(-1.0, 1.0, GRID), [0.0] if margin is None else [-margin, 0.0, margin])
        self._bets = BettingSequence(n, alpha, planned=margin, means=means, weights=weights, control=control)
        self._zero = int(np.searchsorted(means, 0.0))
        self._ends = None if margin is None else tuple(int(np.searchsorted(means, end)) for end in (-margin, margin))

    def log_e_values(self) -> tuple[float, float, float]:
        """Return logs of e-values against the contrary of: first better, second better, closer than the margin.

        Of the last the smaller of two counts, since either end may be true; without a margin it is minus infinity.
        """
        first, second = self._bets.log_capitals(self._zero)
        if self._ends is None:
            return first, second, -math.inf
        low, high = self._ends
        return first, second, min(self._bets.log_capitals(low)[0], self._bets.log_capitals(high)[1])

    def add(self, differences: Floats) -> RaceState:
        """Add the next questions' differences, each in [-1, 1], and return what is known then."""
        self._bets.add(differences)
        return self.state()

    def state(self) -> RaceState:
        """Return what is known."""
        bets = self._bets
        low, high = (float(end[0]) for end in bets.interval())
        left = bets.n - bets.n_seen
        least, most = (float(end[0]) for end in bets.certain)
        is_certain = least > ROUNDING or most < -ROUNDING
        evidence = (float(bets.most_up[0, self._zero]), float(bets.most_down[0, self._zero]))
        verdict: Verdict = "undecided"
        if is_certain:
            verdict = "first" if least > 0 else "second"
        elif max(evidence) >= bets.log_needed:
            verdict = "first" if evidence[0] >= evidence[1] else "second"
        elif self.margin is not None and -self.margin < low and high < self.margin:
            verdict = "equivalent"
        best = max(evidence)
        n_more = None
        if verdict == "undecided" and left and bets.n_seen and best > 0.1:
            n_more = min(left, math.ceil(bets.n_seen * (bets.log_needed / best - 1)))
        mean = float(bets.mean[0]) if bets.n_seen else 0.0
        low, high = max(low, least), min(high, most)
        return RaceState(bets.n_seen, bets.n, mean, low, high, verdict, is_certain, n_more)

    @property
    def variance_ratio(self) -> float | None:
        """By what factor forecasts lowered the variance; None without them."""
        return self._bets.variance_ratio


@dataclass(frozen=True, slots=True)
class MeanState:
    """What is known of the mean of N shares after some of them. Units: shares, 0 to 1."""

    n_seen: int
    n: int
    mean: (
        float  # of the values so far, and of forecasts for the rest; after a stop it is biased away from the threshold
    )
    low: float  # of the interval for the mean of all N values, valid at any time
    high: float

    @property
    def half_width(self) -> float:
        """The largest distance from the mean so far to an end of the interval."""
        return max(self.mean - self.low, self.high - self.mean)


class SequentialMean:
    """The mean of N values in [0, 1], seen in a random order, with an interval that is valid at any time."""

    def __init__(
        self, n: int, alpha: float = 0.05, *, half_width: float | None = None, threshold: float | None = None,
        weights: Floats | None = None, others: Floats | None = None,
    ) -> None:  # fmt: skip
        """Begin with nothing seen.

        Args:
            n: the number of values in the whole list.
            alpha: how often the interval may miss the mean of all, over all times together.
            half_width: bets are sized for an interval of this half-width; None: a portfolio of bets.
            threshold: a mean that is tested exactly, besides a grid of `MEAN_GRID` means.
            weights: of the values in their order, as in `BettingSequence`.
            others: other models' values of the same questions in their order, which forecast these. Shape: [k, n].
        """
        means = np.linspace(0.0, 1.0, MEAN_GRID)
        if threshold is not None:
            means = np.union1d(means, [threshold])
        # values in [0, 1] are bet on as values in [-1, 1], at twice the distance
        planned = None if half_width is None else 2 * half_width
        control = None if others is None else Control(others)
        self._bets = BettingSequence(n, alpha, planned=planned, means=2 * means - 1, weights=weights, control=control)

    def add(self, values: Floats) -> MeanState:
        """Add the next values, each in [0, 1], and return what is known then. Shape: [t]."""
        self._bets.add(2 * np.asarray(values, dtype=np.float64) - 1)
        return self.state()

    def state(self) -> MeanState:
        """Return what is known: the means that neither a bet nor the values that are left refute."""
        bets = self._bets
        mean = (float(bets.mean[0]) + 1) / 2 if bets.n_seen else 0.0
        if bets.n_seen == bets.n:
            return MeanState(bets.n_seen, bets.n, mean, mean, mean)
        low, high = ((float(end[0]) + 1) / 2 for end in bets.interval())
        least, most = ((float(end[0]) + 1) / 2 for end in bets.certain)
        low, high = max(low, least, 0.0), min(high, most, 1.0)
        return MeanState(bets.n_seen, bets.n, min(max(mean, low), high), low, high)

    @property
    def variance_ratio(self) -> float | None:
        """By what factor forecasts lowered the variance; None without them."""
        return self._bets.variance_ratio
