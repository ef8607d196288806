"""`evalstone show` of runs that have little to show."""

from pathlib import Path

import pytest

from evalstone.cli.main import main
from evalstone.store import Store
from tests.store import examples


def test_a_run_that_failed_before_any_answer_says_so_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither its table nor its samples are empty without a word."""
    place = str(tmp_path / "runs.sqlite")
    with Store.open(place) as store:
        refused = store.open_run(examples.plan(("letters",)), facts={})
        store.close_run(refused.run_id, refused.attempt_id, "failed", {"error": "UsageError: no chat template"})
    expected = f"run {refused.run_id[:8]} failed before its first response: UsageError: no chat template"
    assert main(["show", "last", "--store", place]) == 0
    assert expected in capsys.readouterr().out
    assert main(["show", "last", "--samples", "letters", "--store", place]) == 0
    assert expected in capsys.readouterr().err


def test_a_run_that_was_stopped_says_how_far_it_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its table is empty for a reason that is told, and what would be made of it is refused, not made empty."""
    place = str(tmp_path / "runs.sqlite")
    with Store.open(place) as store:
        stopped = store.open_run(examples.plan(), facts={})
        store.add_requests(stopped.run_id, examples.requests(), examples.samples())
        store.add(stopped.run_id, stopped.attempt_id, examples.outputs_for(examples.requests()[0]))
        store.close_run(stopped.run_id, stopped.attempt_id, "interrupted")
    assert main(["show", "last", "--store", place]) == 0
    assert "4 outputs are stored; the same command continues the run" in capsys.readouterr().out
    for words in (["report", "last", "-o", "x.md"], ["export", "last", "-o", "x.csv"], ["reproduce", "last"]):
        at = [str(tmp_path / word) if word.startswith("x.") else word for word in words]
        assert main([*at, "--store", place]) == 2
        assert "no results yet (it is interrupted, with 4 outputs)" in capsys.readouterr().err
    assert list(tmp_path.glob("x.*")) == []
