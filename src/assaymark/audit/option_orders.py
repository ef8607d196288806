"""Position bias: every sample is evaluated once in each cyclic order of its options."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.statistics.distributions import chi_square_sf
from assaymark.statistics.intervals import wilson

__all__ = ["OptionOrders", "option_orders"]


NO_SPREAD = 1e-9  # keeps the covariance invertible where all samples are alike


@dataclass(frozen=True, slots=True)
class OptionOrders:
    """Results over all cyclic orders."""

    n: int  # samples
    accuracy: float  # mean over orders
    by_shift: tuple[float, ...]  # accuracy with the options rotated by 0, 1, ...; over samples with that many options
    circular_accuracy: float  # share of samples that are correct in every order
    circular_low: float
    circular_high: float
    circular_if_independent: float  # circular accuracy expected if orders were independent
    consistency: float  # share of samples with the same option picked in every order
    picked_share: tuple[float, ...]  # of each position, over samples with the most common number of options
    position_p: float | None  # chi-square test of those shares against equal ones


def option_orders(picks: Sequence[Sequence[int]], golds: Sequence[frozenset[int]]) -> OptionOrders:
    """Summarise picks in all cyclic orders.

    Args:
        picks: for each sample, the position picked under each shift; as many as the sample has options.
        golds: for each sample, the correct options in the file's order.

    Source: CircularEval (Liu et al. 2023, MMBench); position profile after Pezeshkpour and Hruschka 2023.
    """
    originals = [[(position - shift) % len(row) for shift, position in enumerate(row)] for row in picks]
    right = [np.array([pick in gold for pick in row]) for row, gold in zip(originals, golds, strict=True)]
    n = len(picks)
    most = max(len(row) for row in picks)
    by_shift = tuple(float(np.mean([row[shift] for row in right if shift < len(row)])) for shift in range(most))
    accuracy = float(np.mean([row.mean() for row in right]))
    all_right = int(sum(bool(row.all()) for row in right))
    interval = wilson(all_right, n)
    shares, p = _positions(picks)
    return OptionOrders(
        n=n,
        accuracy=accuracy,
        by_shift=by_shift,
        circular_accuracy=all_right / n,
        circular_low=interval.low,
        circular_high=interval.high,
        circular_if_independent=float(np.mean([accuracy ** len(row) for row in picks])),
        consistency=float(np.mean([len(set(row)) == 1 for row in originals])),
        picked_share=shares,
        position_p=p,
    )


def _positions(picks: Sequence[Sequence[int]]) -> tuple[tuple[float, ...], float | None]:
    """Return how often each position is picked, and p of the hypothesis of equal shares.

    Without position bias, a sample's picks over its cyclic orders are spread evenly over the positions, whatever the
    model knows. So each sample's counts are averaged first, and samples are the units of the test.
    """
    sizes = [len(row) for row in picks]
    usual = max(set(sizes), key=sizes.count)
    shares = np.array([np.bincount(row, minlength=usual) / usual for row in picks if len(row) == usual])
    mean = shares.mean(axis=0)
    n = len(shares)
    if n <= usual:
        return tuple(mean.tolist()), None
    deviation = (mean - 1.0 / usual)[:-1]  # the last share follows from the others
    covariance = np.atleast_2d(np.cov(shares[:, :-1], rowvar=False)) / n + NO_SPREAD * np.eye(usual - 1)
    statistic = float(deviation @ np.linalg.solve(covariance, deviation))
    return tuple(mean.tolist()), chi_square_sf(statistic, usual - 1)
