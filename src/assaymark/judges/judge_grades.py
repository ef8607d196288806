"""Agreement of a judge's grades, stored or in a file, with people's in a file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from assaymark.datasets.csv_files import sniff_delimiter
from assaymark.datasets.files import read_files
from assaymark.datasets.rows import Rows
from assaymark.datasets.vote_columns import JUDGES, PROMPTS, SIDES
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.judges.grades import GivenGrade, GradeReport, JudgeGrades, grade_report
from assaymark.judges.judge_agreement import VoteFileOptions
from assaymark.judges.judge_votes import TASK, has_task_column, in_task, question_names
from assaymark.judges.judging import JUDGING
from assaymark.judges.results import read_results
from assaymark.judges.single import Grade
from assaymark.registry import nearest
from assaymark.results.numbers import short_model_name
from assaymark.runs.stored import existing_store
from assaymark.store import RunRow

__all__ = ["are_grades", "judge_grade_agreement"]

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
        settings = existing_store(store).run(judge).plan.audit_settings
        return settings is not None and len(settings.settings.get("models", ())) == 1
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
    settings = row.plan.audit_settings
    if row.plan.audit != JUDGING or settings is None:
        raise UsageError(f"{row.short_id} is not a judging; name one (see `assaymark ls runs`), or a file of grades")
    model = short_model_name(str(settings.settings["models"][0]))
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
    return read_files([path], {"delimiter": sniff_delimiter(path)} if is_csv else None)


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


def _number(cell: Any, path: Path, number: int) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise DataError(
            f"{path.name}, row {number}: the grade is '{cell}'; expected a number up to {LARGEST:,.0f}; if it stands "
            f"for none, add --missing '{cell}'"
        )
    return value


def _aligned(judge: JudgeGrades, people: Sequence[GivenGrade]) -> tuple[JudgeGrades, Sequence[GivenGrade]]:
    """Return both without models or turns that only one of them names, where the other has a single one.

    Raises: DataError where it has several, so that its answers cannot be told apart.
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
        grades, people = ([_without(grade, what) for grade in side] for side in (grades, people))
    return replace(judge, grades=grades), people


def _without(grade: GivenGrade, what: str) -> GivenGrade:
    return replace(grade, part="") if what == TURN else replace(grade, model="")
