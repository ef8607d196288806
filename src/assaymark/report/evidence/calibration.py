"""Calibration: Brier score and calibration error of every multiple-choice task.

The confidence of an answer is the share of the choices' probability on the best one. With few samples even a perfectly
calibrated model has a calibration error above zero, so its expected value is reported too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assaymark.records import ScoreStatus
from assaymark.report.evidence.records import ScoreRow
from assaymark.scoring.metrics import BRIER, CONFIDENCE
from assaymark.statistics.calibration import calibration_error

NULL_DRAWS = 200  # enough for the mean of the null distribution; its tail is not used


def calibration_details(own: Mapping[tuple[str, str], Sequence[ScoreRow]]) -> dict[str, Any]:
    """Return a task's calibration details; empty where it has no choices, or not all of their probabilities are known.

    Keys: brier, calibration_error, calibration_error_null (expected of a calibrated model), calibration_p.
    """
    brier = [row.value for row in _scored(own, BRIER) if row.value is not None]
    confidence = _scored(own, CONFIDENCE)
    if not brier or any(row.value is None and row.parts is None for row in confidence):
        return {}  # also if some samples have them: those with every letter in a server's list are no random ones
    pairs = [row.parts for row in confidence if row.parts is not None]
    details: dict[str, Any] = {"brier": sum(brier) / len(brier)}
    if pairs:
        found = calibration_error([float(p[0]) for p in pairs], [float(p[1]) for p in pairs], draws=NULL_DRAWS)
        details["calibration_error"] = found.value
        details["calibration_error_null"] = found.null_value
        details["calibration_p"] = found.p
    return details


def _scored(own: Mapping[tuple[str, str], Sequence[ScoreRow]], metric: str) -> list[ScoreRow]:
    found = next((rows for (_, name), rows in own.items() if name == metric), ())
    return [row for row in found if row.status is not ScoreStatus.FAILED]
