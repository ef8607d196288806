"""A scorer that scores nothing is an error that names it, whatever the requests did."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main

APPLICATION = """
import assaymark

def answer(question):
    if question == "down":
        raise RuntimeError("no answer")
    return question

@assaymark.scorer
def raising(output):
    raise ValueError("not today")

@assaymark.scorer
def silent(output):
    return None
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with an application and two rows."""
    (tmp_path / "app.py").write_text(APPLICATION)
    rows = [{"question": "a", "expected": "a"}, {"question": "b", "expected": "c"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(place: Path, scorers: str) -> int:
    """Evaluate the application; return the exit code."""
    return main(["run", "--target", f"{place}/app.py:answer", "--tasks", f"{place}/rows.jsonl", "--scorers", scorers,
                 "--store", f"{place}/s.sqlite", "--quiet"])  # fmt: skip


@pytest.mark.parametrize("beside", ["", "exact,"])
@pytest.mark.parametrize(("name", "why"), [("raising", "scorer raising raised ValueError: not today"),
                                           ("silent", "it returned no score")])  # fmt: skip
def test_a_scorer_that_scores_nothing_fails_the_run(
    place: Path, name: str, why: str, beside: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 6 and the scorer's reason, alone and beside one that works; the requests are not called failed."""
    assert run(place, f"{beside}{place}/app.py:{name}") == 6
    captured = capsys.readouterr()
    assert f"error: rows {name}: no answer could be scored, so there is no result: {why}" in captured.err
    assert "requests failed" not in captured.out + captured.err
    assert "every request" not in captured.err


def test_scores_of_some_answers_are_a_result(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scorer that fails on one row only leaves a result; failed requests are still called so."""
    rows = [{"question": "a", "expected": "a"}, {"question": "down", "expected": "a"}]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(place, "exact") == 0
    assert "1 failed, excluded" in " ".join(capsys.readouterr().out.split())
    (place / "rows.jsonl").write_text(json.dumps(rows[1]) + "\n")
    assert run(place, "exact") == 5
    assert "all requests failed" in " ".join(capsys.readouterr().out.split())
