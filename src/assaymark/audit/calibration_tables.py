"""The calibration audit as a terminal table."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.audit.calibration import CalibrationAudit
from assaymark.audit.verdicts import CALIBRATION_METHODS, calibration_verdict
from assaymark.results.console import Text
from assaymark.results.numbers import shown_p
from assaymark.results.views.cells import plain_table

__all__ = ["ABOUT", "SUMMARY", "calibration_table", "summary_cells"]

STRIP = 40
SUMMARY = ("n", "accuracy", "confidence", "error", "if calibrated", "p")
ABOUT = (
    "Confidence is the share of the choices' probability on the one picked; bins hold equally many samples. The error "
    "is never 0 in a finite sample: 'if calibrated' is the value expected of a calibrated model with these confidences."
)


def calibration_table(audits: Sequence[CalibrationAudit]) -> RenderableType:
    """Return the verdict in one sentence, a summary over tasks, and each task's reliability curve."""
    summary = plain_table()
    summary.add_column("task", overflow="fold")
    for header in SUMMARY:
        summary.add_column(header, justify="right", no_wrap=True)
    for audit in audits:
        summary.add_row(*summary_cells(audit))
    curves = [_curve(audit) for audit in audits]
    opening = Group(Text(calibration_verdict(audits), style="bold"), Text(CALIBRATION_METHODS, style="dim"))
    return Group(
        Padding(opening, (0, 1, 1, 1)), Padding(summary, (0, 1)), Padding(Text(ABOUT, style="dim"), (1, 1)), *curves
    )


def summary_cells(audit: CalibrationAudit) -> tuple[str, ...]:
    """Return a task's name and the cells of SUMMARY."""
    error = audit.error
    return (
        audit.task, f"{audit.n:,}", _share(audit.accuracy), _share(audit.confidence), _share(error.value),
        f"{_share(error.null_value)} (≤{_share(error.null_high)})", shown_p(error.p),
    )  # fmt: skip


def _curve(audit: CalibrationAudit) -> RenderableType:
    table = plain_table()
    for header in ("confidence", "accuracy", "n"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column(f"0%{'100%':>{STRIP - 2}}", no_wrap=True)
    for calibration_bin in audit.error.bins:
        table.add_row(
            _share(calibration_bin.confidence),
            _share(calibration_bin.accuracy),
            f"{calibration_bin.n:,}",
            _strip(calibration_bin.confidence, calibration_bin.accuracy),
        )
    brier = audit.brier
    answered = ", ".join(f"{share:.0%}: {_share(accuracy)}" for share, accuracy in audit.selective)
    lines = [
        (
            f"Brier score of the top choice {brier.brier:.3f} = "
            f"miscalibration {brier.reliability:.3f} - discrimination {brier.resolution:.3f} "
            f"+ uncertainty of the task {brier.uncertainty:.3f} + within bins {brier.within:+.3f}"
        ),
        f"Platt slope {audit.platt.slope:.2f}: {_direction(audit)}; error after it {_share(audit.error_after_platt)}",
        f"accuracy when only the most confident are answered: {answered}",
    ]
    notes = [Text(line, style="dim") for line in lines]
    return Padding(Group(Text(audit.task, style="bold"), table, *notes), (0, 1, 1, 1))


def _direction(audit: CalibrationAudit) -> str:
    """Return the interpretation of a Platt slope."""
    if audit.platt.slope <= 0:
        return "more confident answers are no better"
    return "overconfident" if audit.platt.slope < 1 else "underconfident"


def _strip(confidence: float, accuracy: float) -> str:
    """Draw accuracy (●) and confidence (│, where the two should meet) on a scale from 0 to 100%."""
    marks = ["·"] * STRIP
    marks[min(STRIP - 1, int(confidence * STRIP))] = "│"
    marks[min(STRIP - 1, int(accuracy * STRIP))] = "●"
    return "".join(marks)


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"
