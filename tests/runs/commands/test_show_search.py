"""`assaymark show --samples TASK --search WORDS` finds samples, by an index where it was made."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.store import Store
from tests.store import examples


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Return a store with one run."""
    path = str(tmp_path / "runs.sqlite")
    with Store.open(path) as store:
        examples.summarised(store, examples.plan())
    return path


def found(place: str, capsys: pytest.CaptureFixture[str], *words: str) -> list[int]:
    """Return which samples a command shows."""
    assert main(["show", "last", "--samples", "letters", *words, "--store", place, "--json"]) == 0
    return [each["sample_index"] for each in json.loads(capsys.readouterr().out)]


def test_samples_are_searched(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an index a part of the question, with one all words in any order; --wrong and --limit narrow further."""
    assert found(place, capsys, "--search", "what is 3 + 3") == [3]
    assert found(place, capsys, "--search", "3 what") == []
    assert found(place, capsys, "--search", "3 what", "--index") == [0, 1, 2, 3, 4, 5, 6, 7]  # 3 is a choice of each
    assert found(place, capsys, "--search", '"is 3"') == [3]
    assert found(place, capsys, "--search", "what", "--wrong", "--limit", "2") == [0, 2]


def test_what_makes_no_sense_is_refused(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A search needs a task, an index a search, and a query has an end."""
    for words, said in (
        (["--search", "x"], "name the task"),
        (["--samples", "letters", "--index"], "name the words"),
        (["--samples", "letters", "--search", "x" * 5000], "at most 1,000"),
    ):
        assert main(["show", "last", *words, "--store", place]) == 2
        assert said in capsys.readouterr().err
