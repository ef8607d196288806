"""`plan --target` says what an evaluation would ask for, and asks for nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.applications.forecast import plan_application
from assaymark.cli.main import main
from tests.judges.judge_server import judging_server

APP = """
from pathlib import Path

def answer(question):
    Path("called").touch()
    return question
"""
ROWS = [{"question": f"What is {at}?", "expected": "x" * 40, "contexts": ["c"]} for at in range(10)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an application and its rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def test_calls_and_requests_of_the_judge(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows times repeats, steps of each judged scorer, tokens of its prompts; neither target nor judge is asked."""
    with judging_server(lambda _: "no") as server:
        command = [
            "plan", "--target", "app.py:answer", "--tasks", "rows.jsonl", "--scorers", "exact,faithfulness,correctness",
            "--judge", "local-chat-completions", "--judge_args", server.arguments, "--repeats", "2",
            "--store", str(folder / "s.sqlite"),
        ]  # fmt: skip
        assert main([*command, "--json"]) == 0
        content = json.loads(capsys.readouterr().out)
        assert main(command) == 0
        output = capsys.readouterr().out
        assert server.seen == []
    assert not (folder / "called").exists()
    assert not (folder / "s.sqlite").exists()
    assert (content["n_rows"], content["n_calls"], content["n_stored"]) == (10, 20, 0)
    assert [(each["scorer"], each["n_steps"], each["n_requests"]) for each in content["judged"]] == [
        ("faithfulness", 2, 40), ("correctness", 1, 20)
    ]  # fmt: skip
    faithfulness, correctness = (each["cost"] for each in content["judged"])
    assert (faithfulness["most_generated"], correctness["most_generated"]) == (40 * 2048, 20 * 2048)
    assert faithfulness["n_read"] > 40 * 100
    for text in (
        "10 rows, 20 calls",
        "faithfulness: 40 requests to judge in up to 2 steps",
        "price of judge is not known",
    ):
        assert text in output, output


def test_what_is_stored_is_not_called_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After the run nothing is left of the same plan; other rows are."""
    store = str(folder / "s.sqlite")
    run = ["--target", "app.py:answer", "--tasks", "rows.jsonl", "--scorers", "exact", "--store", store]
    assert main(["run", *run, "--quiet"]) == 0
    capsys.readouterr()
    assert main(["plan", *run]) == 0
    assert "10 rows, 10 calls, 10 of them stored already" in capsys.readouterr().out
    other: Any = plan_application("app.py:answer", ROWS[:5], scorers="exact", store=store).content
    assert (other["n_calls"], other["n_stored"]) == (5, 0)


def test_what_does_not_fit_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `run` refuses it."""
    common = ["plan", "--target", "app.py:answer", "--tasks", "rows.jsonl"]
    assert main([*common, "--scorers", "faithfulness"]) == 2
    assert "asks a judge; name one with judge=MODEL" in capsys.readouterr().err
    assert main([*common, "--mde", "2"]) == 2
    assert "--mde is for models" in capsys.readouterr().err
    assert main(["plan", "--scorers", "exact", "--tasks", "rows.jsonl", "--model", "fake"]) == 2
    assert "--scorers is for applications" in capsys.readouterr().err
