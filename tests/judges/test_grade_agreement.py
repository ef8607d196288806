"""Agreement of stored grades and of files of grades with people, against scipy on the same numbers."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from assaymark.cli.main import main
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.judges.grades import GivenGrade, JudgeGrades, grade_report, judge_grade_agreement
from assaymark.judges.judge import judge_runs
from assaymark.judges.judging import JudgeOptions
from assaymark.judges.report import VoteFileOptions, judge_agreement
from assaymark.runs.evaluate import evaluate
from tests.judges.answered import answered_run, questions_task
from tests.judges.judge_server import judging_server


def given(n: int, noise: float, rater: str, seed: int) -> list[GivenGrade]:
    """Return a rater's grades of n answers whose quality is that of seed 0."""
    quality = np.random.default_rng(0).normal(5.5, 2.5, n)
    own = np.clip(np.round(quality + np.random.default_rng(seed).normal(0, noise, n)), 1, 10)
    return [GivenGrade(str(index), "", "", float(value), rater) for index, value in enumerate(own)]


def write(path: Path, grades: list[GivenGrade], **more: list[str]) -> Path:
    """Write grades as CSV."""
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["question_id", "grade", "rater", *more])
        for index, grade in enumerate(grades):
            rows.writerow([grade.question, grade.value, grade.rater, *(column[index] for column in more.values())])
    return path


def test_what_is_said_follows_from_the_correlations() -> None:
    """As good as a person, worse but usable, useless, too few, and of one grade only."""
    people = given(200, 2.0, "ada", 1) + given(200, 2.0, "alan", 2)

    def said(judge: list[GivenGrade], labels: list[GivenGrade]) -> str:
        return grade_report(JudgeGrades("j", judge), labels).trust

    assert said(given(200, 2.0, "j", 3), people).startswith("This judge can be trusted here as one more person could")
    assert said(given(200, 3.0, "j", 3), people).startswith("This judge can show large differences here")
    assert said(given(200, 60.0, "j", 3), people).startswith("This judge cannot be trusted here")
    assert said(given(200, 1.0, "j", 3), people[:200]).startswith("This judge can be trusted here for the order")
    assert said(given(200, 1.0, "j", 3), people[:40]).startswith("It cannot be said")
    equal = [GivenGrade(str(index), "", "", 7.0, "j") for index in range(200)]
    assert "are all the same" in said(equal, people)


def test_each_person_people_and_their_mean() -> None:
    """The three columns are scipy's numbers on the three kinds of pairs; people without a judge's grade count too."""
    judge, ada, alan = given(100, 1.0, "j", 3), given(120, 1.5, "ada", 1), given(100, 1.5, "alan", 2)
    result = grade_report(JudgeGrades("j", judge), ada + alan)
    own, first, second = (np.array([item.value for item in side[:100]]) for side in (judge, ada, alan))
    each = stats.spearmanr(np.append(own, own), np.append(first, second)).statistic
    assert result.judge.spearman.value == pytest.approx(each, abs=1e-12)
    assert result.with_mean.pearson.value == pytest.approx(
        stats.pearsonr(own, (first + second) / 2).statistic, abs=1e-12
    )
    assert result.with_mean.kappa is None  # means are no whole numbers
    assert result.people is not None
    both = stats.pearsonr(np.append(first, second), np.append(second, first)).statistic
    assert result.people.pearson.value == pytest.approx(both, abs=1e-12)
    assert (result.n_judged, result.n_labelled, result.n_grades, result.judge.n, result.people.n) == (
        100,
        100,
        200,
        200,
        100,
    )
    assert result.alpha is not None


def test_a_stored_judging_beside_a_file_of_grades(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Matched by the data set's own question_id, turn by turn; printed as a table and as JSON."""
    questions = [f"What is special about the number {n}?" for n in range(30)]
    task, path = questions_task(tmp_path, turns=2, questions=questions), tmp_path / "s.sqlite"
    run = answered_run("ant", task, path)

    def grade(text: str) -> str:
        number = int(text.split("about the number ", maxsplit=1)[1].split("?", maxsplit=1)[0])
        return f"[[{1 + (number * 7 + ('its double?' in text) * 3) % 10}]]" if number != 4 else "Hm."

    with judging_server(grade) as server:
        options = JudgeOptions(model_args=server.arguments)
        result = judge_runs("local-chat-completions", [run], options, store=str(path))
    people = [
        GivenGrade(str(n), "", "", 1.0 + (n * 7 + turn * 3 + n % 2) % 10, "ada") for n in range(30) for turn in (0, 1)
    ]
    human = write(tmp_path / "people.csv", people, turn=["1", "2"] * 30, model=["ant"] * 60)
    words = ["judge", "agreement", result.row.short_id, "--human", str(human), "--store", str(path)]
    assert main([*words, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["n_judged"], output["n_labelled"], output["n_without_grade"]) == (58, 58, 2)
    keys = [(n, turn) for n in range(30) for turn in (0, 1) if n != 4]
    own = [1 + (n * 7 + turn * 3) % 10 for n, turn in keys]
    theirs = [1 + (n * 7 + turn * 3 + n % 2) % 10 for n, turn in keys]
    assert output["judge"]["kendall"]["value"] == pytest.approx(stats.kendalltau(own, theirs).statistic, abs=1e-12)
    gaps = np.abs(np.array(own) - np.array(theirs))
    assert output["judge"]["mean_absolute_difference"]["value"] == pytest.approx(gaps.mean())
    assert {part: entry["n"] for part, entry in output["parts"].items()} == {"1": 29, "2": 29}
    assert output["people"] is None
    by_task = write(tmp_path / "by_task.csv", people, turn=["1", "2"] * 30, task=[result.row.tasks[0]] * 60)
    assert (
        main(["judge", "agreement", result.row.short_id, "--human", str(by_task), "--store", str(path), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["judge"] == output["judge"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "quadratic weighted kappa" in printed
    assert "Grades of the judge from 1 to 10, of people from 1 to 10" in " ".join(printed.split())


def test_questions_of_two_tasks_are_told_apart(tmp_path: Path) -> None:
    """Questions with one number in two tasks need a column `task`; with it each grade meets its own answer."""
    path = tmp_path / "s.sqlite"
    row = {"question": "q", "answer": "a"}
    files = [tmp_path / f"{name}.jsonl" for name in ("one", "two")]
    for file in files:
        file.write_text("".join(json.dumps({**row, "question": f"of {file.stem}: {n}"}) + "\n" for n in range(3)))
    run = evaluate("fake", ",".join(map(str, files)), store=str(path))
    with judging_server(lambda text: "[[2]]" if "of one:" in text else "[[9]]") as server:
        result = judge_runs(
            "local-chat-completions", [run.id], JudgeOptions(model_args=server.arguments), store=str(path)
        )
    people = [GivenGrade(str(n), "", "", grade, "ada") for grade in (2.0, 9.0) for n in range(3)]
    plain = write(tmp_path / "plain.csv", people)
    with pytest.raises(DataError, match=r"question 0 is in one and in two of .*; add a column 'task'"):
        judge_grade_agreement(result.row.run_id, plain, store=str(path))
    named = write(tmp_path / "named.csv", people, task=["one"] * 3 + ["two"] * 3)
    report = judge_grade_agreement(result.row.run_id, named, store=str(path))
    assert (report.n_judged, report.n_grades, report.judge.n) == (6, 6, 6)
    assert report.judge.mean_absolute_difference.value == 0.0


def test_two_grades_of_one_person_are_no_two_people() -> None:
    """They are not compared with each other."""
    ada, judge = given(60, 1.0, "ada", 1), JudgeGrades("j", given(60, 1.0, "j", 3))
    assert grade_report(judge, [*ada, ada[0]]).people is None


def test_files_of_grades_on_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A judge's file works as a judging does; a model or a turn that one side does not name is the only one."""
    judge = write(tmp_path / "judge.csv", given(60, 1.0, "gpt", 3), turn=["1"] * 60, model=["ant"] * 60)
    human = write(tmp_path / "people.csv", given(60, 1.0, "ada", 1))
    result = judge_grade_agreement(str(judge), human)
    assert (result.judge_name, result.n_labelled) == ("gpt", 60)
    assert main(["judge", "agreement", str(judge), "--human", str(human)]) == 0
    assert "60 answers graded by gpt, 60 of them with 60 human grades" in " ".join(capsys.readouterr().out.split())
    several = write(tmp_path / "several.csv", given(60, 1.0, "gpt", 3), model=["ant", "bee"] * 30)
    with pytest.raises(
        DataError, match=r"names the model of each answer \(ant, bee\) and the other has no column of it"
    ):
        judge_grade_agreement(str(several), human)


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    """What, where, expected and the remedy."""
    judge, human = tmp_path / "judge.csv", tmp_path / "people.csv"
    write(judge, given(60, 1.0, "gpt", 3))
    human.write_text("question_id,grade\n0,good\n")
    with pytest.raises(
        DataError,
        match=r"people\.csv, row 1: the grade is 'good'; expected a number up to 1,000,000; .* --missing 'good'",
    ):
        judge_grade_agreement(str(judge), human)
    with pytest.raises(DataError, match="none holds a grade"):
        judge_grade_agreement(str(judge), human, VoteFileOptions(missing=("good",)))
    human.write_text("question_id,mark\n0,3\n")
    with pytest.raises(DataError, match=r"expected one with the grade .* --columns grade=COLUMN"):
        judge_grade_agreement(str(judge), human)
    assert judge_grade_agreement(str(judge), human, VoteFileOptions(human_columns={"grade": "mark"})).n_labelled == 1
    with pytest.raises(UnknownName, match="unknown part of a grade 'grad'; nearest: grade"):
        judge_grade_agreement(str(judge), human, VoteFileOptions(human_columns={"grad": "mark"}))
    human.write_text("question_id,grade\nx,3\n")
    with pytest.raises(DataError, match="have none in common; they are matched by question, turn and model"):
        judge_grade_agreement(str(judge), human)
    with pytest.raises(UsageError, match=r"file not found: absent\.csv"):
        judge_grade_agreement(str(judge), "absent.csv")


def test_votes_without_turns_match_a_judging_of_one_turn(tmp_path: Path) -> None:
    """A file of votes needs no column of turns where the judged questions have one turn."""
    task, path = questions_task(tmp_path), tmp_path / "s.sqlite"
    runs = [answered_run("ant", task, path), answered_run("bee", task, path)]
    with judging_server(lambda _: "[[C]]") as server:
        options = JudgeOptions(prompt="pair", model_args=server.arguments)
        result = judge_runs("local-chat-completions", runs, options, store=str(path))
    human = tmp_path / "votes.csv"
    human.write_text("question_id,model_a,model_b,winner\n" + "".join(f"{n},ant,bee,tie\n" for n in range(8)))
    report = judge_agreement(result.row.short_id, human, store=str(path))
    assert (report.agreement.n_labelled, report.agreement.judge.n_agreeing) == (8, 8)
