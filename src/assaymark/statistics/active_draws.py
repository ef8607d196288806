"""Draws of the questions that say most: with probabilities that follow a forecast's uncertainty.

Of the values that are left, i is drawn with a probability q(i) proportional to w(i) (s(i) / mean of s + 1), where w(i)
is its weight in the mean and s(i) the standard deviation that its forecast f(i) implies for a right or wrong answer,
sqrt((high - f(i)) (f(i) - low)). With g(i) = w(i) / (weight left) / q(i), the moved value

    (mean forecast of what is left) + g(i) (x(i) - f(i))

has the expectation that x has in a plain random order, whatever the forecasts are, and known bounds, since g is at most
2 when rates are made. So the bets of `sequential` are valid for it. Rates and forecasts are made anew after 50 draws
and each tenth more, from values drawn before, at fixed numbers of draws: the order follows from the values in it, the
others' scores and the clocks alone, never from goals, budgets or looks.

Source: Horvitz and Thompson 1952; Shekhar, Xu, Lipton, Liang and Ramdas 2023, "Risk-limiting financial audits via
weighted sampling without replacement" (arXiv 2305.06884); of the draws, Efraimidis and Spirakis 2006.
"""

from collections.abc import Callable

import numpy as np

from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.forecasts import FIRST_FIT, Control, Draw, next_fit_after

__all__ = ["UNIFORM", "ActiveDraws"]

UNIFORM = 0.5  # of the rates, which no forecast takes away


class ActiveDraws:
    """An order of N values that is made while they are seen."""

    def __init__(self, control: Control, clocks: Callable[[int], Floats], weights: Floats | None = None) -> None:
        """Begin with draws in proportion to the weights.

        Args:
            control: what forecasts the values, which are numbered in any fixed order.
            clocks: returns N independent exponential variables for the number of draws so far; equal ones for equal
                numbers. Shape: [N].
            weights: of the values; None: all equal. Shape: [N].
        """
        self._control, self._clocks = control, clocks
        n = control.others.shape[1]
        self.weights = np.full(n, 1 / n) if weights is None else np.asarray(weights, dtype=np.float64) / np.sum(weights)
        self.order = np.zeros(0, dtype=np.int64)
        """Which values come next, as far as that is decided."""
        self._values = np.zeros(n)
        self._n_seen = 0
        self._is_left = np.ones(n, dtype=bool)
        self.forecasts = np.zeros(n)
        self._rates = self.weights.copy()
        self._rates_left = self._forecast_left = 0.0
        self._bounds = (0.0, 0.0)
        self._known = np.zeros(n) if control.known is None else control.known
        self._extend()

    @property
    def n(self) -> int:
        """How many values there are."""
        return len(self._values)

    @property
    def least_weight(self) -> float:
        """The smallest weight, which is left at least while a value is."""
        return float(self.weights.min())

    def upcoming(self) -> list[int]:
        """Return the numbers of the next draws, as far as they are decided: at least one while any is left."""
        return [int(at) for at in self.order[self._n_seen :]]

    def next_draw(self, left: float) -> Draw:
        """Return what is known of the next value, where a weight `left` is left. Raises: UsageError after the last."""
        if self._n_seen == self.n:
            raise UsageError(f"all {self.n} values were drawn")
        at = self.order[self._n_seen]
        scale = self._rates_left / left  # over weight by rate: one over the probability, times the share of the weight
        low, high = self._bounds
        return Draw(
            weight=float(self.weights[at]),
            forecast=float(self.forecasts[at]),
            rest=self._forecast_left / left,
            factor=float(self.weights[at] / self._rates[at]) * scale,
            low=low * scale,
            high=high * scale,
        )

    def take(self, value: float) -> None:
        """Add the value of the next draw."""
        at = self.order[self._n_seen]
        self._values[self._n_seen] = value
        self._is_left[at] = False
        self._rates_left -= float(self._rates[at])
        self._forecast_left -= float(self.weights[at] * self.forecasts[at])
        self._n_seen += 1
        if self._n_seen == len(self.order) < self.n:
            self._extend()

    @property
    def is_forecasting(self) -> bool:
        """Whether there were forecasts for the last draw."""
        return self._n_seen > FIRST_FIT

    @property
    def bounds_left(self) -> tuple[float, float]:
        """What the values that are left add to the mean of all, at least and at most."""
        left = float(self.weights[self._is_left].sum())
        known = float(self.weights[self._is_left] @ self._known[self._is_left])
        return known + self._control.low * left, known + self._control.high * left

    def _extend(self) -> None:
        """Forecast what is left from the values so far, and draw the order of a further block."""
        n_seen, left = self._n_seen, np.flatnonzero(self._is_left)
        low, high = self._control.low, self._control.high
        if n_seen:
            self.forecasts = self._control.forecasts(self._values[:n_seen], self.order)
            sampled = self.forecasts - self._known
            spread = np.sqrt(np.maximum((high - sampled) * (sampled - low), 0.0))
            typical = float(np.average(spread[left], weights=self.weights[left]))
            relative = spread / typical if typical > 0 else np.ones(self.n)
            self._rates = self.weights * ((1 - UNIFORM) * relative + UNIFORM)
        self._rates_left = float(self._rates[left].sum())
        self._forecast_left = float(self.weights[left] @ self.forecasts[left])
        ratio, sampled = (self.weights / self._rates)[left], (self.forecasts - self._known)[left]
        self._bounds = float((ratio * (low - sampled)).min()), float((ratio * (high - sampled)).max())
        by_clock = left[np.argsort(self._clocks(n_seen)[left] / self._rates[left], kind="stable")]
        self.order = np.concatenate([self.order, by_clock[: next_fit_after(n_seen) - n_seen]])
