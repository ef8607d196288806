"""Forecasts of a model's scores from those of others, as control variates of a sequence that may stop.

Other models' scores on all N questions are known beforehand. What a regression on them makes of the questions that are
left is known too, so only the residuals are sampled: the mean of all is the mean of the forecasts plus that of the
residuals (the difference estimator of survey sampling). It is valid for every forecast that uses earlier draws alone; a
poor one only widens the interval.

Source: Saerndal, Swensson and Wretman 1992, "Model Assisted Survey Sampling", section 6.3; Angelopoulos and others
2023, "Prediction-powered inference" (arXiv 2301.09633); Waudby-Smith and Ramdas 2020 for draws without replacement.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from assaymark.statistics.arrays import Floats

FIRST_FIT = 50  # values before the first forecast; then there is a new one after each tenth of what was seen
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, np.inf)  # of which leave-one-out errors choose; inf: the mean


def ridge_forecasts(others: Floats, values: Floats) -> Floats:
    """Return forecasts of all N values from the first t of them: ridge regression on the others' values.

    The penalty has the smallest leave-one-out error of `PENALTIES`, which the singular values give at once.

    Args:
        others: the others' values. Shape: [k, N].
        values: those seen. Shape: [t], t >= 2.
    """
    rows = others.T - others.mean(axis=1)
    seen = rows[: len(values)]
    centre, mean = seen.mean(axis=0), values.mean()
    left, singular, right = np.linalg.svd(seen - centre, full_matrices=False)
    along = left.T @ (values - mean)
    errors = []
    for penalty in PENALTIES:
        kept = singular**2 / (singular**2 + penalty)
        influence = (left**2) @ kept + 1 / len(values)
        residual = values - mean - left @ (kept * along)
        errors.append(float(((residual / np.maximum(1 - influence, 1e-3)) ** 2).mean()))
    best = PENALTIES[int(np.argmin(errors))]
    forecasts: Floats = mean + (rows - centre) @ (right.T @ (singular / (singular**2 + best) * along))
    return forecasts


@dataclass(frozen=True)
class Control:
    """What is known of N values before they are drawn, in the order of the draws.

    A value is x + known, where x is sampled from [low, high] and forecast from others.

    others: values of the others, [k, N].
    known: what is added to each x, [N]; None: nothing.
    """

    others: Floats
    known: Floats | None = None
    low: float = -1.0
    high: float = 1.0

    def forecasts(self, values: Floats) -> Floats:
        """Return forecasts of all values from the first t of them. Shapes: [t] -> [N]."""
        known = np.zeros(self.others.shape[1]) if self.known is None else self.known
        sampled = ridge_forecasts(self.others, values - known[: len(values)])
        return np.clip(sampled, self.low, self.high) + known

    def residuals(self, forecasts: Floats) -> tuple[float, float]:
        """Return bounds of value minus forecast, for the last values of the list, whose forecasts these are."""
        known = 0.0 if self.known is None else self.known[len(self.known) - len(forecasts) :]
        sampled = forecasts - known
        return self.low - float(sampled.max()), self.high - float(sampled.min())


class Draw(NamedTuple):
    """What moves the next value: rest + value - forecast is expected to be the mean of what is left.

    forecast: of the value.
    rest: the mean forecast of the values that are left.
    low: the least value - forecast of any value that may be drawn.
    high: the largest.
    """

    forecast: float
    rest: float
    low: float
    high: float


class ForecastDraws:
    """Draws in an order that is fixed beforehand, with forecasts that are fitted anew while values are seen."""

    def __init__(self, control: Control, weights: Floats | None = None) -> None:
        """Begin with nothing seen.

        Args:
            control: what forecasts the values, in the order of the draws.
            weights: shares of the values, each drawn with a probability in proportion to it; None: all equal.
        """
        self._control = control
        n = control.others.shape[1]
        self._weights = np.full(n, 1 / n) if weights is None else weights
        self._values, self._n_seen, self._next_fit = np.zeros(n), 0, FIRST_FIT
        self._forecasts, self._forecast_left = np.zeros(0), 0.0

    def next_draw(self, left: float) -> Draw:
        """Return the facts about the next value, where a weight `left` is left."""
        at = self._n_seen
        if at == self._next_fit:
            self._forecasts = self._control.forecasts(self._values[:at])
            self._forecast_left = float(self._weights[at:] @ self._forecasts[at:])
            self._next_fit = at + max(FIRST_FIT, at // 10)
        if not len(self._forecasts):
            return Draw(0.0, 0.0, -1.0, 1.0)
        low, high = self._control.residuals(self._forecasts[at:])
        return Draw(float(self._forecasts[at]), self._forecast_left / left, low, high)

    def take(self, value: float) -> None:
        """Add the value of the next draw."""
        at = self._n_seen
        self._values[at] = value
        if len(self._forecasts):
            self._forecast_left -= float(self._weights[at] * self._forecasts[at])
        self._n_seen += 1

    @property
    def is_forecasting(self) -> bool:
        """Whether there were forecasts for the last draw."""
        return len(self._forecasts) > 0

    @property
    def bounds_left(self) -> tuple[float, float]:
        """What the values that are left add to the mean of all, at least and at most."""
        weights = self._weights[self._n_seen :]
        left = float(weights.sum())
        known = 0.0 if self._control.known is None else float(weights @ self._control.known[self._n_seen :])
        return known + self._control.low * left, known + self._control.high * left
