"""`assaymark ls`."""

from pathlib import Path

import pytest

from assaymark.cli.main import main


@pytest.mark.parametrize(("word", "near"), [("modles", "models"), ("run", "runs"), ("sutes", "suites")])
def test_a_mistyped_kind_is_an_error_with_the_nearest_one(
    word: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that is neither a kind of list nor in the name of any task ends with exit code 2."""
    assert main(["ls", f"{word}zz" if word == "run" else word]) == 2
    output = capsys.readouterr().err
    assert f"nearest: {near}" in output
    assert "kinds: tasks, groups, tags, suites, models" in output


def test_a_store_that_is_named_and_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path is named and not created; before the first run, the default store has nothing to list."""
    place = tmp_path / "typo.sqlite"
    for kind in ("runs", "audits"):
        assert main(["ls", kind, "--store", str(place)]) == 2
        assert f"there is no store at {place}" in capsys.readouterr().err
    monkeypatch.delenv("ASSAYMARK_STORE", raising=False)
    assert main(["ls", "runs"]) == 0
    assert "nothing found" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
