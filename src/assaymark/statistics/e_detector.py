"""An alarm for a stream of values in [0, 1]: false ones are bounded, however long it runs and whatever the dependence.

Without a change each value's mean, whatever came before it, is at least m0. A bet of lambda against that multiplies its
capital by L = 1 + lambda (m0 - X), whose mean is at most 1; a new bet of 1 begins at each value, so that together
they have M_t = L (M_{t-1} + 1), and M_t - t is a supermartingale. The alarm is raised when M, averaged over several
lambda, reaches A. So the mean time to a false alarm is at least A, and one within n values has a probability of at
most n / A. Against changes in both directions M is the average of those of X and of 1 - X.

Source: Shin, Ramdas and Rinaldo 2022, "E-detectors: a nonparametric framework for sequential change detection"
(arXiv 2203.03532), whose e-SR procedure this is; definition 2.2 and theorem 2.4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import beta_quantile
from assaymark.statistics.intervals import Interval, as_floats, clopper_pearson

BETS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # shares of the capital at risk, over 1 - m0
MEANS = 1001  # that are tested for the bound of a mean
LEAST_ROOM = 1e-6  # between m0 and 1: a bound of 1 would be refuted by nothing but a rounding error


def threshold_of(n: int, alpha: float, n_metrics: int = 1) -> float:
    """Return A, so that a false alarm of any of K metrics within n values of each has a probability of at most alpha.

    Raises: UsageError.
    """
    if n < 1 or not 0 < alpha < 1 or n_metrics < 1:
        raise UsageError(
            f"{alpha} false alarms in {n} values of {n_metrics} metrics; expected a share between 0 and 1, and at "
            "least one value and one metric"
        )
    return n_metrics * n / alpha


def baseline_of(values: Sequence[float] | Floats, confidence: float = 0.95) -> Interval:
    """Return an interval for the mean of values in [0, 1] that needs no large number of them.

    Of zeros and ones it is Clopper and Pearson's. Of others a mean m is refuted where a bet upwards or one downwards
    against it has ever reached 2 / (1 - confidence) (Ville; Waudby-Smith and Ramdas 2024), which needs no distribution.

    Raises: DataError without values; UsageError for one outside of [0, 1].
    """
    array = as_floats(values, "the values of the baseline")
    _check_range(array)
    if np.isin(array, (0.0, 1.0)).all():
        return clopper_pearson(int(array.sum()), len(array), confidence)
    means = np.linspace(0.0, 1.0, MEANS)[1:-1]
    needed = math.log(2 / (1 - confidence))
    upwards = _largest_capital(array, means)
    downwards = _largest_capital(1 - array, 1 - means)
    low = means[upwards >= needed].max(initial=0.0)
    high = means[downwards >= needed].min(initial=1.0)
    return Interval(float(low), float(high))


def _largest_capital(array: Floats, means: Floats) -> Floats:
    """Return the log of the largest capital of bets that the mean is above each of `means`. Shapes: [n], [m] -> [m]."""
    logs = np.zeros((len(BETS), len(means)))
    largest = np.full(len(means), -np.inf)
    stakes = np.array(BETS)[:, None] / means
    for value in array:
        logs += np.log1p(stakes * (value - means))
        peak = logs.max(axis=0)
        largest = np.maximum(largest, peak + np.log(np.exp(logs - peak).mean(axis=0)))
    return largest


def quantile_baseline(
    values: Sequence[float] | Floats, share: float = 0.9, confidence: float = 0.95
) -> tuple[float, Interval]:
    """Return a quantile of values of any size, and an interval for the share of later values that do not exceed it.

    For costs and latencies, which have no upper bound: their detector watches the share up to the quantile. The
    k-th smallest of n values of a continuous distribution has a share below it that is Beta(k, n - k + 1), so the
    interval is exact although the quantile is of the same values; with ties it is too wide.

    Raises: DataError without values.
    """
    ordered = np.sort(as_floats(values, "the values of the baseline"))
    n = len(ordered)
    k = min(max(math.ceil(share * n), 1), n)
    tail = (1 - confidence) / 2
    return float(ordered[k - 1]), Interval(beta_quantile(tail, k, n - k + 1), beta_quantile(1 - tail, k, n - k + 1))


def log_evidence(values: Floats, m0: float | Floats, before: Floats | None = None) -> Floats:
    """Return the logs of M after each value, for each bet.

    Args:
        values: in [0, 1]. Shapes: [t], or [streams, t].
        m0: the mean is at least this without a change, in [0, 1). Shape: [streams], or one for all.
        before: those after the values that came before. Shapes: [bets], or [streams, bets]; None: nothing came before.

    Returns: shape [t, bets], or [streams, t, bets].

    Raises: UsageError for m0 or a value outside of its range.
    """
    if not (np.all(np.asarray(m0) >= 0) and np.all(np.asarray(m0) < 1)):
        raise UsageError(f"the bound of the mean is {m0}; expected a number of at least 0 and below 1")
    array = np.asarray(values, dtype=np.float64)
    _check_range(array)
    bounds = np.asarray(m0, dtype=np.float64)[..., None, None]
    steps = np.log1p(np.array(BETS) / (1 - bounds) * (bounds - array[..., None]))
    capital = np.cumsum(steps, axis=-2)
    # M_t = P_t (M_0 + 1/P_0 + ... + 1/P_{t-1}), where P is the product of the L so far and P_0 = 1
    inverse = np.concatenate([np.zeros_like(capital[..., :1, :]), -capital[..., :-1, :]], axis=-2)
    if before is not None and inverse.shape[-2]:
        inverse[..., 0, :] = np.logaddexp(inverse[..., 0, :], before)
    return np.asarray(capital + np.logaddexp.accumulate(inverse, axis=-2))


@dataclass(frozen=True, slots=True)
class Change:
    """An alarm. since: position among all values since the last restart at which the change most likely began."""

    position: int  # of the value that raised it, from 0 since the last restart
    evidence: float  # M; at least the threshold
    since: int
    mean: float  # of the values from `since` to the alarm
    mean_before: float | None  # of those before; None where there are none
    is_drop: bool


class Detector:
    """Watches one stream of values in [0, 1]; values may come in blocks of any size, with the same results.

    Raises: UsageError for a bound outside of (0, 1), or values outside of [0, 1].
    """

    def __init__(self, bounds: Interval, threshold: float, *, two_sided: bool = False) -> None:
        """Begin with nothing seen.

        Args:
            bounds: of the mean without a change; its high end is used with `two_sided` only. A bound of 0 or 1, which
                nothing could cross, is moved inwards by `LEAST_ROOM`.
            threshold: A; see `threshold_of`.
            two_sided: whether a rise above the high end is a change too.
        """
        if not (0 <= bounds.low <= bounds.high <= 1 and threshold > 1):
            raise UsageError(f"bounds {bounds.low} to {bounds.high}, threshold {threshold}; expected 0 to 1, and > 1")
        ends = [bounds.low, 1 - bounds.high] if two_sided else [bounds.low]
        self._m0 = [min(max(end, LEAST_ROOM), 1 - LEAST_ROOM) for end in ends]
        self.threshold = threshold
        self.restart()

    def restart(self) -> None:
        """Forget all values: after an alarm, or if their measurement has changed."""
        self._logs = [np.full(len(BETS), -np.inf) for _ in self._m0]
        self._values: list[Floats] = []
        self.n_seen = 0
        self.evidence = 0.0  # M after the last value

    @property
    def state(self) -> Floats:
        """The logs of M of all bets, from which `resume` goes on. Shape: [sides times bets]."""
        return np.concatenate(self._logs)

    def resume(self, state: Floats, n_seen: int) -> None:
        """Go on after `n_seen` values with their `state`; a change is then dated within the values that follow."""
        self.restart()
        self._logs = list(np.asarray(state, dtype=np.float64).reshape(len(self._m0), len(BETS)))
        self.n_seen = n_seen

    def add(self, values: Sequence[float] | Floats) -> Change | None:
        """Add the next values. Values after one that raises the alarm are not counted. Shape: [t]."""
        array = np.asarray(values, dtype=np.float64)
        if not array.size:
            return None
        sides = [array, 1 - array][: len(self._m0)]
        logs = [log_evidence(side, m0, before) for side, m0, before in zip(sides, self._m0, self._logs, strict=True)]
        together = np.concatenate(logs, axis=-1)
        peak = together.max(axis=-1)
        totals = peak + np.log(np.exp(together - peak[:, None]).mean(axis=-1))
        over = np.flatnonzero(totals >= math.log(self.threshold))
        n_counted = int(over[0]) + 1 if over.size else len(array)
        self._values.append(array[:n_counted])
        self._logs = [each[n_counted - 1] for each in logs]
        self.n_seen += n_counted
        self.evidence = math.exp(min(float(totals[n_counted - 1]), 700.0))
        return self._change() if over.size else None

    def _change(self) -> Change:
        seen = np.concatenate(self._values)
        side = int(np.argmax([float(np.max(logs)) for logs in self._logs]))
        logs = self._logs[side]
        m0, values = self._m0[side], seen if side == 0 else 1 - seen
        stake = BETS[int(np.argmax(logs))] / (1 - m0)
        capital = np.concatenate([[0.0], np.cumsum(np.log1p(stake * (m0 - values)))])
        since = int(np.argmin(capital[:-1]))  # the bet that began there has won most
        before = float(seen[:since].mean()) if since else None
        return Change(self.n_seen - 1, self.evidence, since, float(seen[since:].mean()), before, side == 0)


def _check_range(array: Floats) -> None:
    if array.size and not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
        raise UsageError(
            f"values from {array.min():.6g} to {array.max():.6g}; expected 0 to 1 (divide by their bound first)"
        )
