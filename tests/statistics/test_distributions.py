"""Tails and quantiles against scipy."""

import numpy as np
import pytest

from assaymark.statistics import distributions as d


def test_beta_and_t_equal_scipy_over_a_wide_grid() -> None:
    """Incomplete beta and its quantile, t and its quantile agree with scipy to 1e-8 or better."""
    st = pytest.importorskip("scipy.stats")
    for a in (0.5, 1, 3, 40, 5000):
        for b in (0.5, 2, 17, 900):
            for x in (1e-9, 0.01, 0.3, 0.5, 0.97, 1 - 1e-9):
                assert d.beta_cdf(x, a, b) == pytest.approx(st.beta.cdf(x, a, b), rel=1e-10, abs=1e-300)
            for p in (0.001, 0.025, 0.5, 0.975):
                assert d.beta_quantile(p, a, b) == pytest.approx(st.beta.ppf(p, a, b), rel=1e-9, abs=1e-15)
    for df in (1, 2.5, 9, 300, 1e6):
        for t in (-8, -1.2, 0, 0.3, 5):
            assert d.t_cdf(t, df) == pytest.approx(st.t.cdf(t, df), rel=1e-8)
        for p in (0.001, 0.2, 0.5, 0.9, 0.975, 0.9999):
            assert d.t_quantile(p, df) == pytest.approx(st.t.ppf(p, df), rel=1e-8, abs=1e-12)


def test_binomial_tails_equal_scipy() -> None:
    """P(X >= k) and P(X = k) agree with scipy, the ends included."""
    st = pytest.importorskip("scipy.stats")
    for n in (1, 7, 100, 20_000):
        for k in sorted({-1, 0, 1, n // 2, n - 1, n, n + 1}):
            for p in (0.1, 0.5, 0.99):
                assert d.binomial_sf(k, n, p) == pytest.approx(st.binom.sf(k - 1, n, p), rel=1e-9, abs=1e-280)
                assert d.binomial_pmf(k, n, p) == pytest.approx(st.binom.pmf(k, n, p), rel=1e-9, abs=1e-280)


def test_the_normal_is_its_own_inverse() -> None:
    """Quantile and distribution function are inverse; 95% is 1.96 standard errors."""
    for p in np.linspace(0.0005, 0.9995, 21):
        assert d.normal_cdf(d.normal_quantile(float(p))) == pytest.approx(p, rel=1e-12)
    assert d.two_sided_z(0.95) == pytest.approx(1.959963984540054)


def test_certain_trials_are_certain() -> None:
    """With probability 0 or 1 all mass is at one end."""
    assert [d.binomial_pmf(k, 3, 0.0) for k in range(4)] == [1.0, 0.0, 0.0, 0.0]
    assert [d.binomial_pmf(k, 3, 1.0) for k in range(4)] == [0.0, 0.0, 0.0, 1.0]


def test_chi_square_tails_equal_scipy() -> None:
    """P(X > x) agrees with scipy from the middle far into the tail; nothing is beyond a statistic of 0."""
    st = pytest.importorskip("scipy.stats")
    for df in (1, 2, 3.5, 10, 400):
        for x in (1e-6, 0.1, 2.0, 9.0, 40.0, 500.0):
            assert d.chi_square_sf(x, df) == pytest.approx(st.chi2.sf(x, df), rel=1e-9, abs=1e-15)
    assert d.chi_square_sf(0.0, 3) == 1.0
