"""HELM's calibration metrics equal those of its own library (helm_calibration.json, by write_helm_calibration.py)."""

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from assaymark.errors import DataError
from assaymark.statistics.helm_calibration import helm_calibration

CASES = json.loads((Path(__file__).parent / "helm_calibration.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['kind']} {len(case['right'])}" for case in CASES])
def test_metrics_equal_the_librarys(case: dict[str, Any]) -> None:
    """Errors and accuracies agree to rounding, Platt's fit to the precision of the library's optimiser.

    Samples of one confidence have no order in the library (its sort is not stable), so there its accuracies are only
    between those of the best and the worst order; and a slope that one confidence does not identify is not compared.
    """
    p, y = case["confidences"], case["right"]
    ours = helm_calibration(p, y)
    assert ours.ece_10_bin == pytest.approx(case["ece_10_bin"], abs=1e-12)
    assert ours.ece_1_bin == pytest.approx(case["ece_1_bin"], abs=1e-12)
    if len(set(p)) == len(p):
        assert ours.selective_cov_acc_area == pytest.approx(case["selective_cov_acc_area"], abs=1e-12)
        assert ours.selective_acc_at_10 == pytest.approx(case["selective_acc_at_10"], abs=1e-12)
    else:
        ends = [
            [each[1] for each in sorted(zip(p, y, strict=True), key=lambda e: (-e[0], sign * e[1]))] for sign in (1, -1)
        ]
        low, high = (mean(sum(order[: k + 1]) / (k + 1) for k in range(len(order))) for order in ends)
        for area in (ours.selective_cov_acc_area, case["selective_cov_acc_area"]):
            assert low - 1e-12 <= area <= high + 1e-12
    assert ours.platt_ece_1_bin == pytest.approx(case["platt_ece_1_bin"], abs=1e-4)
    if len(set(p)) == 1 or case["platt_coef"] is None:
        assert (ours.platt_coef is None) == (case["platt_coef"] is None)
        assert ours.platt_ece_10_bin == pytest.approx(case["platt_ece_10_bin"], abs=1e-3)
        return
    assert ours.platt_coef == pytest.approx(case["platt_coef"], abs=5e-3, rel=5e-3)
    assert ours.platt_intercept == pytest.approx(case["platt_intercept"], abs=5e-3, rel=5e-3)
    assert ours.platt_ece_10_bin == pytest.approx(case["platt_ece_10_bin"], abs=2e-3)


def test_partial_credit_counts_as_wrong() -> None:
    """HELM takes the whole number below a score."""
    assert helm_calibration([0.5, 0.7], [1.0, 0.5]) == helm_calibration([0.5, 0.7], [1.0, 0.0])


@pytest.mark.parametrize(("confidences", "credits_"), [([], []), ([0.5], [1.0, 0.0]), ([1.5], [1.0])])
def test_bad_values_are_refused(confidences: list[float], credits_: list[float]) -> None:
    """There is one confidence and one credit per sample, each from 0 to 1."""
    with pytest.raises(DataError):
        helm_calibration(confidences, credits_)
