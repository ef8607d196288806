"""Agreement of a judge's grades of single answers with people's, beside people's agreement with each other.

The report on a judge's grades as a terminal table.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import SupportsFloat

from assaymark.datasets.csv_files import delimiter_of
from assaymark.datasets.files import read_files
from assaymark.datasets.rows import Rows
from assaymark.datasets.vote_columns import JUDGES, PROMPTS, SIDES
from assaymark.documents.blocks import Block, Cell, Cells, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.judges.agreement import alpha_of_people, are_two_people
from assaymark.judges.judge_votes import TASK, has_task_column, in_task, question_names
from assaymark.judges.judging import JUDGING
from assaymark.judges.report import VoteFileOptions
from assaymark.judges.results import judged_models, read_results
from assaymark.judges.single import Grade
from assaymark.records import JsonValue
from assaymark.registry import nearest
from assaymark.results.model_names import short_model_name
from assaymark.runs.stored import existing_store
from assaymark.statistics.agreement import Agreement
from assaymark.statistics.grade_agreement import GradeAgreement, MeasuredAgreement, grade_agreement
from assaymark.store import RunRow

FEWEST = 50  # answers graded by both, as for verdicts
ENOUGH = 0.6  # Spearman's correlation, if people's own is not known
SOME = 0.4
AnswerKey = tuple[str, str, str]  # question, part, model


@dataclass(frozen=True, slots=True)
class GivenGrade:
    """One rater's grade of one answer. part: the question's turn; empty without turns."""

    question: str
    part: str
    model: str
    value: float
    rater: str

    @property
    def key(self) -> AnswerKey:
        """A key that is equal for grades of the same answer."""
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
        alpha_of_people(([grade.value for grade in grades] for grades in labels.values()), "interval"),
        _range(grade.value for grade, _ in pairs),
        _range(other.value for _, other in pairs),
        grade_trust(with_each, beside, len(shared)),
    )


def grade_trust(judge: GradeAgreement, people: GradeAgreement | None, n_labelled: int) -> str:
    """Return one sentence: whether the judge's order of answers can replace people's, by Spearman's correlation.

    With too few labels, or if all grades are the same, it cannot be said. A judge whose interval reaches 0 cannot, one
    whose correlation is within or above the interval of people's own can. Otherwise a judge can from 0.6 on, for large
    differences from 0.4 on, and cannot below.
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


_ROWS = (
    ("pearson", "Pearson"),
    ("spearman", "Spearman"),
    ("kendall", "Kendall's tau-b"),
    ("kappa", "quadratic weighted kappa"),
    ("mean_absolute_difference", "mean absolute difference"),
    ("mean_difference", "mean difference (judge minus people)"),
)


def grade_report_document(report: GradeReport) -> Document:
    """Return the report: the sentence, the counts, then each measure beside people's own."""
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
    rows: list[Cells] = []
    for name, measures in groups.items():
        rows.append((name, "", "", "0" if measures is None else f"{measures.n:,}"))
        for field, title in _ROWS:
            if measures is not None and getattr(measures, field) is not None:
                rows.append((Cell(title, depth=1), *_cells(getattr(measures, field), field), ""))
    return document(
        Paragraph(report.trust, "verdict"),
        Paragraph(facts, "facts"),
        table(("agreement of grades", "value", "interval", "n"), rows),
        _turns(report),
        [Paragraph(line, "facts") for line in _notes(report)],
    )


def _turns(report: GradeReport) -> list[Block]:
    rows = []
    for name, agreement in report.parts.items():
        difference, _ = _cells(agreement.mean_absolute_difference)
        rows.append((f"turn {name}", *_cells(agreement.spearman), difference, f"{agreement.n:,}"))
    return [table(("judge and a person", "Spearman", "interval", "absolute difference", "n"), rows)] if rows else []


def _cells(measured: MeasuredAgreement, field: str = "") -> tuple[str, str]:
    """Return value and interval; a difference with direction has its sign."""
    if measured.value is None:
        return NOTHING, ""
    sign = "+" if field == "mean_difference" else ""
    ends = "" if measured.low is None else f"{measured.low:{sign}.2f} to {measured.high:{sign}.2f}"
    return f"{measured.value:{sign}.2f}", ends


_INTERVALS = "Intervals are percentiles of a bootstrap over questions."


def _notes(report: GradeReport) -> list[str]:
    (low, high), (people_low, people_high) = report.judge_range, report.people_range
    ranges = f"Grades of the judge from {low:g} to {high:g}, of people from {people_low:g} to {people_high:g}"
    lines = [f"{ranges}: on different scales only the correlations mean something.", _INTERVALS]
    if report.judge.kappa is None:
        lines.append("No kappa: a grade is not a whole number.")
    alpha = report.alpha
    if alpha is not None and alpha.value is not None:
        ends = "" if alpha.low is None else f" ({alpha.low:.3f} to {alpha.high:.3f})"
        lines.append(f"Krippendorff's alpha of all people: {alpha.value:.3f}{ends}, {counted(alpha.n, 'answer')}")
    return lines


COLUMNS: Mapping[str, Sequence[str]] = {
    "grade": ("grade", "score", "rating", "human_score", "human_grade"),
    "prompt": PROMPTS,
    "judge": (*JUDGES, "rater", "user_id"),
    "model": ("model", "model_id", "model_name", "generator", "system"),
}
TURN = "turn"
LARGEST = 1e6  # of grades; squares of larger ones lose digits


def are_grades(judge: str, options: VoteFileOptions | None = None, *, store: str | None = None) -> bool:
    """Return whether `judge` is a judging of single answers, or a file of grades and not of votes on pairs."""
    path = Path(judge)
    if not path.is_file():
        return len(judged_models(existing_store(store).run(judge))) == 1
    chosen = (options.columns if options is not None else None) or {}
    if "grade" in chosen or "winner" in chosen:
        return "grade" in chosen
    names = _rows_of(path).column_names
    is_paired = any(set(pair) <= set(names) for pair in SIDES)
    return not is_paired and any(name in names for name in COLUMNS["grade"])


def judge_grade_agreement(
    judge: str, human: str | Path, options: VoteFileOptions | None = None, *, store: str | None = None
) -> GradeReport:
    """Return the report on a judge's grades beside people's grades of the same answers.

    Args:
        judge: a stored judging of one run, or a file of grades.
        human: a file of grades; matched by question, turn and model. Without a model its answers are of the only model
            that the judge has graded.
        options: how the files are read; columns of grade, prompt, judge and model can be named.
        store: the database of stored runs.

    Raises: UsageError for a file or a judging that does not exist; DataError for what is not a grade, or nothing in
        common; UnknownName for a column that a file lacks.
    """
    chosen = options or VoteFileOptions()
    path = Path(human)
    if not path.is_file():
        raise UsageError(f"file not found: {human}; --human is a file of grades: question_id, grade and rater of each")
    is_file = Path(judge).is_file()
    people, _ = _grades_in_file(path, chosen.human_columns, chosen.missing)
    people = [
        given_grade
        for given_grade in people
        if not any(fnmatchcase(given_grade.rater, pattern) for pattern in chosen.without)
    ]
    if not people:
        raise DataError(f"{path.name} has no grade left without {', '.join(chosen.without)}")
    if is_file:
        grades, n_without = _grades_in_file(Path(judge), chosen.columns, chosen.missing)
        raters = {grade.rater for grade in grades if grade.rater}
        judge_grades = JudgeGrades(raters.pop() if len(raters) == 1 else Path(judge).stem, grades, n_without)
    else:
        judge_grades = _grades_of_judging(judge, store, by_task=has_task_column(path))
    return grade_report(*_aligned(judge_grades, people))


def _grades_of_judging(name: str, store: str | None, *, by_task: bool) -> JudgeGrades:
    opened = existing_store(store)
    row: RunRow = opened.run(name)
    if row.plan.audit != JUDGING:
        raise UsageError(f"{row.short_id} is not a judging; name one (see `assaymark ls runs`), or a file of grades")
    model = short_model_name(judged_models(row)[0])
    questions = question_names(opened, row, by_task=by_task)
    grades, n_without = [], 0
    for result in read_results(opened, row):
        if not isinstance(result, Grade) or result.value is None:
            n_without += 1
            continue
        grades.append(
            GivenGrade(
                questions[result.task, result.sample_index], str(result.turn + 1), model, result.value, row.model
            )
        )
    if not grades:
        raise DataError(
            f"judging {row.short_id} holds no grade ({n_without:,} texts of {row.model} have none), so nothing can "
            "be compared with people; this judge does not follow the prompt"
        )
    return JudgeGrades(short_model_name(row.model), grades, n_without)


def _rows_of(path: Path) -> Rows:
    is_csv = path.suffix in {".csv", ".tsv"} and path.stat().st_size > 0
    return read_files([path], {"delimiter": delimiter_of(path)} if is_csv else None)


def _grades_in_file(
    path: Path, columns: Mapping[str, str] | None, missing: Sequence[str]
) -> tuple[list[GivenGrade], int]:
    """Return the grades of a file, and the number of rows without one."""
    rows = _rows_of(path)
    column_of = _columns(path, rows.column_names, columns or {})
    grades, n_without = [], 0
    for number, row in enumerate(rows, start=1):
        cell = row[column_of["grade"]]
        if cell is None or not str(cell).strip() or str(cell) in missing:
            n_without += 1
            continue
        part = "" if TURN not in row else str(row[TURN])
        texts = {
            what: str(row[column_of[what]]).strip() if what in column_of else ""
            for what in ("prompt", "model", "judge")
        }
        value = _number(cell, path, number)
        question = in_task(row[TASK], texts["prompt"]) if TASK in row else texts["prompt"]
        grades.append(GivenGrade(question, part, texts["model"], value, texts["judge"]))
    if not grades:
        raise DataError(f"{path.name} has {len(rows):,} rows, and none holds a grade")
    return grades, n_without


def _columns(path: Path, names: Sequence[str], chosen: Mapping[str, str]) -> dict[str, str]:
    for what, column in chosen.items():
        if what not in COLUMNS:
            raise UnknownName("part of a grade", what, nearest(what, COLUMNS), f"known: {', '.join(COLUMNS)}")
        if column not in names:
            raise UnknownName(f"column for {what}", column, nearest(column, names), f"columns: {', '.join(names)}")
    known = {what: next((name for name in options if name in names), None) for what, options in COLUMNS.items()}
    column_of = {what: column for what, column in {**known, **chosen}.items() if column is not None}
    for what in ("grade", "prompt"):
        if what not in column_of:
            raise DataError(
                f"{path.name} has columns {', '.join(names) or '(none)'}; expected one with the {what} (such as "
                f"{', '.join(COLUMNS[what][:3])}): name it with --columns {what}=COLUMN, or --human_columns"
            )
    return column_of


def _number(cell: JsonValue, path: Path, number: int) -> float:
    try:
        value = float(cell) if isinstance(cell, str | int | float | SupportsFloat) else math.nan
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:
        raise DataError(
            f"{path.name}, row {number}: the grade is '{cell}'; expected a number up to {LARGEST:,.0f}; if it stands "
            f"for none, add --missing '{cell}'"
        )
    return value


def _aligned(judge: JudgeGrades, people: Sequence[GivenGrade]) -> tuple[JudgeGrades, Sequence[GivenGrade]]:
    """Return both without a model or turn that only one of them names, if the other has a single one.

    Raises: DataError if the other has several, whose answers could not be told apart.
    """
    grades = list(judge.grades)
    for what in ("model", TURN):
        sides = [{grade.part if what == TURN else grade.model for grade in side} for side in (grades, people)]
        if (sides[0] == {""}) == (sides[1] == {""}):
            continue
        several = max(sides, key=len)
        if len(several) > 1:
            raise DataError(
                f"one side names the {what} of each answer ({', '.join(sorted(several)[:5])}) and the other has no "
                f"column of it; add a column '{what}'"
            )
        grades, people = (
            [replace(grade, part="") if what == TURN else replace(grade, model="") for grade in side]
            for side in (grades, people)
        )
    return replace(judge, grades=grades), people
