"""One-sided tests of whether the mean of differences is above zero: Student's t test and the sign test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.distributions import binomial_sf, t_sf
from assaymark.statistics.intervals import as_floats

__all__ = ["LocationTest", "mean_above_zero", "sign_test_above_zero"]


@dataclass(frozen=True, slots=True)
class LocationTest:
    """Result of a one-sided test of differences, whose mean is zero under the null hypothesis."""

    statistic: float
    p: float  # probability of a statistic at least as large
    n: int
    mean: float


def mean_above_zero(differences: Sequence[float] | NDArray[Any]) -> LocationTest:
    """Test mean(d) > 0 by t = mean(d) / (sd(d) / √n), referred to Student's t with n - 1 degrees of freedom.

    If all differences are equal there is no spread: p is 2^-n if they are positive (each sign being equally likely),
    else 1.

    Raises: DataError for fewer than two differences.
    Source: Student 1908; used so on shards by Oren et al. 2023 (arXiv 2310.17623), section 3.
    """
    values = as_floats(differences, "differences")
    n = len(values)
    if n < 2:
        raise DataError(f"{n} difference; a t test needs at least 2")
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    if spread <= 1e-12 * max(1.0, abs(mean)):
        return LocationTest(0.0 if mean == 0 else math.copysign(math.inf, mean), 0.5**n if mean > 0 else 1.0, n, mean)
    t = mean / (spread / math.sqrt(n))
    return LocationTest(t, t_sf(t, n - 1), n, mean)


def sign_test_above_zero(differences: Sequence[float] | NDArray[Any]) -> LocationTest:
    """Test exactly whether more than half of the differences are positive; zeros are excluded.

    The statistic is the share of positive ones. Source: Arbuthnot 1710; Conover 1999, section 3.4.
    """
    values = as_floats(differences, "differences")
    positive, n = int((values > 0).sum()), int((values != 0).sum())
    if n == 0:
        return LocationTest(0.5, 1.0, 0, 0.0)
    return LocationTest(positive / n, min(1.0, binomial_sf(positive, n, 0.5)), n, float(values.mean()))
