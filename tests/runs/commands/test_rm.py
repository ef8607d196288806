"""`assaymark rm`: what it removes, and what it refuses."""

import io
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.store import Store
from tests.store import examples


def test_the_removed_rows_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line has the numbers of removed rows."""
    path = str(tmp_path / "runs.sqlite")
    with Store.open(path) as store:
        run_id = examples.fill(store, examples.plan())
    assert main(["rm", "last", "-y", "--store", path]) == 0
    said = capsys.readouterr().out
    assert f"removed {run_id[:8]}: 8 requests, 32 outputs, 16 scores and" in said


def test_a_run_that_is_being_written_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has its process, and none of the named runs is removed."""
    path = str(tmp_path / "runs.sqlite")
    with Store.open(path) as store:
        examples.fill(store, examples.plan())
        running = examples.fill(store, examples.plan(("words",)), finish=False)
        assert main(["rm", "last~1", "last", "-y", "--store", path]) == 4
        said = capsys.readouterr().err
        assert f"run {running[:8]} is being written by process" in said
        assert len(store.runs()) == 2


def test_a_question_that_nobody_answers_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the end of the input one line says so, and not that responses are stored; n is an answer."""
    place = str(tmp_path / "s.sqlite")
    assert main(["run", "--model", "fake", "--tasks", "demo_facts", "--limit", "2", "--quiet", "--store", place]) == 0
    for typed, code, said in (("", 2, "nothing was removed: the question was not answered"), ("n\n", 0, "nothing was")):
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert main(["rm", "last", "--store", place]) == code
        printed = "".join(capsys.readouterr())
        assert said in printed
        assert "responses" not in printed
    with Store.open_to_read(place) as store:
        assert len(store.runs()) == 1
