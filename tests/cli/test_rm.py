"""`evalstone rm`: what it takes away, and what it does not."""

from pathlib import Path

import pytest

from evalstone.cli.main import main
from evalstone.store import Store
from tests.store import examples


def test_what_was_removed_is_said_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line tells how much went."""
    place = str(tmp_path / "runs.sqlite")
    with Store.open(place) as store:
        run_id = examples.fill(store, examples.plan())
    assert main(["rm", "last", "-y", "--store", place]) == 0
    said = capsys.readouterr().out
    assert f"removed {run_id[:8]}: 8 requests, 32 outputs, 16 scores and" in said


def test_a_run_that_is_written_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its process is named, and of the runs that were named with it none is removed."""
    place = str(tmp_path / "runs.sqlite")
    with Store.open(place) as store:
        examples.fill(store, examples.plan())
        running = examples.fill(store, examples.plan(("words",)), finish=False)
        assert main(["rm", "last~1", "last", "-y", "--store", place]) == 4
        said = capsys.readouterr().err
        assert f"run {running[:8]} is being written by process" in said
        assert len(store.runs()) == 2
