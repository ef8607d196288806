"""An alarm for a change of an unknown mean: it needs no baseline, and still bounds the rate of false alarms.

The null hypothesis is that every value has the same conditional mean given the values before it, an unknown number in
[0, 1]. For each cell [a, b] of a grid of means, two detectors (`e_detector`) run side by side: one bets that the mean
is below a, the other that it is above b. Let M be the average of their evidence. If the mean lies in the cell, M_t - t
is a supermartingale, so M reaches A within n values with a probability of at most n / A. A cell whose M has reached A
is refuted, and the alarm is raised when all cells are. Since this includes the cell of the true mean, a false alarm
within n values has a probability of at most n / A, too. Before a change, the values refute all means but their own;
after it, they refute their former mean.

Values have to be in [0, 1]. They may depend on each other in any way that leaves the conditional mean the same.

Source: Shekhar and Ramdas 2023, "Reducing sequential change detection to sequential estimation" (arXiv 2309.09111),
whose detector stops when confidence sequences that begin at each value have no mean in common; the sequences are those
of the e-detectors of Shin, Ramdas and Rinaldo 2022 (arXiv 2203.03532).
"""

import math
from collections.abc import Sequence

import numpy as np

from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.e_detector import BETS, Change, log_evidence

CELLS = 100  # narrow near 0 and 1, where the mean of a share is known best: from 0.0002 to 0.016 wide
AT_ONCE = 500  # values whose evidence is computed together: 2 x 100 x 500 x 6 numbers
GRID = np.sin(np.linspace(0.0, math.pi / 2, CELLS + 1)) ** 2
GRID[-1] = 1.0


class MeanChangeDetector:
    """Watches one stream of values in [0, 1]; values may come in blocks of any size, with the same results."""

    def __init__(self, threshold: float) -> None:
        """Begin with nothing seen. threshold: A; see `e_detector.threshold_of`. Raises: UsageError for 1 or less."""
        if threshold <= 1:
            raise UsageError(f"the threshold is {threshold}; expected more than 1")
        self.threshold = threshold
        # the first half of the rows bets against means of at least the lower ends, the second against means of at most
        # the upper ends: 1 - x has a mean of at least 1 - b
        self._bounds = np.concatenate([GRID[:-1], 1 - GRID[1:]])
        self.restart()

    def restart(self) -> None:
        """Forget all values."""
        self._logs = np.full((2 * CELLS, len(BETS)), -np.inf)
        self._peaks = np.full(CELLS, -np.inf)  # log of the largest M of each cell so far
        self.n_seen = 0

    @property
    def evidence(self) -> float:
        """The largest M so far of the least refuted cell: the alarm is raised when it reaches the threshold."""
        return math.exp(min(float(self._peaks.min()), 700.0))

    @property
    def state(self) -> Floats:
        """The state from which `resume` continues. Shape: [cells + 2 x cells x bets]."""
        return np.concatenate([self._peaks, self._logs.ravel()])

    def resume(self, state: Floats, n_seen: int) -> None:
        """Go on after `n_seen` values with their `state`. Raises: UsageError for a state of another size."""
        array = np.asarray(state, dtype=np.float64)
        if array.shape != (CELLS * (1 + 2 * len(BETS)),):
            raise UsageError(f"a state has the shape {array.shape}; expected {CELLS * (1 + 2 * len(BETS))} numbers")
        self._peaks, self._logs = array[:CELLS].copy(), array[CELLS:].reshape(2 * CELLS, len(BETS)).copy()
        self.n_seen = n_seen

    def add(self, values: Sequence[float] | Floats) -> int | None:
        """Add the next values; return the position of the one that raises the alarm, from 0 since the last restart.

        Values after it are not counted. Shape: [t]. Raises: UsageError for a value outside of [0, 1].
        """
        array = np.asarray(values, dtype=np.float64)
        for start in range(0, len(array), AT_ONCE):
            block = array[start : start + AT_ONCE]
            both = np.concatenate([np.tile(block, (CELLS, 1)), np.tile(1 - block, (CELLS, 1))])
            logs = log_evidence(both, self._bounds, self._logs)  # [2 x cells, t, bets]
            together = np.concatenate([logs[:CELLS], logs[CELLS:]], axis=-1)
            peak = together.max(axis=-1)
            totals = peak + np.log(np.exp(together - peak[..., None]).mean(axis=-1))  # [cells, t]
            largest = np.maximum(np.maximum.accumulate(totals, axis=1), self._peaks[:, None])
            over = np.flatnonzero(largest.min(axis=0) >= math.log(self.threshold))
            n_counted = int(over[0]) + 1 if over.size else len(block)
            self._logs, self._peaks = logs[:, n_counted - 1], largest[:, n_counted - 1]
            self.n_seen += n_counted
            if over.size:
                return self.n_seen - 1
        return None


def change_point(values: Sequence[float] | Floats, evidence: float) -> Change:
    """Return where values most likely change, given that they do: the split with the largest squared difference.

    values: up to the one that raised the alarm, at least two. Shape: [t]. evidence: at the alarm.

    Raises: UsageError for fewer values.
    Source: the maximum of k (n - k) / n (mean after - mean before)² over k, that of least squares (Hinkley 1970).
    """
    array = np.asarray(values, dtype=np.float64)
    n = len(array)
    if n < 2:
        raise UsageError(f"{n} values; a change needs at least two")
    sums, before = np.cumsum(array), np.arange(1, n)
    means_before = sums[:-1] / before
    means_after = (sums[-1] - sums[:-1]) / (n - before)
    split = int(np.argmax(before * (n - before) * (means_after - means_before) ** 2)) + 1
    before_it, after_it = float(means_before[split - 1]), float(means_after[split - 1])
    return Change(n - 1, evidence, split, after_it, before_it, after_it < before_it)
