"""Bets that are sized so that an interval has its half-width at one time, as early as that can be.

Whoever wants to know a mean to within a half-width needs nothing refuted before the time when the values seen suffice
for it. So most of the capital is bet as someone does who has to reach a sum by a deadline: with the log of the sum
still to be gained, c, and the variance of the bets that remain, V, the bet is phi(z) / (1 - Phi(z)) / sqrt(V), with z
from 1 - Phi(z) = exp(-c). For normal values it reaches the sum exactly where the test of that fixed size rejects, which
no other bet does sooner. The rest of the capital is bet on the half-width at every time, so that the interval is narrow
before the deadline, and goes on after it. Bets follow from earlier values alone, so the interval is valid at any time.

Source: Browne 1999, "Reaching goals by a deadline: digital options and continuous-time active portfolio management",
Advances in Applied Probability 31, 551-577; Voracek and Orabona 2025, "STaR-Bets: sequential target-recalculating bets
for tighter confidence intervals" (arXiv 2505.22422), for bounded values of a fixed number.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import normal_quantile

SHARES = (0.8, 0.2)  # of the capital: towards the deadline, and on the half-width at every time
SLACK = 0.97  # of the half-width is planned for, since variance and mean are estimates and means are tested in steps
LEAST_REMAINING = 0.003  # of the whole information: bets do not grow further in the last steps, nor after the deadline
MOST_CHANGE = 4.0  # of the variance, between the mean so far and a tested one
MOST_LOG = 60.0  # of what is to be gained; bets on more are those on this


@dataclass(frozen=True, slots=True)
class Moments:
    """What is known of a sequence's values before a draw. Shapes: [orders].

    mean: of the values so far.
    variance: of those to come, as far as the latest ones say.
    bounds: of the next value, the least and the largest.
    information: the sum of c^2 of the draws so far, c being one over the share left before a draw.
    squares: the sum of c^2 e^2, e being a value's distance from the mean before it.
    """

    mean: Floats
    variance: Floats
    bounds: tuple[Floats, Floats]
    information: Floats
    squares: Floats


class DeadlineBets:
    """Sizes of the bets of a sequence that is to have an interval of a half-width."""

    def __init__(self, half_width: float, log_needed: float) -> None:
        """Plan for an interval.

        Args:
            half_width: of the interval that is wanted, in units of the values.
            log_needed: the log of the capital that refutes a mean.
        """
        self._half_width, self._log_needed = half_width, log_needed
        self._z = normal_quantile(1.0 - SHARES[0] * math.exp(-log_needed))

    def information(self, moments: Moments) -> Floats:
        """Return the sum of squared weights of draws at which the half-width is expected. Shape: [orders].

        A draw's weight c is one over the share left before it, the weight of its value in the bets. With the variance V
        of the values to come, the half-width after further draws is z sqrt(sum c^2 e^2 so far + V sum c^2 to come) over
        the sum of all c^2; this is solved for that sum.
        """
        width = SLACK * self._half_width / self._z
        mean = moments.mean
        ends = np.stack([mean - self._half_width, mean + self._half_width])
        variance = moments.variance * _change(ends, mean, moments.bounds).max(axis=0)
        excess = moments.squares - variance * moments.information
        under = np.maximum(variance**2 + 4 * width**2 * excess, 0.0)
        needed: Floats = (variance + np.sqrt(under)) / (2 * width**2)
        return needed

    def scales(self, possible: Floats, moments: Moments, left: Floats) -> tuple[Floats, Floats]:
        """Return the sizes of both bets before a draw, of the first without what its capital says.

        Shapes: [orders, means], [orders] -> [orders, means] twice.

        Args:
            possible: the expectation of the next value under each mean.
            moments: of the values so far.
            left: the share that is left.
        """
        # of values with two outcomes the variance follows from the mean, so that a tested mean has its own
        low, high = moments.bounds
        own = moments.variance[:, None] * _change(possible, moments.mean[:, None], (low[:, None], high[:, None]))
        whole = self.information(moments)
        remaining = np.maximum(whole - moments.information, LEAST_REMAINING * whole)[:, None]
        return 1 / (left[:, None] * np.sqrt(own * remaining)), self._half_width / (own * left[:, None])

    def sizes(self, capitals: Floats, scales: tuple[Floats, Floats]) -> Floats:
        """Return the sizes of the bets. Shapes: [2, orders, means] of logs of both parts of the capital -> the same."""
        others = np.minimum(np.exp(np.minimum(capitals[1] - self._log_needed, 0.0)), 0.999)
        to_gain = self._log_needed + np.log1p(-others) - capitals[0]
        # phi(z) / (1 - Phi(z)), by a table
        hazard: Floats = np.interp(to_gain, *_hazards())
        return np.stack([hazard * scales[0], scales[1]])


def _change(means: Floats, mean: Floats, bounds: tuple[Floats, Floats]) -> Floats:
    """Return by what factor the variance of values between two bounds differs where their mean does."""
    low, high = bounds
    now = np.maximum((high - mean) * (mean - low), 1e-6)
    change: Floats = np.clip((high - means) * (means - low) / now, 1 / MOST_CHANGE, MOST_CHANGE)
    return change


@cache
def _hazards() -> tuple[Floats, Floats]:
    """Return logs of gains c and phi(z) / (1 - Phi(z)) at 1 - Phi(z) = exp(-c)."""
    gains = np.concatenate([np.linspace(0.0005, 2.0, 400), np.linspace(2.05, MOST_LOG, 1160)])
    z = np.array([-normal_quantile(math.exp(-gain)) for gain in gains])
    return gains, np.exp(gains - z**2 / 2) / math.sqrt(2 * math.pi)
