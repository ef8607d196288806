"""The report on a judge's grades as a terminal table."""

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.judges.grades import GradeReport
from assaymark.report.console import Text
from assaymark.report.numbers import NOTHING, counted
from assaymark.report.views.cells import plain_table
from assaymark.statistics.grade_agreement import Measured

__all__ = ["grade_report_table"]

_ROWS = (
    ("pearson", "Pearson"),
    ("spearman", "Spearman"),
    ("kendall", "Kendall's tau-b"),
    ("kappa", "quadratic weighted kappa"),
    ("mean_absolute_difference", "mean absolute difference"),
    ("mean_difference", "mean difference (judge minus people)"),
)


def grade_report_table(report: GradeReport) -> RenderableType:
    """Return the report for a terminal: the sentence, the counts, then each measure beside people's own."""
    facts = (
        f"{counted(report.n_judged, 'answer')} graded by {report.judge_name}, {report.n_labelled:,} of them with "
        f"{counted(report.n_grades, 'human grade')}"
    )
    if report.n_without_grade:
        facts += f"; {report.n_without_grade:,} without a grade, left out"
    groups = {
        "judge and a person": report.judge,
        "two people": report.people,
        "judge and people's mean": report.with_mean,
    }
    table = plain_table()
    table.add_column("agreement of grades", overflow="fold")
    for name in ("value", "interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, one in groups.items():
        table.add_row(name, "", "", "0" if one is None else f"{one.n:,}")
        for field, title in _ROWS:
            if one is not None and getattr(one, field) is not None:
                table.add_row(f"  {title}", *_cells(getattr(one, field), field), "")
    parts: list[RenderableType] = [Text(report.trust, style="bold"), Text(facts, style="dim"), Text(), table]
    if report.parts:
        parts += [Text(), _turn_table(report)]
    return Padding(Group(*parts, *_notes(report)), (0, 1))


def _turn_table(report: GradeReport) -> RenderableType:
    table = plain_table()
    table.add_column("judge and a person", overflow="fold")
    for name in ("Spearman", "interval", "absolute difference", "n"):
        table.add_column(name, justify="right")
    for name, one in report.parts.items():
        difference, _ = _cells(one.mean_absolute_difference)
        table.add_row(f"turn {name}", *_cells(one.spearman), difference, f"{one.n:,}")
    return table


def _cells(found: Measured, field: str = "") -> tuple[str, str]:
    """Return value and interval; a difference with direction has its sign."""
    if found.value is None:
        return NOTHING, ""
    sign = "+" if field == "mean_difference" else ""
    ends = "" if found.low is None else f"{found.low:{sign}.2f} to {found.high:{sign}.2f}"
    return f"{found.value:{sign}.2f}", ends


_INTERVALS = "Intervals are percentiles of a bootstrap over questions."


def _notes(report: GradeReport) -> list[Text]:
    (low, high), (people_low, people_high) = report.judge_range, report.people_range
    ranges = f"Grades of the judge from {low:g} to {high:g}, of people from {people_low:g} to {people_high:g}"
    lines = [f"{ranges}: on different scales only the correlations mean something.", _INTERVALS]
    if report.judge.kappa is None:
        lines.append("No kappa: a grade is no whole number.")
    alpha = report.alpha
    if alpha is not None and alpha.value is not None:
        ends = "" if alpha.low is None else f" ({alpha.low:.3f} to {alpha.high:.3f})"
        lines.append(f"Krippendorff's alpha of all people: {alpha.value:.3f}{ends}, {counted(alpha.n, 'answer')}")
    return [Text(line, style="dim") for line in lines]
