"""Agreement of a run's scores with people's scores of the same answers, stored and shown beside the scores.

A judged score is only as good as its agreement with people. People's scores come from a file, matched by the row's id;
the measures are those of `judges.grades`, with people's agreement with each other if several scored an answer.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assaymark.datasets.csv_files import delimiter_of
from assaymark.datasets.files import read_files
from assaymark.documents.blocks import Block, Bullets, Heading
from assaymark.documents.numbers import NOTHING, counted
from assaymark.errors import DataError, UsageError
from assaymark.judges.grades import GivenGrade, GradeReport, JudgeGrades, grade_report
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields
from assaymark.records.result_facts import ResultFacts
from assaymark.registry import nearest
from assaymark.results.report.contents import ReportContents
from assaymark.runs.run import Run

BESIDE_PEOPLE: Final = "beside_people"  # in the run's facts
_IDS = ("id", "row", "row_id", "example_id", "question_id")
_RATERS = ("rater", "annotator", "judge", "user_id", "user")
_SCORERS = ("scorer", "metric", "name", "key")
_VALUES = ("score", "value", "grade", "rating", "label", "human_score")
_WORDS = {"yes": 1.0, "true": 1.0, "pass": 1.0, "right": 1.0, "no": 0.0, "false": 0.0, "fail": 0.0, "wrong": 0.0}
LARGEST = 1e6  # squares of larger scores lose digits
_SHOWN = 60  # characters of a wrong value that an error shows


@dataclass(frozen=True, slots=True)
class HumanScore:
    """One person's score of one row's answer. scorer: which of the run's scores it is about."""

    row: str
    scorer: str
    value: float
    rater: str = ""


def read_human_scores(path: str | Path, scorers: Sequence[str]) -> list[HumanScore]:
    """Return people's scores in a file.

    Args:
        path: JSON lines, JSON, CSV, TSV or Parquet with a column of row ids, and either a column for each scorer under
            its name, or columns scorer and score (without a scorer: of the only one). A column `rater` names the
            person. Scores are numbers, or yes, no, true, false, pass, fail; empty ones are left out.
        scorers: names that may be scored.

    Raises: UsageError where there is no such file; DataError naming the row and what was expected.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(
            f"there is no file {path}; expected people's scores: the row's id and a column for each scorer"
        )
    is_csv = file.suffix in {".csv", ".tsv"} and file.stat().st_size > 0
    rows = read_files([file], {"delimiter": delimiter_of(file)} if is_csv else None)
    columns = list(rows.column_names)
    own_id = next((name for name in _IDS if name in columns), None)
    if own_id is None:
        raise DataError(
            f"{file.name} has columns {', '.join(columns)[:300] or '(none)'}; expected one with the row's id, as "
            f"{', '.join(_IDS[:3])}"
        )
    rater = next((name for name in _RATERS if name in columns), None)
    wide = [name for name in columns if name in scorers]
    scorer = next((name for name in _SCORERS if name in columns and name not in wide), None)
    value = next((name for name in _VALUES if name in columns and name not in wide), None)
    if not wide and value is None:
        raise DataError(
            f"{file.name} has columns {', '.join(columns)[:300]}; expected one under a scorer's name "
            f"({', '.join(scorers)[:200]}), or columns scorer and score"
        )
    if not wide and scorer is None and len(scorers) != 1:
        raise DataError(f"{file.name} does not say which of {', '.join(scorers)[:200]} it scores; add a column scorer")
    scores: list[HumanScore] = []
    for number, row in enumerate(rows, start=1):
        where = f"{file.name}, row {number}"
        person = "" if rater is None or row[rater] is None else str(row[rater])
        name = str(row[own_id])
        cells = [(each, row[each]) for each in wide]
        if not wide and value is not None:
            cells = [(scorers[0] if scorer is None else str(row[scorer]), row[value])]
        for about, cell in cells:
            if about not in scorers:
                near = nearest(about, scorers, 1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise DataError(f"{where}: the run has no score '{about:.{_SHOWN}}'{hint}")
            number_ = _number(cell, f"{where}, {about}")
            if number_ is not None:
                scores.append(HumanScore(name, about, number_, person))
    if not scores:
        raise DataError(f"{file.name} has {len(rows):,} rows, and none holds a score")
    return scores


def _number(cell: object, where: str) -> float | None:
    """Return a score; None for an empty cell. Raises: DataError."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, str):
        text = cell.strip().lower()
        if not text:
            return None
        if text in _WORDS:
            return _WORDS[text]
        with suppress(ValueError):
            cell = float(text)
    if isinstance(cell, bool | int | float) and math.isfinite(cell) and abs(cell) <= LARGEST:
        return float(cell)
    raise DataError(f"{where}: the score is {cell!r:.{_SHOWN}}; expected a number, yes or no")


def add_human_labels(run: Run, path: str | Path, scorers: Sequence[str]) -> dict[str, GradeReport]:
    """Compare a run's scores with people's, store the agreement with the run, and return it by scorer.

    Args:
        run: with scores of one task's rows.
        path: of people's scores, see `read_human_scores`.
        scorers: names of the scores that people may have scored.

    Raises: UsageError; DataError for a file that cannot be read, or has no row of the run; StoreError.
    """
    people = read_human_scores(path, scorers)
    task = run.row.tasks[0]
    grades: dict[str, list[GivenGrade]] = {}
    ids: set[str] = set()
    for record in run.store.samples(run.id, task):
        row = record.sample.row if record.sample is not None else {}
        own_id = str(row.get("id", record.request.sample_index))
        ids.add(own_id)
        for score in record.scores:
            if score.metric in scorers and score.value is not None:
                grades.setdefault(score.metric, []).append(GivenGrade(own_id, "", task, score.value, "run"))
    if not any(each.row in ids for each in people):
        raise DataError(
            f"{Path(path).name}: none of its {counted(len({each.row for each in people}), 'row')} is one of the run's "
            f"{counted(len(ids), 'row')} (such as {people[0].row:.{_SHOWN}}); they are matched by the row's id"
        )
    reports: dict[str, GradeReport] = {}
    for name in dict.fromkeys(each.scorer for each in people):
        labels = [GivenGrade(each.row, "", task, each.value, each.rater) for each in people if each.scorer == name]
        if {each.question for each in labels} & {each.question for each in grades.get(name, ())}:
            reports[name] = grade_report(JudgeGrades(name, grades[name]), labels)
    entries: list[JsonValue] = [
        {"task": task, "metric": name, "line": agreement_line(name, report), **json_fields(report)}
        for name, report in reports.items()
    ]
    extra = {**run.row.extra, BESIDE_PEOPLE: entries}
    run.store.save_estimates(run.id, run.estimates, extra)
    return reports


def agreement_line(name: str, report: GradeReport) -> str:
    """Return one scorer's agreement with people in a line: of scores of 0 and 1 the share of equal ones, and kappa."""
    judge = report.judge
    scale = {*report.judge_range, *report.people_range}
    parts: list[str] = []
    if judge.kappa is not None and scale <= {0.0, 1.0}:
        gap = judge.mean_absolute_difference
        if gap.value is not None:
            ends = "" if gap.low is None or gap.high is None else f" ({1 - gap.high:.0%} to {1 - gap.low:.0%})"
            parts.append(f"the same as a person's in {1 - gap.value:.0%}{ends}")
        parts.append(f"kappa {NOTHING if judge.kappa.value is None else f'{judge.kappa.value:.2f}'}")
    else:
        rho, gap = judge.spearman, judge.mean_absolute_difference
        ends = "" if rho.low is None or rho.high is None else f" ({rho.low:.2f} to {rho.high:.2f})"
        parts.append(f"Spearman {NOTHING if rho.value is None else f'{rho.value:.2f}{ends}'} with a person's")
        if gap.value is not None:
            parts.append(f"mean difference {gap.value:.2f}")
    shared = f"{counted(report.n_labelled, 'row')}, {counted(report.n_grades, 'human score')}"
    return f"{name} beside people: {', '.join(parts)} ({shared}). {report.trust}"


def without_scorers(facts: ResultFacts, names: Sequence[str]) -> ResultFacts:
    """Return a run's facts without the agreement of replaced scores, which no longer holds."""
    kept = [each for each in facts.get(BESIDE_PEOPLE, ()) if each.get("metric") not in names]
    others: ResultFacts = {**facts}
    others.pop(BESIDE_PEOPLE, None)
    return {**others, BESIDE_PEOPLE: kept} if kept else others


def people_section(contents: ReportContents) -> list[Block]:
    """Return the section of a report that compares its runs' scores with people's; empty if no run has any."""
    lines = [
        str(each["line"]) if len(contents.rows) == 1 else f"{view.label}: {each['line']}"
        for view, row in zip(contents.views, contents.rows, strict=True)
        for each in row.extra.get(BESIDE_PEOPLE, ())
    ]
    return [Heading("Beside people"), Bullets(tuple(lines))] if lines else []
