"""Calibration audit of a stored run: reliability curve, calibration error and Brier score of its choices.

The confidence of an answer is the share of the choices' probability that is on the best one, as it was scored;
`answer_calibration` has the confidence of generated answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assaymark.errors import DataError
from assaymark.records import ScoreStatus
from assaymark.results.evidence.records import score_number
from assaymark.scoring.metric import CONFIDENCE
from assaymark.statistics.calibration import (
    BrierSplit,
    CalibrationError,
    PlattScaling,
    brier_split,
    calibration_error,
    platt_scaling,
    selective_curve,
)
from assaymark.statistics.helm_calibration import HelmCalibration, helm_calibration
from assaymark.store import Store

ALL = "all tasks"
MOST_BINS = 10
PER_BIN = 20  # samples: in smaller bins accuracy is mostly noise
FEWEST = 40
COVERAGES = (0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class CalibrationAudit:
    """Calibration of one task, or of all tasks pooled."""

    task: str
    n: int
    accuracy: float
    confidence: float  # mean
    error: CalibrationError  # over equal-mass bins, with the value expected of a calibrated model
    brier: BrierSplit  # of the event "the pick is correct", over the same bins
    platt: PlattScaling  # slope below 1: confidences are too far apart; fitted on these samples
    error_after_platt: float
    selective: tuple[tuple[float, float], ...]  # (share answered, most confident first; accuracy of it)
    excess_aurc: float  # 0: the most confident answers are exactly the correct ones
    helm: HelmCalibration  # the same by HELM's definitions
    of: Literal["choices", "answers"] = "choices"  # whose confidence: of the best choice, or of a generated text


def audit_calibration(store: Store, run_id: str, tasks: Sequence[str] = ()) -> list[CalibrationAudit]:
    """Return the calibration of a run's multiple-choice tasks, and of all of them pooled if there are several.

    The pooled one has the answers to every task, also to those that are too small for a row of their own.

    Args:
        store: the store that holds the run.
        run_id: the run's id.
        tasks: names of the tasks to audit; empty for all multiple-choice tasks.

    Raises: DataError if the run has no multiple-choice task, or too few samples were answered.
    """
    wanted = tasks or [each.name for each in store.run(run_id).plan.tasks if each.perturbed is None]
    pairs = {task: _pairs(store, run_id, task) for task in wanted}
    pooled = [pair for each in pairs.values() for pair in each]
    if len(pooled) < FEWEST:
        raise DataError(
            f"this run has {len(pooled)} answered multiple-choice samples; expected {FEWEST}: "
            "calibration needs multiple-choice tasks, or generated answers with --answers, and about 300 samples for a "
            "useful estimate"
        )
    audits = [calibration_of(task, each) for task, each in pairs.items() if len(each) >= FEWEST]
    if sum(map(bool, pairs.values())) > 1:
        audits.append(calibration_of(ALL, pooled))
    return audits


def _pairs(store: Store, run_id: str, task: str) -> list[tuple[float, float]]:
    """Return (confidence, credit) of each answered sample."""
    return [
        (score_number(score.parts[0]), score_number(score.parts[1]))
        for score in store.scores(run_id, task, details=False)
        if score.metric == CONFIDENCE and score.status is not ScoreStatus.FAILED and score.parts is not None
    ]


def calibration_of(task: str, pairs: Sequence[tuple[float, float]]) -> CalibrationAudit:
    """Return the calibration of (confidence, credit) pairs."""
    confidences, credits_ = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    n_bins = max(2, min(MOST_BINS, len(pairs) // PER_BIN))
    platt = platt_scaling(confidences, credits_)
    curve = selective_curve(confidences, credits_)
    after = calibration_error(platt.apply(confidences), credits_, n_bins=n_bins, draws=1)
    return CalibrationAudit(
        task=task,
        n=len(pairs),
        accuracy=sum(credits_) / len(pairs),
        confidence=sum(confidences) / len(pairs),
        error=calibration_error(confidences, credits_, n_bins=n_bins),
        brier=brier_split(confidences, credits_, n_bins=n_bins),
        platt=platt,
        error_after_platt=after.value,
        selective=tuple((share, curve.accuracy_at(share)) for share in COVERAGES),
        excess_aurc=curve.excess_aurc,
        helm=helm_calibration(confidences, credits_),
    )
