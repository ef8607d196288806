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
    ) -> None:
        """Begin with nothing seen.

        Args:
            n: the number of values in the whole list.
            alpha: how often the interval may miss the mean, over all times together.
            planned: the smallest distance from a mean that is of interest, for which bets are sized; None: a portfolio.
            means: those that are tested, sorted, in [-1, 1]; None: a grid.
            n_orders: the number of orders that are followed side by side.
        """
        if n < 1 or not 0 < alpha < 1 or (planned is not None and not 0 < planned <= 2):
            expected = "expected n >= 1, 0 < alpha < 1 and 0 < planned <= 2"
            raise UsageError(f"n={n}, alpha={alpha}, planned={planned}; {expected}")
        self.n, self.alpha, self.n_seen = n, alpha, 0
        self.means = np.linspace(-1.0, 1.0, GRID) if means is None else np.asarray(means, dtype=np.float64)
        self._planned = planned
        n_bets = 1 if planned is not None else len(PORTFOLIO)
        shape = (n_bets, n_orders, len(self.means))
        self._up, self._down = np.zeros(shape), np.zeros(shape)  # logs of capitals
        self.most_up = np.full(shape[1:], -np.inf)  # log of the largest capital against each mean, so far
        self.most_down = np.full(shape[1:], -np.inf)
        self._sum, self._squares = np.zeros(n_orders), np.zeros(n_orders)

    def add(self, values: Floats) -> None:
        """Add the next values. Shapes: [t], or [orders, t]."""
        block = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if self.n_seen + block.shape[1] > self.n:
            raise UsageError(f"{self.n_seen + block.shape[1]} values of {self.n}")
        for value in block.T:
            self._step(value[:, None])

    def _step(self, value: Floats) -> None:
        """Bet on one value of each order. Shape: [orders, 1]."""
        left = self.n - self.n_seen
        expected = (self.n * self.means[None, :] - self._sum[:, None]) / left  # [orders, means]
        possible = np.clip(expected, -1.0, 1.0)
        surprise = value - possible
        bets = self._bets()
        up = np.minimum(bets, SHARE_AT_RISK / np.maximum(1.0 + possible, 1e-12))  # [bets, orders, means]
        down = np.minimum(bets, SHARE_AT_RISK / np.maximum(1.0 - possible, 1e-12))
        self._up += np.log1p(np.maximum(up * surprise, -SHARE_AT_RISK))
        self._down += np.log1p(np.maximum(-down * surprise, -SHARE_AT_RISK))
        np.maximum(self.most_up, np.where(expected < -1.0, np.inf, _log_mean(self._up)), out=self.most_up)
        np.maximum(self.most_down, np.where(expected > 1.0, np.inf, _log_mean(self._down)), out=self.most_down)
        own = value[:, 0]
        mean = self._sum / max(self.n_seen, 1)
        self._squares += (own - mean) ** 2
        self._sum += own
        self.n_seen += 1
        if self.n_seen == self.n:  # everything is known: only the mean itself is left
            final = (self._sum / self.n)[:, None]
            self.most_up[self.means[None, :] < final - 1e-12] = np.inf
            self.most_down[self.means[None, :] > final + 1e-12] = np.inf

    def _bets(self) -> Floats:
        """Return the sizes of the bets, from earlier values only. Shape: [bets, orders, 1]."""
        if self._planned is None:
            return np.asarray(PORTFOLIO)[:, None, None]
        variance = (0.25 + self._squares) / (self.n_seen + 1)
        return (self._planned / variance)[None, :, None]

    @property
    def mean(self) -> Floats:
        """The mean of the values so far. Shape: [orders]."""
        return self._sum / max(self.n_seen, 1)

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
            return self.mean, self.mean
        return low_ends, high_ends


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
    difference: float  # over the questions so far; after a stop it is biased away from 0
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

    def __init__(self, n: int, alpha: float = 0.05, margin: float | None = None) -> None:
        """Begin a race.

        Args:
            n: the number of questions of the benchmark.
            alpha: how often a verdict may be wrong about the benchmark.
            margin: the smallest difference of interest, in (0, 1]: bets are sized for it, and a difference that is
                surely smaller is "equivalent". None: any difference, until it is certain.
        """
        if margin is not None and not 0 < margin <= 1:
            raise UsageError(f"the margin is {margin}; expected a share above 0 and up to 1, such as 0.05 for 5 points")
        self.margin = margin
        means = np.union1d(np.linspace(-1.0, 1.0, GRID), [0.0] if margin is None else [-margin, 0.0, margin])
        self._bets = BettingSequence(n, alpha, planned=margin, means=means)
        self._zero = int(np.searchsorted(means, 0.0))

    def add(self, differences: Floats) -> RaceState:
        """Add the next questions' differences, each in [-1, 1], and return what is known then."""
        self._bets.add(differences)
        return self.state()

    def state(self) -> RaceState:
        """Return what is known."""
        bets = self._bets
        low, high = (float(end[0]) for end in bets.interval())
        total, left = float(bets.mean[0] * bets.n_seen), bets.n - bets.n_seen
        evidence = (float(bets.most_up[0, self._zero]), float(bets.most_down[0, self._zero]))
        verdict: Verdict = "undecided"
        if abs(total) > left or max(evidence) >= bets.log_needed:
            if abs(total) > left:
                verdict = "first" if total > 0 else "second"
            else:
                verdict = "first" if evidence[0] >= evidence[1] else "second"
        elif self.margin is not None and -self.margin < low and high < self.margin:
            verdict = "equivalent"
        best = max(evidence)
        n_more = None
        if verdict == "undecided" and left and bets.n_seen and best > 0.1:
            n_more = min(left, math.ceil(bets.n_seen * (bets.log_needed / best - 1)))
        mean = float(bets.mean[0]) if bets.n_seen else 0.0
        return RaceState(bets.n_seen, bets.n, mean, low, high, verdict, abs(total) > left, n_more)


@dataclass(frozen=True, slots=True)
class MeanState:
    """What is known of the mean of N shares after some of them. Units: shares, 0 to 1."""

    n_seen: int
    n: int
    mean: float  # over the values so far; after a stop it is biased away from the threshold
    low: float  # of the interval for the mean of all N values, valid at any time
    high: float

    @property
    def half_width(self) -> float:
        """The largest distance from the mean so far to an end of the interval."""
        return max(self.mean - self.low, self.high - self.mean)


class SequentialMean:
    """The mean of N values in [0, 1], seen in a random order, with an interval that is valid at any time."""

    def __init__(
        self, n: int, alpha: float = 0.05, *, half_width: float | None = None, threshold: float | None = None
    ) -> None:
        """Begin with nothing seen.

        Args:
            n: the number of values in the whole list.
            alpha: how often the interval may miss the mean of all, over all times together.
            half_width: bets are sized for an interval of this half-width; None: a portfolio of bets.
            threshold: a mean that is tested exactly, besides a grid of `MEAN_GRID` means.
        """
        means = np.linspace(0.0, 1.0, MEAN_GRID)
        if threshold is not None:
            means = np.union1d(means, [threshold])
        # values in [0, 1] are bet on as values in [-1, 1], at twice the distance
        planned = None if half_width is None else 2 * half_width
        self._bets = BettingSequence(n, alpha, planned=planned, means=2 * means - 1)

    def add(self, values: Floats) -> MeanState:
        """Add the next values, each in [0, 1], and return what is known then. Shape: [t]."""
        self._bets.add(2 * np.asarray(values, dtype=np.float64) - 1)
        return self.state()

    def state(self) -> MeanState:
        """Return what is known: the means that neither a bet nor the values that are left refute."""
        bets = self._bets
        n_left = bets.n - bets.n_seen
        mean = (float(bets.mean[0]) + 1) / 2 if bets.n_seen else 0.0
        if not n_left:
            return MeanState(bets.n_seen, bets.n, mean, mean, mean)
        total = mean * bets.n_seen
        low, high = ((float(end[0]) + 1) / 2 for end in bets.interval())
        return MeanState(bets.n_seen, bets.n, mean, max(low, total / bets.n), min(high, (total + n_left) / bets.n))
