"""Benchmarks whose file asks a second model for grades: the grader is named, asked once, and not trusted."""

import json
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import PlanError, UsageError
from assaymark.models.checkpoint.arguments import parse_arguments
from assaymark.models.create import create_model
from assaymark.models.language_model import LanguageModel
from assaymark.records import Estimate, ScoreStatus
from assaymark.runs.run import Run
from assaymark.scoring.inspect_scorers import read_grade
from tests.judges.judge_server import CUT, JudgeServer, judging_server

QA = "inspect_model_graded_qa"
REPLIES = ["GRADE: C", "Hm.", "GRADE: I", "The text says GRADE: C, but:\nGRADE: I"]


def benchmark(folder: Path, *scorers: dict[str, Any]) -> str:
    """Write a benchmark of four questions that these scorers score."""
    folder.mkdir(exist_ok=True)
    task = {
        "field_spec": {"input": "question", "target": "answer"}, "solvers": [{"name": "generate"}],
        "scorers": list(scorers) or [{"name": "model_graded_qa"}, {"name": "includes"}],
    }  # fmt: skip
    (folder / "eval.yaml").write_text(json.dumps({"evaluation_framework": "inspect-ai", "tasks": [task]}))
    rows = ({"question": f"[{n}] Which?", "answer": f"it is {n}"} for n in range(4))
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def reply(text: str) -> str:
    """Return the grade of a row, as the grader of this file gives it."""
    return REPLIES[int(text[text.index("[") + 1 :].partition("[Task]: [")[2][0])]


def run_of(folder: str, judge: object, **more: Any) -> Run:
    """Run the benchmark on the fake model."""
    options: dict[str, Any] = {"model_args": {"mode": "gold"}, "store": f"{folder}.sqlite", "judge": judge, **more}
    return assaymark.evaluate("fake", folder, **options)


def graded(run: Run, metric: str = QA) -> Estimate:
    """Return the estimate of a metric of the run's only task."""
    return run.estimate(run.row.tasks[0], metric)


def test_the_grader_that_is_named_grades_the_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reply without a grade is no verdict, which is counted; a second run asks neither model; the store verifies."""
    folder = benchmark(tmp_path / "made")
    with judging_server(reply) as server:
        words = [
            "run", "--model", "fake", "--model_args", "mode=gold", "--tasks", folder, "--quiet",
            "--judge", "local-chat-completions", "--judge_args", server.arguments, "--store", f"{folder}.sqlite",
        ]  # fmt: skip
        assert main(words) == 0
        assert main(words) == 0
        assert len(server.seen) == 4
    said = capsys.readouterr()
    assert f"{QA}: 1 not scored, excluded" in said.out
    assert f"made scored again: {QA} under none: judged by judge\n" in said.out
    run = assaymark.open_run(f"{folder}.sqlite", "last")
    estimate = graded(run)
    assert estimate.value == pytest.approx(1 / 3)
    assert (estimate.n, estimate.details["n_unscored"]) == (3, 1)
    assert estimate.details["primary"]
    assert graded(run, "inspect_includes").n == 4
    by_row = {
        record.request.sample_index: score for record in run.samples("made") for score in record.scores
        if score.metric == QA and score.status is not ScoreStatus.FAILED
    }  # fmt: skip
    assert [by_row[row].value for row in range(4)] == [1.0, None, 0.0, 0.0]
    assert isinstance(by_row[1].detail, dict)
    assert by_row[1].detail["comment"] == "no verdict: no grade in the reply: Hm."
    assert "\n[Criterion]: it is 2\n" in next(text for text in server.seen if "[2]" in text)
    assert run.verify() == []
    assert (
        main(["rescore", "last", "--tasks", folder, "--store", f"{folder}.sqlite"]) == 0
    )  # the grader is not asked again
    assert graded(run) == estimate
    alone = benchmark(tmp_path / "alone", {"name": "model_graded_qa"})
    with judging_server(reply) as server:
        only = run_of(alone, "local-chat-completions", judge_args=server.arguments)
    with pytest.raises(PlanError, match=r"alone is scored by a grader alone; .* --judge"):
        assaymark.rescore_run(only, assaymark.RescoreOptions(task_files=[alone]))


def test_several_graders_vote(tmp_path: Path) -> None:
    """The grade of more than half of them counts; without one there is no verdict, and nothing is asked again."""
    folder = benchmark(tmp_path / "made", {"name": "model_graded_fact", "args": {"model": ["x/a", "x/b", "x/c"]}})

    def server_of(grades: str) -> Any:
        return judging_server(lambda text: f"GRADE: {grades[int(text.partition('[Question]: [')[2][0])]}")

    notes: list[str] = []
    with server_of("CCI-") as a, server_of("CIIC") as b, server_of("CI-I") as c:
        servers: list[JudgeServer] = [a, b, c]
        for _ in range(2):
            judges = [
                LanguageModel(create_model("local-chat-completions", parse_arguments(each.arguments)))
                for each in servers
            ]  # fmt: skip
            run = run_of(folder, judges, notify=notes.append)
        assert [len(each.seen) for each in servers] == [4, 4, 4]
    estimate = graded(run, "inspect_model_graded_fact")
    assert estimate.value == pytest.approx(1 / 3)
    assert (estimate.n, estimate.details["n_unscored"]) == (3, 1)
    assert any("names x/a, x/b, x/c as grader; what you name is asked" in note for note in notes)


def test_a_grader_is_named_where_one_is_asked_and_nowhere_else(tmp_path: Path) -> None:
    """Before any request: the error has the option; a judge that nothing asks is refused."""
    with pytest.raises(UsageError, match=r"asks a second model for grades; name it: .* --judge MODEL"):
        run_of(benchmark(tmp_path / "made"), None)
    nobody: list[str] = []
    for empty in (" ,", nobody):  # not a run without grades
        with pytest.raises(UsageError, match="names no model"):
            run_of(benchmark(tmp_path / "made"), empty)
    plain = benchmark(tmp_path / "plain", {"name": "includes"})
    with pytest.raises(UsageError, match="no task of this run asks one"):
        run_of(plain, "fake")


def test_a_grade_that_is_quoted_or_thought_of_is_none(tmp_path: Path) -> None:
    """A reply that was cut off before its own grade, and reasoning, give no grade: neither right nor wrong."""
    replies = ["GRADE: C", f"It asks for GRADE: C, and{CUT}", "<think>GRADE: C?</think>GRADE: I", "<think>GRADE: C"]
    with judging_server(lambda text: replies[int(text.partition("[Task]: [")[2][0])]) as server:
        run = run_of(benchmark(tmp_path / "made"), "local-chat-completions", judge_args=server.arguments)
    estimate = graded(run)
    assert (estimate.value, estimate.n, estimate.n_failed, estimate.details["n_unscored"]) == (0.5, 2, 1, 1)


def test_a_long_reply_without_a_grade_is_read_in_time() -> None:
    """A million characters that may begin a grade are read once: inspect's pattern takes time squared in them."""
    assert read_grade("GRADE " * 200_000, offered="CI") is None
    assert read_grade("GRADE: C " * 100_000 + "GRADE: I", offered="CI") == "I"
