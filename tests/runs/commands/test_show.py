"""`assaymark show` of runs without results."""

from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.store import Store
from tests.store import examples


def test_a_run_that_failed_before_its_first_response_shows_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty table and an empty list of samples are explained."""
    path = str(tmp_path / "runs.sqlite")
    with Store.open(path) as store:
        refused = store.open_run(examples.plan(("letters",)), facts={})
        store.close_run(refused.run_id, refused.attempt_id, "failed", {"error": "UsageError: no chat template"})
    expected = f"run {refused.run_id[:8]} failed before its first response: UsageError: no chat template"
    assert main(["show", "last", "--store", path]) == 0
    assert expected in capsys.readouterr().out
    assert main(["show", "last", "--samples", "letters", "--store", path]) == 0
    assert expected in capsys.readouterr().err


def test_an_interrupted_run_shows_its_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its empty table is explained, and a report or export of it is refused instead of being empty."""
    path = str(tmp_path / "runs.sqlite")
    with Store.open(path) as store:
        stopped = store.open_run(examples.plan(), facts={})
        store.add_requests(stopped.run_id, examples.requests(), examples.samples())
        store.add(stopped.run_id, stopped.attempt_id, examples.outputs_for(examples.requests()[0]))
        store.close_run(stopped.run_id, stopped.attempt_id, "interrupted")
    assert main(["show", "last", "--store", path]) == 0
    assert "4 outputs are stored; the same command continues the run" in capsys.readouterr().out
    for words in (["report", "last", "-o", "x.md"], ["export", "last", "-o", "x.csv"], ["reproduce", "last"]):
        at = [str(tmp_path / word) if word.startswith("x.") else word for word in words]
        assert main([*at, "--store", path]) == 2
        assert "no results yet (it is interrupted, with 4 outputs)" in capsys.readouterr().err
    assert list(tmp_path.glob("x.*")) == []
