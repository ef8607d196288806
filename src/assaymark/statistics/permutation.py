"""Sign-flip permutation test: if A and B are equivalent, each difference is equally likely to have either sign.

The test assumes nothing else about the scores. With few differences every assignment of signs is counted, with many a
seeded sample of them. All differences of a cluster flip together.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.estimate import cluster_sums
from assaymark.statistics.intervals import as_floats

EXACT_UP_TO = 14  # differences: 16,384 assignments are counted rather than sampled
_SIGNS_AT_ONCE = 4_000_000


def sign_flip_p(
    differences: Sequence[float] | NDArray[Any],
    *,
    clusters: Sequence[Hashable] | NDArray[Any] | None = None,
    draws: int = 10_000,
    name: Sequence[object] = (),
) -> float:
    """Return the two-sided p of the sum of differences under random signs.

    (1 + #{|T*| >= |T|}) / (draws + 1), or the exact share if at most `EXACT_UP_TO` differences are not zero. If all are
    zero, p is 1.

    Source: Fisher 1935; the +1 after Phipson and Smyth 2010, so that p is never 0.
    """
    values = as_floats(differences, "differences")
    units = values if clusters is None else cluster_sums(values, clusters)
    units = units[units != 0.0]
    if len(units) == 0:
        return 1.0
    limit = abs(float(units.sum())) - 1e-9 * float(np.abs(units).sum())
    if len(units) <= EXACT_UP_TO:
        return float((np.abs(_all_sums(units)) >= limit).mean())
    return (1 + _count_extreme(units, limit, draws, name)) / (draws + 1)


def _all_sums(units: Floats) -> Floats:
    """Return the sum under every assignment of signs. Shapes: result [2^n]."""
    sums = np.zeros(1)
    for unit in units:
        sums = np.concatenate([sums + unit, sums - unit])
    return sums


def _count_extreme(units: Floats, limit: float, draws: int, name: Sequence[object]) -> int:
    generator = generator_for("sign flip", *name)
    rows = max(1, min(draws, _SIGNS_AT_ONCE // len(units)))
    count = 0
    for start in range(0, draws, rows):
        size = min(rows, draws - start)
        bits = np.frombuffer(generator.bytes(size * ((len(units) + 7) // 8)), dtype=np.uint8).reshape(size, -1)
        signs = np.unpackbits(bits, axis=1, count=len(units)).astype(np.float64) * 2.0 - 1.0  # [rows, n]
        count += int((np.abs(signs @ units) >= limit).sum())
    return count
