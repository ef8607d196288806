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
    expected = f"run {refused.run_id[:8]} failed before any answer: UsageError: no chat template"
    assert main(["show", "last", "--store", place]) == 0
    assert expected in capsys.readouterr().out
    assert main(["show", "last", "--samples", "letters", "--store", place]) == 0
    assert expected in capsys.readouterr().err
