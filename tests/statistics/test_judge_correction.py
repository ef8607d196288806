"""Correction of judges by human verdicts."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.judge_correction import ppi_mean, rogan_gladen


def test_rogan_and_gladens_formula_by_hand() -> None:
    """60% judged right, specificity .9, sensitivity .8: (.6 + .9 - 1) / .7."""
    estimate = rogan_gladen(600, 1000, (90, 100), (80, 100))
    assert estimate.value == pytest.approx(0.5 / 0.7)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def test_it_is_clipped_to_shares_and_refuses_a_judge_at_chance() -> None:
    """A rate below the judge's false alarms is 0, and a judge no better than chance is an error."""
    assert rogan_gladen(20, 1000, (90, 100), (80, 100)).value == 0.0
    with pytest.raises(DataError, match="no better than chance"):
        rogan_gladen(500, 1000, (50, 100), (50, 100))


def test_rogan_gladen_covers_although_the_raw_rate_is_biased() -> None:
    """Over 400 simulated judges the corrected interval covers the truth about 95% of the time."""
    rng = np.random.default_rng(0)
    covered, raw = 0, []
    for _ in range(400):
        right = rng.random(1500) < 0.7
        judged = np.where(right, rng.random(1500) < 0.85, rng.random(1500) < 0.2)
        labelled = right[:300], judged[:300]
        on_wrong = int((~labelled[1][~labelled[0]]).sum()), int((~labelled[0]).sum())
        on_right = int(labelled[1][labelled[0]].sum()), int(labelled[0].sum())
        estimate = rogan_gladen(int(judged[300:].sum()), 1200, on_wrong, on_right)
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 0.7 <= estimate.high
        raw.append(judged.mean())
    assert covered >= 0.92 * 400
    assert abs(np.mean(raw) - 0.7) > 0.04


def test_ppi_by_hand() -> None:
    """Untuned: the judge's mean over the unlabelled plus the mean error over the labelled."""
    estimate = ppi_mean([1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0], tune=False)
    assert estimate.value == pytest.approx(0.75 - 1 / 3)


def test_ppi_covers_and_tuning_never_loses_to_labels_alone() -> None:
    """With a good judge the interval is narrower than from labels alone, with a useless one no wider; both cover."""
    rng = np.random.default_rng(0)
    for skill, factor in ((0.9, 0.85), (0.0, 1.03)):
        covered, width, plain = 0, 0.0, 0.0
        for _ in range(300):
            truth = (rng.random(1100) < 0.6).astype(float)
            guess = np.where(rng.random(1100) < skill, truth, (rng.random(1100) < 0.5).astype(float))
            estimate = ppi_mean(guess[100:], guess[:100], truth[:100])
            assert estimate.low is not None
            assert estimate.high is not None
            covered += estimate.low <= 0.6 <= estimate.high
            width += estimate.high - estimate.low
            plain += 2 * 1.96 * truth[:100].std(ddof=1) / 10
        assert covered >= 0.92 * 300
        assert width < factor * plain


def test_bad_input_is_refused() -> None:
    """One label, or labels and verdicts of different number, are errors."""
    with pytest.raises(DataError, match="at least 2"):
        ppi_mean([1.0], [1.0], [1.0])
    with pytest.raises(DataError, match="at least 2"):
        ppi_mean([1.0], [1.0, 0.0, 1.0], [1.0, 0.0])
