"""Agreement against Krippendorff's own example, statsmodels and scikit-learn."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.agreement import Level, Weights, cohen_kappa, krippendorff_alpha

N = None
KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_krippendorffs_own_example(level: Level, published: float) -> None:
    """Four observers, twelve units with gaps: the values Krippendorff 2011 prints for all four metrics."""
    result = krippendorff_alpha(KRIPPENDORFF, level)
    assert result.value == pytest.approx(published, abs=0.0006)
    assert result.n == 11  # the twelfth unit has one rating: nothing to pair
    assert result.low is not None
    assert result.high is not None
    assert result.value is not None
    assert result.low < result.value <= result.high


def test_binary_data_without_gaps_equal_krippendorffs_second_example() -> None:
    """Two observers, ten units, binary: alpha = 0.095 (Krippendorff 2011, part A)."""
    a = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    b = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff_alpha([a, b], draws=0).value == pytest.approx(0.095, abs=0.0005)


def test_perfect_agreement_is_1_chance_0_and_no_variation_undefined() -> None:
    """Equal ratings give 1, independent ones about 0, and one value everywhere None rather than 0 or NaN."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (2, 5000)).tolist()
    assert krippendorff_alpha([a, a], draws=0).value == 1.0
    assert krippendorff_alpha([a, b], draws=0).value == pytest.approx(0.0, abs=0.03)
    assert cohen_kappa(a, b).value == pytest.approx(0.0, abs=0.03)
    assert krippendorff_alpha([[1, 1], [1, 1]]).value is None
    assert cohen_kappa([1, 1], [1, 1]).value is None


def test_the_interval_is_the_same_every_time() -> None:
    """The bootstrap over units is seeded by name."""
    assert krippendorff_alpha(KRIPPENDORFF) == krippendorff_alpha(KRIPPENDORFF)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_and_its_error_equal_scikit_learn_and_statsmodels(weights: Weights | None) -> None:
    """For ordered categories the value is scikit-learn's and the standard error statsmodels', weighted or not."""
    metrics = pytest.importorskip("sklearn.metrics")
    rater = pytest.importorskip("statsmodels.stats.inter_rater")
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, 150)
    b = np.clip(a + rng.integers(-1, 2, 150), 0, 3)
    ours = cohen_kappa(a.tolist(), b.tolist(), weights=weights)
    assert ours.value == pytest.approx(metrics.cohen_kappa_score(a, b, weights=weights), rel=1e-12)
    table = np.zeros((4, 4))
    np.add.at(table, (a, b), 1)
    kinds = {None: None, "linear": "linear", "quadratic": "quadratic"}
    theirs = rater.cohens_kappa(table, wt=kinds[weights])
    assert ours.stderr == pytest.approx(theirs.std_kappa, rel=1e-9)


def test_fleiss_cohen_everitts_error_covers() -> None:
    """In 300 simulated pairs of raters the interval covers the true kappa about 95% of the time."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(300):
        truth = rng.integers(0, 2, 150)
        a, b = (np.where(rng.random(150) < 0.85, truth, 1 - truth).tolist() for _ in range(2))
        result = cohen_kappa(a, b)
        assert result.low is not None
        assert result.high is not None
        covered += result.low <= 2 * (0.85**2 + 0.15**2) - 1 <= result.high
    assert covered >= 0.92 * 300


def test_bad_input_is_refused() -> None:
    """Raters of different length, and units rated once only, are errors."""
    with pytest.raises(DataError, match="same number"):
        krippendorff_alpha([[1, 2], [1]])
    with pytest.raises(DataError, match="two ratings"):
        krippendorff_alpha([[1, None], [None, 2]])
    with pytest.raises(DataError, match="equal numbers"):
        cohen_kappa([1], [])
