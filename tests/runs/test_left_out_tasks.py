"""Several named tasks are evaluated without those that need an extra which is not installed."""

import sys
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import MissingExtra
from assaymark.tasks.catalog import Catalog
from tests.tasks.folders import task_spec, write_task


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a task whose metric needs sacrebleu, which is not installed."""
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    write_task(tmp_path, task_spec(output_type="generate_until", doc_to_choice=..., metric_list=[{"metric": "bleu"}]))
    return tmp_path


def test_what_needs_a_package_is_left_out_with_a_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names with blanks between: the one that can be evaluated is, the other is named with the install command."""
    (file,) = place.glob("*.yaml")
    words = ["run", "--model", "fake", "--limit", "3", "--quiet", "--store", str(place / "s.sqlite")]
    assert main([*words, "--tasks", "demo_sums", str(file)]) == 0
    captured = capsys.readouterr()
    assert "left out: " in captured.err
    assert "pip install '.[metrics]'" in captured.err
    run = assaymark.evaluate("fake", ["demo_sums", str(file)], limit=3, store=str(place / "s.sqlite"))
    assert list(run.row.tasks) == ["demo_sums"]


def test_alone_it_is_an_error(place: Path) -> None:
    """Where no task is left there is nothing to evaluate: the error is the first one's."""
    (file,) = place.glob("*.yaml")
    with pytest.raises(MissingExtra, match="sacrebleu"):
        assaymark.evaluate("fake", str(file), store=str(place / "s.sqlite"))


def test_a_pattern_of_many_tasks_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the files of many tasks are read a line says so, and further ones how far it is."""
    monkeypatch.setattr("assaymark.tasks.catalog.MANY_TASKS", 5)
    monkeypatch.setattr("assaymark.tasks.catalog.ANNOUNCED_EVERY_S", 0.0)
    lines: list[str] = []
    catalog = Catalog.open(lm_eval=False)
    n = len(catalog.select(["demo_*"], announce=lines.append).names)
    assert lines[0] == f"'demo_*' selects {n} names; the files of their tasks are read"
    assert lines[1:] == [f"{at} of {n} names read" for at in range(n)]
    lines.clear()
    catalog.select(["demo_s*"], announce=lines.append)
    assert lines == []


def test_names_of_another_library_are_left_out() -> None:
    """A task that only lm-eval has is left out beside one that is here, and an error alone."""
    catalog = Catalog.open(lm_eval=False)
    selection = catalog.select(["asdiv", "demo_sums", "asdiv*"], leave_out=True)
    assert [task.name for task in selection.tasks] == ["demo_sums"]
    assert selection.names == ("demo_sums",)
    assert [note.partition(":")[0] for note in selection.notes] == ["left out", "left out"]
    with pytest.raises(MissingExtra):
        catalog.select(["asdiv"], leave_out=True)
