"""Scores of the subjects that a user's own rows name."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.runs.demo import demo_model
from assaymark.statistics.intervals import wilson
from assaymark.store import Store
from assaymark.tasks.own_rows import subject_of

pytest.importorskip("torch")
SMALL = demo_model("small")
SUBJECTS = ("maths", "<b>law</b>", "maths", "<b>law</b>", "maths", "history", "history", "", "maths", "history")


def write_exam(path: Path, subjects: Sequence[str], column: str = "Subject") -> Path:
    """Write a file of ten questions with a column of subjects."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "A", "B", "C", "D", "answer", column])
        for number, subject in enumerate(subjects):
            writer.writerow(
                [f"What is {number}+1?", number, number + 1, number + 2, number + 3, "ABCD"[number % 4], subject]
            )
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> assaymark.Run:
    """A run of ten questions of three subjects; one question names none."""
    folder = tmp_path_factory.mktemp("exam")
    return assaymark.evaluate(SMALL, write_exam(folder / "exam.csv", SUBJECTS), store=str(folder / "s.sqlite"))


def test_each_subject_is_the_score_of_its_own_samples(run: assaymark.Run) -> None:
    """Values are the share of right answers in the subject's rows, with Wilson's interval; the whole is unchanged."""
    credit_of: dict[str, list[float]] = {}
    for record in run.samples("exam"):
        score = next(score for score in record.scores if score.metric == "acc")
        assert isinstance(score.detail, dict)
        credit_of.setdefault(SUBJECTS[record.request.sample_index], []).append(float(score.detail["credit"]))
    subjects = {estimate.details["alias"]: estimate for estimate in run.subjects("exam")}
    assert list(subjects) == ["<b>law</b>", "history", "maths"]
    for name, estimate in subjects.items():
        right, n = sum(credit_of[name]), len(credit_of[name])
        interval = wilson(right, n)
        assert (estimate.task, estimate.n, estimate.chance) == (f"exam:{name}", n, 0.25)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((right / n, interval.low, interval.high))
    whole = run.estimate("exam")
    assert whole.n == 10
    assert whole.value == pytest.approx(sum(map(sum, credit_of.values())) / 10)
    assert run.estimate("exam:maths") == subjects["maths"]


def test_tables_exports_and_a_board_show_them(
    run: assaymark.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`show`, `--by subject`, CSV, a board's column and lm-eval's file, which knows no subjects."""
    store = run.store.url.removeprefix("sqlite:///")
    assert main(["show", run.id, "--by", "subject", "--store", store]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in ("maths", "history", "<b>law</b>"))
    assert "no task of this run has subjects" not in table
    assert main(["export", run.id, "-o", str(tmp_path / "out.csv"), "--store", store]) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text(encoding="utf-8"))))
    assert {row["task"]: row["n"] for row in rows if row["metric"] == "acc"} == {
        "exam": "10", "exam:<b>law</b>": "2", "exam:history": "3", "exam:maths": "4",
    }  # fmt: skip
    assert {row["num_fewshot"] for row in rows} == {"0"}
    assert main(["export", run.id, "-o", str(tmp_path / "out.json"), "--store", store]) == 0
    assert list(json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["results"]) == ["exam"]
    board = tmp_path / "board.yaml"
    board.write_text('title: B\ntasks: [exam, "exam:maths"]\n', encoding="utf-8")
    capsys.readouterr()
    assert main(["board", "query", str(board), "", "--json", "--store", store]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["scores"]["exam-maths"]["value"] == run.estimate("exam:maths").value
    assert row["scores"]["exam-maths"]["n"] == 4


@pytest.mark.parametrize(
    ("subjects", "column"),
    [
        (("maths",) * 10, "subject"),
        (SUBJECTS, "theme"),
        (("",) * 10, "topic"),
    ],
)
def test_one_subject_or_another_column_divides_nothing(tmp_path: Path, subjects: Sequence[str], column: str) -> None:
    """A single subject, no subject, and columns of other names give the task's score alone."""
    run = assaymark.evaluate(SMALL, write_exam(tmp_path / "exam.csv", subjects, column), store=str(tmp_path / "s"))
    assert run.subjects("exam") == ()
    assert {estimate.task for estimate in run.estimates} == {"exam"}


def test_a_published_task_is_not_divided_by_a_column_of_its_rows() -> None:
    """Rows of the package's own tasks have topics, but their tables are those of the field."""
    run = assaymark.evaluate(SMALL, "demo_who", limit=6)
    assert {estimate.details["kind"] for estimate in run.estimates} == {"task"}


def test_the_column_is_found_in_any_case_and_its_text_is_one_line() -> None:
    """The first of category, subject and topic with a text counts."""
    assert subject_of({" Topic ": "b", "SUBJECT": " a\n  c "}) == "a c"
    assert subject_of({"category": "", "topic": "t\x1b[31m"}) == "t\ufffd[31m"
    assert subject_of({"category": 3, "question": "?"}) is None
    assert len(subject_of({"subject": "x" * 500}) or "") == 80


def test_subject_comes_before_category(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of several columns of subjects the documented first one is taken, and the note names it."""
    path = write_exam(tmp_path / "two.csv", SUBJECTS, "category")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{lines[0]},Subject", *(f"{line},{'ab'[n % 2]}" for n, line in enumerate(lines[1:]))]))
    store = str(tmp_path / "s.sqlite")
    assert main(["run", "--model", "fake", "--tasks", str(path), "--store", store]) == 0
    assert "subjects: column Subject; ignored columns: category" in "".join(capsys.readouterr())
    assert subject_of({"category": "x", " Subject ": "y"}) == "y"


def test_rows_of_an_application_have_subjects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of subjects among the inputs of a target's rows has its scores too."""
    write_exam(tmp_path / "app.csv", ["maths", "law"] * 5)
    (tmp_path / "app.py").write_text("def answer(row):\n    return 'A'\n")
    monkeypatch.chdir(tmp_path)
    store = str(tmp_path / "s.sqlite")
    words = ["run", "--target", "app.py:answer", "--tasks", "app.csv", "--scorers", "exact", "--store", store]
    assert main([*words, "--quiet"]) == 0
    with Store.open_to_read(store) as opened:
        run = assaymark.Run(opened, opened.run("last").run_id)
        (task,) = run.row.tasks
        assert [estimate.details["alias"] for estimate in run.subjects(task)] == ["law", "maths"]


def test_more_subjects_than_the_limit_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column of 201 different values names no subjects, and the limit is stated."""
    path = write_exam(tmp_path / "many.csv", [f"subject {n}" for n in range(201)])
    store = str(tmp_path / "s.sqlite")
    assert main(["run", "--model", "fake", "--tasks", str(path), "--store", store, "--quiet"]) == 0
    assert main(["show", "last", "--by", "subject", "--store", store]) == 0
    printed = " ".join("".join(capsys.readouterr()).split())
    assert "2 to 200 different values" in printed
    assert "many" in printed
