"""Agreement of grades, against scipy and statsmodels."""

import numpy as np
import pytest
from scipy import stats

from assaymark.errors import DataError
from assaymark.statistics.agreement import cohen_kappa
from assaymark.statistics.grade_agreement import MOST_POINTS, grade_agreement


def grades(n: int, seed: int, *, whole: bool = True) -> tuple[list[float], list[float]]:
    """Return two raters' grades from 1 to 10 of n answers of different quality."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(6, 2, n)
    both = [np.clip(quality + rng.normal(shift, 1.5, n), 1, 10) for shift in (0.7, 0.0)]
    first, second = (list(np.round(each) if whole else each) for each in both)
    return first, second


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("n", [3, 40, 700])
def test_coefficients_are_scipys(n: int, whole: bool) -> None:
    """Pearson, Spearman and Kendall's tau-b to 1e-12, with ties and without; the differences are numpy's."""
    first, second = grades(n, n, whole=whole)
    result = grade_agreement(first, second, list(range(n)))
    assert result.pearson.value == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-12)
    assert result.spearman.value == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)
    assert result.kendall.value == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-12)
    gaps = np.array(first) - np.array(second)
    assert result.mean_absolute_difference.value == pytest.approx(np.abs(gaps).mean())
    assert result.mean_difference is not None
    assert result.mean_difference.value == pytest.approx(gaps.mean())
    assert (result.kappa is None) == (not whole)
    assert (result.pearson.low is None) == (n < 5)


def test_kappa_is_statsmodels() -> None:
    """Quadratic weights on the table of all ten grades; our unordered kappa is the same where all grades occur."""
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    first, second = grades(400, 1)
    table = np.zeros((10, 10))
    for entry, other in zip(first, second, strict=True):
        table[int(entry) - 1, int(other) - 1] += 1
    result = grade_agreement(first, second, list(range(400))).kappa
    assert result is not None
    assert result.value == pytest.approx(inter_rater.cohens_kappa(table, wt="quadratic").kappa, abs=1e-12)
    assert set(first) | set(second) == set(range(1, 11))
    assert result.value == pytest.approx(cohen_kappa(first, second, weights="quadratic").value, abs=1e-12)


@pytest.mark.parametrize("name", ["pearson", "spearman", "kendall", "mean_absolute_difference"])
def test_intervals_are_those_of_a_bootstrap_by_scipy(name: str) -> None:
    """Percentiles of scipy's own resampling of the answers, to 0.03, or 0.06 points for the difference."""
    first, second = grades(80, 2)
    statistic = {
        "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
        "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
        "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
        "mean_absolute_difference": lambda x, y: np.abs(x - y).mean(),
    }[name]
    resampled = stats.bootstrap((np.array(first), np.array(second)), statistic, paired=True, vectorized=False,
                                n_resamples=1000, method="percentile", rng=np.random.default_rng(0))  # fmt: skip
    result = getattr(grade_agreement(first, second, list(range(80))), name)
    tolerance = 0.06 if name == "mean_absolute_difference" else 0.03
    assert result.low == pytest.approx(resampled.confidence_interval.low, abs=tolerance)
    assert result.high == pytest.approx(resampled.confidence_interval.high, abs=tolerance)


def test_several_pairs_of_one_question_are_dependent() -> None:
    """Each pair entered three times under its question changes no number and no interval by more than 0.02."""
    first, second = grades(60, 3)
    alone = grade_agreement(first, second, list(range(60)))
    thrice = grade_agreement(first * 3, second * 3, list(range(60)) * 3)
    assert (thrice.n, thrice.n_questions) == (180, 60)
    for name in ("pearson", "spearman", "kappa"):
        item, other = getattr(alone, name), getattr(thrice, name)
        assert item.value == pytest.approx(other.value)
        assert item.low == pytest.approx(other.low, abs=0.02)
        assert item.high == pytest.approx(other.high, abs=0.02)


def test_raters_without_order_may_be_exchanged() -> None:
    """Exchanging the two people of any pairs changes nothing, and no one is the stricter one."""
    first, second = grades(50, 4)
    result = grade_agreement(first, second, list(range(50)), symmetric=True)
    turned = grade_agreement(first[:25] + second[25:], second[:25] + first[25:], list(range(50)), symmetric=True)
    assert result == turned
    assert result.mean_difference is None
    assert result.n == 50


def test_one_grade_everywhere_has_no_correlation() -> None:
    """Undefined is None and not 0; the difference is known; perfect agreement is 1."""
    result = grade_agreement([7.0] * 6, [5.0, 6.0, 7.0, 8.0, 9.0, 7.0], list(range(6)))
    assert result.pearson.value is result.spearman.value is result.kendall.value is None
    assert result.mean_absolute_difference.value == pytest.approx(1.0)
    assert result.kappa is not None
    assert result.kappa.value == pytest.approx(0.0)
    same = grade_agreement([1.0, 5.0, 9.0], [1.0, 5.0, 9.0], [0, 1, 2])
    assert same.kappa is not None
    assert same.pearson.value == same.kendall.value == same.kappa.value == pytest.approx(1.0)
    with pytest.raises(DataError, match="expected equal counts"):
        grade_agreement([1.0], [1.0, 2.0], [0])


@pytest.mark.slow
def test_many_different_grades_have_no_interval_of_kendalls_tau() -> None:
    """Its value is scipy's; what would need a table of all pairs for each draw is left out, and nothing else."""
    first, second = grades(2 * MOST_POINTS, 5, whole=False)
    result = grade_agreement(first, second, list(range(2 * MOST_POINTS)))
    assert result.kendall.value == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-12)
    assert result.kendall.low is None
    assert result.spearman.low is not None
