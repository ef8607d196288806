"""Calibration against hand calculations, scikit-learn, statsmodels and simulation."""

import math

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.calibration import (
    brier_split,
    calibration_error,
    platt_scaling,
    selective_curve,
)


def test_a_worked_example() -> None:
    """Two bins of two: |.5 - .15| and |1 - .85|, equally weighted, make .25."""
    result = calibration_error([0.1, 0.2, 0.8, 0.9], [0, 1, 1, 1], n_bins=2)
    assert result.value == pytest.approx(0.25)
    assert [(b.n, b.accuracy) for b in result.bins] == [(2, 0.5), (2, 1.0)]
    assert [b.confidence for b in result.bins] == pytest.approx([0.15, 0.85])


def test_one_bin_is_the_distance_of_the_means() -> None:
    """HELM's ece_1_bin is |mean accuracy - mean confidence|."""
    rng = np.random.default_rng(0)
    p, y = rng.random(50), (rng.random(50) < 0.4).astype(float)
    assert calibration_error(p, y, n_bins=1).value == pytest.approx(abs(p.mean() - y.mean()))


def test_the_null_value_is_the_specifications() -> None:
    """300 samples at confidence near .7 in ten bins show about .066 although perfectly calibrated."""
    p = 0.7 + np.random.default_rng(0).normal(0, 0.001, 300)
    result = calibration_error(p, np.ones(300), n_bins=10)
    assert result.null_value == pytest.approx(0.066, abs=0.002)


def test_a_calibrated_model_has_a_uniform_p_and_a_bad_one_a_small_one() -> None:
    """Of 100 calibrated models about 5% have p below 5%; an overconfident one has a small p."""
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(100):
        p = rng.beta(3, 2, 200)
        small += calibration_error(p, (rng.random(200) < p).astype(float), draws=200).p < 0.05
    assert small <= 12
    assert calibration_error(np.full(200, 0.95), (rng.random(200) < 0.6).astype(float)).p < 0.01


def test_the_order_of_samples_with_equal_confidence_does_not_matter() -> None:
    """Every number is the same for any order of samples, ties across bin edges included."""
    rng = np.random.default_rng(0)
    p = np.round(rng.random(97), 1)
    y = (rng.random(97) < p).astype(float)
    mixed = rng.permutation(97)
    first, two = calibration_error(p, y), calibration_error(p[mixed], y[mixed])
    assert first.value == pytest.approx(two.value, abs=1e-14)
    assert selective_curve(p, y).aurc == pytest.approx(selective_curve(p[mixed], y[mixed]).aurc, abs=1e-14)
    assert brier_split(p, y).reliability == pytest.approx(brier_split(p[mixed], y[mixed]).reliability, abs=1e-14)


def test_partial_credit_survives_calibration() -> None:
    """Half credit counts half; nothing is truncated to an integer."""
    result = calibration_error([0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5], n_bins=2)
    assert result.value == 0.0
    assert result.bins[0].accuracy == 0.5


def test_the_brier_decomposition_adds_up() -> None:
    """Brier = reliability - resolution + uncertainty + within-bin term, which is 0 over distinct values."""
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    p = np.round(rng.random(300), 1)
    y = (rng.random(300) < p).astype(float)
    exact, binned = brier_split(p, y), brier_split(p, y, n_bins=5)
    assert exact.brier == pytest.approx(metrics.brier_score_loss(y, p))
    assert exact.within == pytest.approx(0.0, abs=1e-12)
    assert exact.uncertainty == pytest.approx(y.mean() * (1 - y.mean()))
    for split in (exact, binned):
        total = split.reliability - split.resolution + split.uncertainty + split.within
        assert total == pytest.approx(split.brier, abs=1e-12)
    assert abs(binned.within) > 1e-6


def test_murphys_decomposition_of_a_perfect_forecast() -> None:
    """A forecast that is always 0 or 1 and always correct has reliability 0 and resolution equal to uncertainty."""
    split = brier_split([0.0, 1.0, 1.0, 0.0], [0, 1, 1, 0])
    assert (split.brier, split.reliability, split.resolution, split.uncertainty) == (0.0, 0.0, 0.25, 0.25)


def test_platt_scaling_equals_statsmodels_logistic_fit() -> None:
    """Slope and intercept are those of a binomial model with Platt's targets, fitted by statsmodels."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(0)
    p = rng.beta(4, 2, 400)
    y = (rng.random(400) < p**2).astype(float)
    fit = platt_scaling(p, y)
    positives, negatives = y.sum(), (1 - y).sum()
    target = np.where(y == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    design = api.add_constant(np.log(p / (1 - p)))
    theirs = api.GLM(target, design, family=api.families.Binomial()).fit(tol=1e-12).params
    assert (fit.intercept, fit.slope) == pytest.approx(tuple(theirs), rel=1e-5)
    assert calibration_error(fit.apply(p), y).value < calibration_error(p, y).value


def test_platt_scaling_exists_if_right_and_wrong_separate() -> None:
    """Perfect separation and a single confidence still have a finite fit."""
    fit = platt_scaling([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    assert fit.slope is not None
    assert 0 < fit.slope < math.inf
    assert np.isfinite(fit.intercept)
    level = platt_scaling([0.7] * 10, [1] * 4 + [0] * 6)
    assert level.apply([0.7])[0] == pytest.approx((4 * 5 / 6 + 6 / 8) / 10)
    extreme = platt_scaling([0.0, 1.0, 1.0, 0.5], [0, 1, 0, 1])
    assert extreme.slope is not None
    assert np.isfinite(np.array([extreme.slope, extreme.intercept])).all()


def test_the_selective_curve_of_a_worked_example() -> None:
    """Right, right, wrong in order of confidence: accuracies 1, 1, 2/3, mean risk 1/9, and no better order exists."""
    curve = selective_curve([0.9, 0.8, 0.3], [1, 1, 0])
    assert curve.accuracy == pytest.approx((1.0, 1.0, 2 / 3))
    assert (curve.aurc, curve.excess_aurc) == pytest.approx((1 / 9, 0.0))
    assert curve.accuracy_at(0.5) == 1.0
    assert curve.accuracy_at(1.0) == pytest.approx(2 / 3)
    assert selective_curve([0.3, 0.8, 0.9], [1, 1, 0]).excess_aurc > 0.2


def test_bad_input_is_refused() -> None:
    """Percent for shares and lists of different length are errors."""
    with pytest.raises(DataError, match="expected 0 to 1"):
        calibration_error([50.0], [1])
    with pytest.raises(DataError, match="one of each"):
        selective_curve([0.5, 0.5], [1])
    with pytest.raises(DataError, match="n_bins"):
        calibration_error([0.5], [1], n_bins=0)
