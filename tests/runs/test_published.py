"""Comparison of a stored run with published results."""

import json
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.runs.published import Claim, compare_published, parse_claim
from assaymark.runs.run import Run
from assaymark.statistics.groups import compare_shares


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a small finished run of the fake model."""
    return assaymark.evaluate("fake", ["demo_who"], limit=20, store=str(tmp_path / "store.sqlite"))


def test_a_claim_is_parsed() -> None:
    """Task, metric, value, shots, n and source are parsed; a percentage becomes a share."""
    text = "arc_challenge acc=0.328 shots=25 n=1,172 source=https://x.org/?a=b"
    assert parse_claim(text) == Claim("arc_challenge", "acc", 0.328, 1172, 25, "https://x.org/?a=b")
    assert parse_claim("t acc_norm=32.8%").value == pytest.approx(0.328)


@pytest.mark.parametrize("text", ["", "t", "t acc", "t acc=1 f1=1", "t acc=32.8", "t acc=x", "t acc=0.5 n=0", "t n=3"])
def test_an_invalid_claim_is_refused(text: str) -> None:
    """A missing value, two values, a percentage without its sign and invalid counts are each refused."""
    with pytest.raises(UsageError):
        parse_claim(text)


def test_the_test_is_the_unpaired_one(run: Run, tmp_path: Path) -> None:
    """Difference, interval and p are those of two independent shares; run minus claim."""
    estimate = run.estimate("demo_who", "acc")
    value = estimate.details["lm_eval_value"]
    assert isinstance(value, float)
    (result,) = compare_published(str(tmp_path / "store.sqlite"), "last", ["demo_who acc=0.9 n=1000 shots=0"])
    expected = compare_shares(900, 1000, round(value * 20), 20)
    assert result.comparison == expected
    assert result.comparison.difference == pytest.approx(value - 0.9)
    assert "differs significantly from" in result.verdict
    (result,) = compare_published(str(tmp_path / "store.sqlite"), "last", [f"demo_who acc={value} n=20 shots=0"])
    assert "is not significantly different from" in result.verdict
    assert result.comparison.p == 1.0


def test_differences_in_the_set_up_are_listed(run: Run, tmp_path: Path) -> None:
    """Fewer samples, and facts that the claim does not state, are listed under the verdict."""
    store = str(tmp_path / "store.sqlite")
    (result,) = compare_published(store, run.id, ["demo_who acc=0.3 shots=25 n=1000"])
    assert result.set_up == ("samples: 20 in this run, 1,000 in the claim",)
    (result,) = compare_published(store, run.id, ["demo_who acc=0.3"])
    assert any("not stated in the claim; assumed to be the whole split" in line for line in result.set_up)


def test_other_shots_are_not_comparable(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result with other shots is reported as not comparable, without a p."""
    store = str(tmp_path / "store.sqlite")
    claim = "demo_who acc=0.3 shots=25 n=1000"
    assert main(["compare", run.id, "--published", claim, "--store", store]) == 0
    said = capsys.readouterr().out
    assert said.startswith("not comparable: shots 0 against 25: demo_who acc is ")
    assert "p =" not in said
    assert main(["compare", run.id, "--published", claim, "--store", store, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["p"] is None
    assert result["not_comparable"] == "shots 0 against 25"


def test_claims_are_stored_with_the_run(run: Run, tmp_path: Path) -> None:
    """A claim and its source are stored with the run once; estimates stay, and the store verifies."""
    before = run.estimates
    for _ in range(2):
        compare_published(str(tmp_path / "store.sqlite"), "last", ["demo_who acc=0.3 n=100 source=paper"])
    kept = run.row.extra["claims"]
    assert [(each["task"], each["value"], each["source"]) for each in kept] == [("demo_who", 0.3, "paper")]
    assert run.estimates == before
    assert run.verify() == []


def test_unknown_tasks_and_two_runs_are_refused(run: Run, tmp_path: Path) -> None:
    """The error for a task that was not run has the run's tasks, and two runs are refused."""
    store = str(tmp_path / "store.sqlite")
    with pytest.raises(UnknownName):
        compare_published(store, "last", ["demo_whom acc=0.3 n=100"])
    assert main(["compare", run.id, run.id, "--published", "demo_who acc=0.3 n=9", "--store", store]) == 2


def test_the_command_prints_text_and_json(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compare RUN --published` prints a verdict, and its numbers as JSON."""
    words = ["compare", run.id, "--published", "demo_who acc=0.3 n=100 source=URL", "--store"]
    assert main([*words, str(tmp_path / "store.sqlite")]) == 0
    assert "published 30.0% of 100" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "store.sqlite"), "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["claim"]["source"] == "URL"
    assert result["low"] < result["difference"] < result["high"]
