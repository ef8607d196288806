"""One faulty declaration of a user's file is named where it is used, and leaves the others usable."""

from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import DataError

FILE = '''"""Declarations, one of them faulty."""
from __future__ import annotations

import assaymark


@assaymark.metric
def faulty(references, predictions):
    return 0.0


@assaymark.aggregation
def least(items: NotDefinedAnywhere) -> float:
    return min(items)


@assaymark.metric(formula="1, always", aggregation="least")
def sound(references, predictions):
    return 1.0


@assaymark.task(doc_to_text="{{q}}", doc_to_target="{{a}}", metric_list=[{"metric": "METRIC"}])
def questions():
    return [{"q": "1", "a": "2"}, {"q": "2", "a": "3"}]
'''


def test_an_aggregation_needs_no_parentheses_and_others_of_the_file_work(tmp_path: Path) -> None:
    """A task with the sound metric and the bare aggregation runs, though the file has a faulty metric."""
    (tmp_path / "mine.py").write_text(FILE.replace("METRIC", "sound"))
    run = assaymark.evaluate("fake", "questions", include_path=[tmp_path], store=str(tmp_path / "s.sqlite"))
    assert run.estimate("questions", "sound").value == 1.0


def test_the_faulty_one_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is used: one line with file, line, name and what to write; exit code 3."""
    (tmp_path / "mine.py").write_text(FILE.replace("METRIC", "faulty"))
    words = ["run", "--model", "fake", "--tasks", "questions", "--include_path", str(tmp_path)]
    assert main([*words, "--store", str(tmp_path / "s.sqlite"), "--quiet"]) == 3
    error = capsys.readouterr().err
    assert f"{tmp_path / 'mine.py'}, line 7, declares faulty, which fails: TypeError: a metric says what it is" in error
    assert "@assaymark.metric(formula=" in error
    assert error.count("\n") == 1


def test_other_statements_still_fail_the_file(tmp_path: Path) -> None:
    """An error outside a declaration leaves the file unusable, as before, with its line."""
    (tmp_path / "mine.py").write_text(
        FILE.replace("METRIC", "sound").replace("import assaymark\n", "import assaymark\n1 / 0\n")
    )
    with pytest.raises(DataError, match="line 5, fails to import: ZeroDivisionError"):
        assaymark.evaluate("fake", "questions", include_path=[tmp_path], store=str(tmp_path / "s.sqlite"))


def test_a_used_faulty_declaration_is_said_of_a_run_that_does_not_use_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that works without the faulty declaration names it in a note."""
    (tmp_path / "mine.py").write_text(FILE.replace("METRIC", "sound"))
    words = ["run", "--model", "fake", "--tasks", "questions", "--include_path", str(tmp_path)]
    assert main([*words, "--store", str(tmp_path / "s.sqlite"), "--quiet"]) == 0
    assert "declares faulty, which fails" in capsys.readouterr().err
