"""Agreement of a judge's grades of single answers with people's, beside people's agreement with each other.

The report on a judge's grades as a terminal table.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.errors import DataError
from assaymark.judges.agreement import are_two_people
from assaymark.records import JsonValue
from assaymark.results.console import Text
from assaymark.results.numbers import NOTHING, counted
from assaymark.results.views.cells import plain_table
from assaymark.statistics.agreement import Agreement, krippendorff_alpha
from assaymark.statistics.grade_agreement import GradeAgreement, MeasuredAgreement, grade_agreement

__all__ = [
    "GivenGrade",
    "GradeReport",
    "JudgeGrades",
    "grade_report",
    "grade_report_json",
    "grade_report_table",
    "grade_trust",
]


FEWEST = 50  # graded answers of both, as for verdicts
ENOUGH = 0.6  # Spearman's correlation, where people's own is not known
SOME = 0.4
AnswerKey = tuple[str, str, str]  # question, part, model


@dataclass(frozen=True, slots=True)
class GivenGrade:
    """One rater's grade of one answer. part: what separates the answers to one question: its turn; empty without."""

    question: str
    part: str
    model: str
    value: float
    rater: str

    @property
    def key(self) -> AnswerKey:
        """What grades of the same answer have in common."""
        return (self.question, self.part, self.model)


@dataclass(frozen=True, slots=True)
class JudgeGrades:
    """A judge's grades, and how many of its texts hold none."""

    name: str
    grades: Sequence[GivenGrade]
    n_without_grade: int = 0


@dataclass(frozen=True, slots=True)
class GradeReport:
    """Everything `assaymark judge agreement` prints about grades.

    judge: with each person's grade of the same answer. with_mean: with the mean of people's grades of an answer.
    people: each two people; None where no answer has two grades. parts: `judge` by turn, where there are several.
    judge_range, people_range: smallest and greatest grade on the answers that both have graded.
    """

    judge_name: str
    n_judged: int  # answers
    n_labelled: int  # of them, with at least one person's grade
    n_grades: int  # of people, on those
    n_without_grade: int
    judge: GradeAgreement
    with_mean: GradeAgreement
    people: GradeAgreement | None
    parts: Mapping[str, GradeAgreement]
    alpha: Agreement | None  # Krippendorff's, of all people, interval level
    judge_range: tuple[float, float]
    people_range: tuple[float, float]
    trust: str


def grade_report(judge: JudgeGrades, people: Sequence[GivenGrade]) -> GradeReport:
    """Return the agreement of a judge with people on the answers that both have graded.

    Raises: DataError if there is none.
    """
    judged, labels = _by_answer(judge.grades), _by_answer(people)
    shared = [key for key in judged if key in labels]
    if not shared:
        raise DataError(
            f"{len(judged):,} answers graded by the judge and {len(labels):,} by people have none in common; they are "
            "matched by question, turn and model"
        )
    pairs = [(grade, other) for key in shared for grade in judged[key] for other in labels[key]]
    means = [(grade, _mean(labels[key])) for key in shared for grade in judged[key]]
    among = [
        (grade, other)
        for grades in labels.values()
        for grade, other in combinations(grades, 2)
        if are_two_people(grade.rater, other.rater)
    ]
    parts = dict.fromkeys(grade.part for grade, _ in pairs)
    with_each = _agreement(pairs)
    beside = _agreement(among, symmetric=True) if among else None
    return GradeReport(
        judge.name,
        len(judged),
        len(shared),
        sum(len(labels[key]) for key in shared),
        judge.n_without_grade,
        with_each,
        grade_agreement(
            [grade.value for grade, _ in means], [mean for _, mean in means], [grade.question for grade, _ in means]
        ),
        beside,
        {part: _agreement([pair for pair in pairs if pair[0].part == part]) for part in parts}
        if len(parts) > 1
        else {},
        _alpha(labels),
        _range(grade.value for grade, _ in pairs),
        _range(other.value for _, other in pairs),
        grade_trust(with_each, beside, len(shared)),
    )


def grade_report_json(report: GradeReport) -> dict[str, JsonValue]:
    """Return the report as JSON values."""
    return asdict(report)


def grade_trust(judge: GradeAgreement, people: GradeAgreement | None, n_labelled: int) -> str:
    """Return one sentence: whether the judge's order of answers can stand in for people's, by Spearman's correlation.

    Too few labels, or grades that are all the same: it cannot be said. An interval that reaches 0: no. At least
    people's own correlation, within its interval: yes. Otherwise from 0.6 on yes, from 0.4 on for large differences,
    below that no.
    """
    rho = judge.spearman
    if n_labelled < FEWEST:
        return (
            f"It cannot be said whether this judge can be trusted: people have graded {n_labelled} of its answers, and "
            f"at least {FEWEST} are needed."
        )
    if rho.value is None:
        return (
            "It cannot be said whether this judge can be trusted: there is no correlation where its grades, or "
            "people's, are all the same."
        )
    if rho.low is None or rho.low <= 0:
        return f"This judge cannot be trusted here: the correlation of its grades with people's is {rho.value:.2f}."
    why = f"Spearman's correlation of its grades with a person's is {rho.value:.2f}"
    own = people.spearman if people is not None and people.n >= FEWEST else None
    if own is not None and own.value is not None:
        why += f", of two people's {own.value:.2f}"
        if rho.value >= (own.value if own.low is None else own.low):
            return f"This judge can be trusted here as one more person could: {why}."
    if rho.value >= ENOUGH:
        return f"This judge can be trusted here for the order of answers: {why}."
    if rho.value >= SOME:
        return f"This judge can show large differences here: {why}."
    return f"This judge cannot be trusted here: {why}."


def _by_answer(grades: Iterable[GivenGrade]) -> dict[AnswerKey, list[GivenGrade]]:
    by_answer: dict[AnswerKey, list[GivenGrade]] = defaultdict(list)
    for grade in grades:
        by_answer[grade.key].append(grade)
    return dict(by_answer)


def _agreement(pairs: Sequence[tuple[GivenGrade, GivenGrade]], *, symmetric: bool = False) -> GradeAgreement:
    values = [grade.value for grade, _ in pairs], [other.value for _, other in pairs]
    return grade_agreement(*values, [grade.question for grade, _ in pairs], symmetric=symmetric)


def _mean(grades: Sequence[GivenGrade]) -> float:
    return sum(grade.value for grade in grades) / len(grades)


def _range(values: Iterable[float]) -> tuple[float, float]:
    numbers = list(values)
    return min(numbers), max(numbers)


def _alpha(labels: Mapping[AnswerKey, Sequence[GivenGrade]]) -> Agreement | None:
    """Return Krippendorff's alpha of all people; the n-th grade of an answer stands for the n-th rater."""
    units = [[grade.value for grade in grades] for grades in labels.values() if len(grades) > 1]
    if not units:
        return None
    ratings = [[unit[rater] if rater < len(unit) else None for unit in units] for rater in range(max(map(len, units)))]
    return krippendorff_alpha(ratings, "interval")


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
    for name, measures in groups.items():
        table.add_row(name, "", "", "0" if measures is None else f"{measures.n:,}")
        for field, title in _ROWS:
            if measures is not None and getattr(measures, field) is not None:
                table.add_row(f"  {title}", *_cells(getattr(measures, field), field), "")
    parts: list[RenderableType] = [Text(report.trust, style="bold"), Text(facts, style="dim"), Text(), table]
    if report.parts:
        parts += [Text(), _turn_table(report)]
    return Padding(Group(*parts, *_notes(report)), (0, 1))


def _turn_table(report: GradeReport) -> RenderableType:
    table = plain_table()
    table.add_column("judge and a person", overflow="fold")
    for name in ("Spearman", "interval", "absolute difference", "n"):
        table.add_column(name, justify="right")
    for name, agreement in report.parts.items():
        difference, _ = _cells(agreement.mean_absolute_difference)
        table.add_row(f"turn {name}", *_cells(agreement.spearman), difference, f"{agreement.n:,}")
    return table


def _cells(measured: MeasuredAgreement, field: str = "") -> tuple[str, str]:
    """Return value and interval; a difference with direction has its sign."""
    if measured.value is None:
        return NOTHING, ""
    sign = "+" if field == "mean_difference" else ""
    ends = "" if measured.low is None else f"{measured.low:{sign}.2f} to {measured.high:{sign}.2f}"
    return f"{measured.value:{sign}.2f}", ends


_INTERVALS = "Intervals are percentiles of a bootstrap over questions."


def _notes(report: GradeReport) -> list[Text]:
    (low, high), (people_low, people_high) = report.judge_range, report.people_range
    ranges = f"Grades of the judge from {low:g} to {high:g}, of people from {people_low:g} to {people_high:g}"
    lines = [f"{ranges}: on different scales only the correlations mean something.", _INTERVALS]
    if report.judge.kappa is None:
        lines.append("No kappa: a grade is not a whole number.")
    alpha = report.alpha
    if alpha is not None and alpha.value is not None:
        ends = "" if alpha.low is None else f" ({alpha.low:.3f} to {alpha.high:.3f})"
        lines.append(f"Krippendorff's alpha of all people: {alpha.value:.3f}{ends}, {counted(alpha.n, 'answer')}")
    return [Text(line, style="dim") for line in lines]
