"""Logistic regression on one number, against statsmodels."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.logistic import logistic_slope


def drawn(n: int, seed: int) -> tuple[list[float], list[float], list[int]]:
    """Return numbers, wins with intercept -0.4 and slope 0.7, and clusters of three with an effect of their own."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 2, n)
    clusters = np.arange(n) // 3
    effect = rng.normal(0, 1, clusters.max() + 1)[clusters]
    wins = rng.random(n) < 1 / (1 + np.exp(-(-0.4 + 0.7 * x + effect)))
    return list(x), list(wins.astype(float)), list(clusters)


@pytest.mark.parametrize("n", [30, 300])
def test_slope_and_clustered_interval_are_statsmodels(n: int) -> None:
    """Coefficients to 1e-8; the clustered standard error is the same up to the small-sample factor."""
    statsmodels = pytest.importorskip("statsmodels.api")
    x, wins, clusters = drawn(n, n)
    fitted = statsmodels.Logit(wins, statsmodels.add_constant(np.array(x))).fit(
        disp=0, cov_type="cluster", cov_kwds={"groups": np.array(clusters), "use_correction": False}, tol=1e-12
    )
    result = logistic_slope(x, wins, clusters)
    assert result.value is not None
    assert result.low is not None
    assert result.value == pytest.approx(fitted.params[1], abs=1e-8)
    assert result.intercept == pytest.approx(fitted.params[0], abs=1e-8)
    count = len(set(clusters))
    expected = fitted.bse[1] * np.sqrt(count / (count - 1))
    assert (result.value - result.low) / 1.959963985 == pytest.approx(expected, rel=1e-6)


def test_what_cannot_be_estimated_is_undefined() -> None:
    """No spread, one outcome only, separation, too few; unequal counts are an error."""
    for x, wins in (([1.0] * 9, [0.0, 1.0, 1.0] * 3), ([1.0, 2.0, 3.0], [1.0] * 3), ([1.0, 2.0], [0.0, 1.0]),
                    ([float(n) for n in range(20)], [0.0] * 10 + [1.0] * 10)):  # fmt: skip
        result = logistic_slope(x, wins)
        assert (result.value, result.low, result.high) == (None, None, None)
    with pytest.raises(DataError):
        logistic_slope([1.0], [1.0, 0.0])


def test_one_cluster_has_no_interval() -> None:
    """The slope is there, its interval is not."""
    x, wins, _ = drawn(40, 1)
    result = logistic_slope(x, wins, [0] * 40)
    assert result.value is not None
    assert result.low is None
