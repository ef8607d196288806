"""`assaymark recommend` as people type it."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main

TABLE = "model,params,license,GSM8K,IFEval\na/one,7,apache-2.0,60,70\nb/two,3,apache-2.0,50,60\nc/big,70,mit,90,90\n"


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Return a published table."""
    (tmp_path / "scores.csv").write_text(TABLE)
    return str(tmp_path / "scores.csv")


def test_a_table_is_ranked_and_printed(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The issue's own command over a table: the order, the sizes, the reasons."""
    words = ["recommend", "--for", "maths,instructions", "--max-params", "8", "--license", "apache-2.0"]
    assert main([*words, "--table", table]) == 0
    printed = capsys.readouterr().out
    assert printed.index("a/one") < printed.index("b/two")
    assert "c/big" not in printed
    assert "IFEval 70.0" in " ".join(printed.split())
    assert "Best of each size" in printed


def test_json_is_whole_and_says_what_has_no_evidence(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Values are shares; a table without sizes has no standard errors and so no probabilities."""
    assert main(["recommend", "--for", "math,code", "--table", table, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["for"] == ["maths", "code"]
    assert [each["for"] for each in output["no_evidence"]] == ["code"]
    (ranking,) = output["rankings"]
    assert [(item["model"], item["value"]) for item in ranking["models"]] == [
        ("c/big", 0.9),
        ("a/one", 0.6),
        ("b/two", 0.5),
    ]
    assert ranking["models"][0]["p_better_than_next"] is None


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["--for", "mathz"], "unknown capability 'mathz'; nearest: math", 2),
        (["--for", "maths", "--where", "typ:chat"], "unknown search key 'typ'", 2),
        (["--for", "maths", "--table", "gone.csv"], "file not found: gone.csv", 2),
        (["--for", ","], "0 capabilities were requested", 2),
    ],
)
def test_each_fault_is_one_line(
    table: str, words: list[str], said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong, and what was expected."""
    assert main(["recommend", *words, *(["--table", table] if "--table" not in words else [])]) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
