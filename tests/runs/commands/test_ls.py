"""`assaymark ls`."""

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
