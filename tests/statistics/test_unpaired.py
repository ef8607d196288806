"""Independent shares and means against published examples and statsmodels."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.distributions import binomial_pmf
from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.groups import compare_means, compare_shares, compare_with_claim

NEWCOMBE = [
    ((56, 70, 48, 80), (0.0524, 0.3339)),
    ((9, 10, 3, 10), (0.1705, 0.8090)),
    ((6, 7, 2, 7), (0.0582, 0.8062)),
    ((5, 56, 0, 29), (-0.0381, 0.1926)),
]


@pytest.mark.parametrize(("counts", "published"), NEWCOMBE)
def test_newcombes_published_examples(counts: tuple[int, int, int, int], published: tuple[float, float]) -> None:
    """Newcombe 1998, table II, method 10: four of its examples to the four digits printed."""
    right_b, n_b, right_a, n_a = counts
    result = compare_shares(right_a, n_a, right_b, n_b)
    assert (round(result.low, 4), round(result.high, 4)) == published


def test_interval_and_p_equal_statsmodels() -> None:
    """Interval and pooled test are statsmodels' for several counts."""
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    for a, n, b, m in ((30, 100, 45, 110), (3, 20, 0, 15), (500, 1000, 520, 1000)):
        result = compare_shares(a, n, b, m)
        low, high = proportion.confint_proportions_2indep(b, m, a, n, method="newcomb")
        assert (result.low, result.high) == pytest.approx((low, high), abs=1e-9)
        assert result.p == pytest.approx(proportion.proportions_ztest([a, b], [n, m])[1], rel=1e-9)


def test_extreme_shares_do_not_make_a_point() -> None:
    """0 of 20 against 0 of 20 has an interval, and p = 1."""
    result = compare_shares(0, 20, 0, 20)
    assert result.low < -0.1
    assert result.high > 0.1
    assert result.p == 1.0


def test_exact_coverage() -> None:
    """Summed over all outcomes of 20 and 30 samples the interval covers the difference about 95% of the time."""
    for p_a, p_b in ((0.1, 0.1), (0.5, 0.7), (0.9, 0.6)):
        covered = 0.0
        for a in range(21):
            for b in range(31):
                result = compare_shares(a, 20, b, 30)
                if result.low <= p_b - p_a <= result.high:
                    covered += binomial_pmf(a, 20, p_a) * binomial_pmf(b, 30, p_b)
        assert 0.93 < covered < 0.98


def test_welch_equals_scipy() -> None:
    """Difference, interval and p of unequal groups are scipy's."""
    st = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 30), rng.normal(0.4, 2, 50)
    result, theirs = compare_means(a, b), st.ttest_ind(b, a, equal_var=False)
    assert result.p == pytest.approx(theirs.pvalue, rel=1e-8)
    assert (result.low, result.high) == pytest.approx(tuple(theirs.confidence_interval()), rel=1e-8)
    with pytest.raises(DataError, match="all scores are equal"):
        compare_means(np.ones(3), np.ones(3))
    with pytest.raises(DataError, match="at least 2"):
        compare_means(np.ones(1), np.ones(3))


def test_a_published_claim_is_compared_as_independent() -> None:
    """Our 37 of 100 against a claimed 32.8% of 1,172: +4.2 points, not significant; percent is refused."""
    ours = estimate_mean([1] * 37 + [0] * 63)
    result = compare_with_claim(ours, 0.328, 1172)
    assert result.difference == pytest.approx(0.37 - 384 / 1172)
    assert result.low < 0 < result.high
    assert result.p > 0.3
    with pytest.raises(DataError, match="not percent"):
        compare_with_claim(ours, 32.8, 1172)


def test_dependent_answers_count_less_beside_a_claim() -> None:
    """Ten passages, all ten questions of each right or wrong: no more evidence than some ten answers."""
    answers, passages = [1] * 40 + [0] * 60, np.repeat(np.arange(10), 10)
    alone, dependent = (estimate_mean(answers, clusters=each) for each in (None, passages))
    assert compare_with_claim(alone, 0.6, 10_000).p < 0.001
    result = compare_with_claim(dependent, 0.6, 10_000)
    assert result.p > 0.1
    assert result.low < 0 < result.high
