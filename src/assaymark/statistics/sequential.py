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

Verdict = Literal["first", "second", "equivalent", "undecided"]
PORTFOLIO = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # their capitals are averaged, where no difference was named
SHARE_AT_RISK = 0.9  # of the capital, in one bet
GRID = 401  # means from -1 to 1
MEAN_GRID = 1001  # means from 0 to 1: an interval is wider by a tenth of a point at either end at most
STEPS_OF_HALF_WIDTH = 80  # means in a half-width that is wanted
MOST_MEANS = 8001
PRUNED_AFTER = 25  # values, until means that are refuted are left out
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
        prunes: bool = False,
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
            prunes: whether capitals against means that are refuted may stay what they are, which saves time.
        """
        if n < 1 or not 0 < alpha < 1 or (planned is not None and not 0 < planned <= 2):
            expected = "expected n >= 1, 0 < alpha < 1 and 0 < planned <= 2"
            raise UsageError(f"n={n}, alpha={alpha}, planned={planned}; {expected}")
        self._weights = None if weights is None else _shares(weights, n_orders, n)
        self.n, self.alpha, self.n_seen = n, alpha, 0
        self.means = np.linspace(-1.0, 1.0, GRID) if means is None else np.asarray(means, dtype=np.float64)
        self._planned, self._prunes = planned, prunes
        n_bets = 1 if planned is not None else len(PORTFOLIO)
        shape = (n_bets, n_orders, len(self.means))
        self._up, self._down = np.full(shape, -math.log(n_bets)), np.full(shape, -math.log(n_bets))  # logs of capitals
        self._tested = slice(0, len(self.means))  # of the means, in sequences that leave out refuted ones
        self.most_up = np.full(shape[1:], -np.inf)  # log of the largest capital against each mean, so far
        self.most_down = np.full(shape[1:], -np.inf)
        self._sum, self._squares = np.zeros(n_orders), np.zeros(n_orders)
        self.weighted, self.left = np.zeros(n_orders), np.ones(n_orders)
        """What was seen adds to the mean of all, and the weight that is left. Shapes: [orders]."""

    def add(self, values: Floats) -> None:
        """Add the next values, each in [-1, 1]. Shapes: [t], or [orders, t]."""
        block = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if not (np.abs(block) <= 1.0 + ROUNDING).all():  # nor is NaN
            raise UsageError(f"values from {block.min():g} to {block.max():g}; expected a bounded score of each")
        if self.n_seen + block.shape[1] > self.n:
            raise UsageError(f"{self.n_seen + block.shape[1]} values of {self.n}")
        for value in block.T:
            if self._prunes and self.n_seen % PRUNED_AFTER == 0:
                self._prune()
            self._step(value)

    def _prune(self) -> None:
        """Leave out means below and above all that no bet has refuted, but for the two that bound these."""
        refuted = np.maximum(self.most_up, self.most_down) >= self.log_needed  # [orders, means]
        left = np.flatnonzero(~refuted.all(axis=0))
        if len(left):
            self._tested = slice(max(int(left[0]) - 1, 0), int(left[-1]) + 2)

    def _step(self, own: Floats) -> None:
        """Bet on one value of each order. Shape: [orders]."""
        tested = self._tested
        expected = (self.means[None, tested] - self.weighted[:, None]) / self.left[:, None]  # [orders, means]
        weight = 1 / self.n if self._weights is None else self._weights[:, self.n_seen]
        possible = np.clip(expected, -1.0, 1.0)
        surprise = own[:, None] - possible
        most_bet_up = SHARE_AT_RISK / np.maximum(possible + 1.0, 1e-12)  # [orders, means]
        most_bet_down = SHARE_AT_RISK / np.maximum(1.0 - possible, 1e-12)
        bets = self._bets()
        for capitals, most, impossible, most_bet, sign in (
            (self._up, self.most_up, expected < -1.0 - ROUNDING, most_bet_up, 1.0),
            (self._down, self.most_down, expected > 1.0 + ROUNDING, most_bet_down, -1.0),
        ):
            change = np.minimum(bets, most_bet) * (sign * surprise)  # [bets, orders, means]
            capitals[..., tested] += np.log1p(np.maximum(change, -SHARE_AT_RISK))
            now = np.where(impossible, np.inf, _log_sum(capitals[..., tested]))
            most[:, tested] = np.maximum(most[:, tested], now)
        self._squares += (own - self._sum / max(self.n_seen, 1)) ** 2
        self._sum += own
        self.weighted += weight * own
        self.n_seen += 1
        # a count has no rounding errors; a sum of weights has, so that a last one is not left of them
        if self._weights is None:
            self.left = np.full_like(self.left, (self.n - self.n_seen) / self.n)
        else:
            self.left = np.maximum(self.left - weight, self._weights[:, self.n_seen :].min(axis=1, initial=1.0))
        if self.n_seen == self.n:  # everything is known: only the mean itself is left
            self.left = np.zeros_like(self.left)
            final = self.weighted[:, None]
            self.most_up[self.means[None, :] < final - 1e-12] = np.inf
            self.most_down[self.means[None, :] > final + 1e-12] = np.inf

    def _bets(self) -> Floats:
        """Return the sizes of bets that do not depend on a mean, from earlier values only. Shape: [bets, orders, 1].

        What is left of a finite list departs the further from the expectation under a wrong mean, the less is left: if
        the mean is off by delta, the next value is off by delta / (share left). So the bet that suits it grows.
        """
        if self._planned is None:
            return np.asarray(PORTFOLIO)[:, None, None] / self.left[None, :, None]
        variance = (1.0 + self._squares) / (self.n_seen + 1)
        return (self._planned / (variance * self.left))[None, :, None]

    @property
    def mean(self) -> Floats:
        """An estimate of the mean of all, from the values so far. Shape: [orders]."""
        n_seen = max(self.n_seen, 1)
        if self._weights is None:
            return self.weighted * (self.n / n_seen)
        return self.weighted + self.left * self._sum / n_seen

    @property
    def certain(self) -> tuple[Floats, Floats]:
        """The least and the largest mean of all that the values which are left can make. Shapes: [orders]."""
        return self.weighted - self.left, self.weighted + self.left

    @property
    def log_needed(self) -> float:
        """The log of the capital that refutes a mean."""
        return math.log(2.0 / self.alpha)

    def interval(self) -> tuple[Floats, Floats]:
        """Return the ends of the means that nothing has refuted up to now. Shapes: [orders].

        Bets refute every mean in at most alpha of random orders, and in others that are not random. They say nothing
        then, and the ends are those that the values which are left can make.
        """
        too_low, too_high = self.most_up >= self.log_needed, self.most_down >= self.log_needed
        rank, is_left = np.arange(len(self.means)), ~(too_low | too_high)
        # the ends are refuted themselves: conservative by a grid's step
        low = np.where(is_left, rank, len(rank)).min(axis=1) - 1
        high = np.where(is_left, rank, -1).max(axis=1) + 1
        between = ~is_left.any(axis=1)  # what is left lies between two means of the grid
        low = np.where(between, np.where(too_low, rank, -1).max(axis=1), low)
        high = np.where(between, np.where(too_high, rank, len(rank)).min(axis=1), high)
        low_ends = np.where(low >= 0, self.means[np.maximum(low, 0)], -1.0)
        high_ends = np.where(high < len(self.means), self.means[np.minimum(high, len(self.means) - 1)], 1.0)
        if self.n_seen == self.n:
            return self.weighted.copy(), self.weighted.copy()
        says_nothing, (least, most) = between & (low >= high), self.certain
        return np.where(says_nothing, least, low_ends), np.where(says_nothing, most, high_ends)


def _shares(weights: Floats, n_orders: int, n: int) -> Floats:
    """Return weights as shares that sum to 1. Shapes: [n] or [orders, n] -> [orders, n]. Raises: UsageError."""
    rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
    if rows.shape[1] != n or not np.isfinite(rows).all() or (rows <= 0).any():
        raise UsageError(f"{rows.shape[1]} weights of {n} values; expected one above 0 for each")
    if len(rows) not in {1, n_orders}:
        raise UsageError(f"weights of {len(rows)} orders for {n_orders}; expected one row, or one for each")
    shares: Floats = np.broadcast_to(rows / rows.sum(axis=1, keepdims=True), (n_orders, n))
    return shares


def _log_sum(logs: Floats) -> Floats:
    """Return the log of the sum of capitals over the bets. Shape: [orders, means]."""
    most = logs.max(axis=0)
    total: Floats = most + np.log(np.exp(logs - most).sum(axis=0))
    return total


@dataclass(frozen=True, slots=True)
class RaceState:
    """The knowledge of a difference, first minus second, after some of the questions. Units: 1 is 100 points."""

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

    def __init__(
        self, n: int, alpha: float = 0.05, margin: float | None = None, *, weights: Floats | None = None
    ) -> None:
        """Begin a race.

        Args:
            n: the number of questions of the benchmark.
            alpha: how often a verdict may be wrong about the benchmark.
            margin: the smallest difference of interest, in (0, 1]: bets are sized for it, and a difference that is
                surely smaller is "equivalent". None: any difference, until it is certain.
            weights: of the questions in their order, as in `BettingSequence`.
        """
        if margin is not None and not 0 < margin <= 1:
            raise UsageError(f"the margin is {margin}; expected a share above 0 and up to 1, such as 0.05 for 5 points")
        self.margin = margin
        means = np.union1d(np.linspace(-1.0, 1.0, GRID), [0.0] if margin is None else [-margin, 0.0, margin])
        self._bets = BettingSequence(n, alpha, planned=margin, means=means, weights=weights)
        self._zero = int(np.searchsorted(means, 0.0))

    def add(self, differences: Floats) -> RaceState:
        """Add the next questions' differences, each in [-1, 1], and return the state then."""
        self._bets.add(differences)
        return self.state()

    def state(self) -> RaceState:
        """Return the state after the values so far."""
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
        mean = float(bets.mean[0]) if bets.n_seen else 0.0
        n_more = None
        if verdict == "undecided" and left and bets.n_seen:
            factors = []  # of the questions so far
            if (best := max(evidence)) > 0.1:
                factors.append(bets.log_needed / best)
            if self.margin is not None and abs(mean) < self.margin:  # widths fall with the root of the questions
                factors.append(((high - low) / 2 / (self.margin - abs(mean))) ** 2)
            if factors:
                n_more = min(left, max(1, math.ceil(bets.n_seen * (min(factors) - 1))))
        low, high = max(low, least), min(high, most)
        return RaceState(bets.n_seen, bets.n, mean, low, high, verdict, is_certain, n_more)


@dataclass(frozen=True, slots=True)
class MeanState:
    """The knowledge of the mean of N shares after some of them. Units: shares, 0 to 1."""

    n_seen: int
    n: int
    mean: float  # of the values so far; after a stop it is biased away from the threshold
    low: float  # of the interval for the mean of all N values, valid at any time
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width; the mean so far need not be in its middle."""
        return (self.high - self.low) / 2


class SequentialMean:
    """The mean of N values in [0, 1], seen in a random order, with an interval that is valid at any time."""

    def __init__(
        self, n: int, alpha: float = 0.05, *, half_width: float | None = None, threshold: float | None = None,
        weights: Floats | None = None,
    ) -> None:  # fmt: skip
        """Begin with nothing seen.

        Args:
            n: the number of values in the whole list.
            alpha: how often the interval may miss the mean of all, over all times together.
            half_width: of the interval that is wanted, for which bets are sized; None: a portfolio of bets.
            threshold: a mean that is tested exactly, besides a grid of `MEAN_GRID` means.
            weights: of the values in their order, as in `BettingSequence`.
        """
        n_means = MEAN_GRID
        if half_width is not None:
            n_means = max(MEAN_GRID, min(MOST_MEANS, math.ceil(STEPS_OF_HALF_WIDTH / half_width) + 1))
        means = np.linspace(0.0, 1.0, n_means)
        if threshold is not None:
            means = np.union1d(means, [threshold])
        # values in [0, 1] are bet on as values in [-1, 1], at twice the distance
        self._bets = BettingSequence(
            n,
            alpha,
            planned=None if half_width is None else 2 * half_width,
            means=2 * means - 1,
            weights=weights,
            prunes=True,
        )

    def add(self, values: Floats) -> MeanState:
        """Add the next values, each in [0, 1], and return the state then. Shape: [t]."""
        self._bets.add(2 * np.asarray(values, dtype=np.float64) - 1)
        return self.state()

    def state(self) -> MeanState:
        """Return the state: the means that neither a bet nor the values that are left refute."""
        bets = self._bets
        mean = (float(bets.mean[0]) + 1) / 2 if bets.n_seen else 0.0
        if bets.n_seen == bets.n:
            return MeanState(bets.n_seen, bets.n, mean, mean, mean)
        low, high = ((float(end[0]) + 1) / 2 for end in bets.interval())
        least, most = ((float(end[0]) + 1) / 2 for end in bets.certain)
        low, high = max(low, least, 0.0), min(high, most, 1.0)
        return MeanState(bets.n_seen, bets.n, min(max(mean, low), high), low, high)
