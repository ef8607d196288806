"""Reports with what others claim of models: hollow marks with a source, beside what was measured."""

from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.documents.blocks import Figure
from assaymark.results.report.contents import report_contents
from assaymark.results.report.document import document_blocks
from assaymark.runs.reporting import read_claims
from assaymark.runs.run import Run

CLAIMS = """
- {model: Giant 9000, source: "its release post, 3 May 2026", scores: {demo_who: 88.5, demo_sums: 97}}
- {model: Tiny, source: its card, scores: {demo_who: 41}}
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run of two tasks."""
    (tmp_path / "claims.yaml").write_text(CLAIMS)
    return assaymark.evaluate("fake", "demo_who,demo_sums", limit=20, store=str(tmp_path / "s.sqlite"))


def layers(spec: Any) -> list[Any]:
    """Return the single layers of a chart, also of layers in layers."""
    return [inner for part in spec["layer"] for inner in layers(part)] if "layer" in spec else [spec]


def test_claims_are_hollow_marks_without_intervals(run: Run, tmp_path: Path) -> None:
    """The chart of values has one layer of hollow marks with exactly the claimed values; measured ones stay filled."""
    claims = read_claims(tmp_path / "claims.yaml")
    blocks = document_blocks(report_contents(run.store, [run.id], claims))
    figure = next(block for block in blocks if isinstance(block, Figure) and block.name == "values")
    drawn = [layer for spec in figure.specs for layer in layers(spec)]
    points = [layer for layer in drawn if layer["mark"].get("type") == "point"]
    hollow = [layer for layer in points if layer["mark"]["filled"] is False]
    assert [len(points), len(hollow)] == [2, 1]
    values = {(row["model"], row["task"].strip()): row["value"] for row in hollow[0]["data"]["values"]}
    assert values == {("Giant 9000", "demo_who"): 0.885, ("Giant 9000", "demo_sums"): 0.97, ("Tiny", "demo_who"): 0.41}
    assert "Hollow marks" in figure.caption


@pytest.mark.parametrize("ending", ["html", "md"])
def test_the_report_names_each_source(run: Run, tmp_path: Path, ending: str) -> None:
    """Every claimed value stands in a table with its model and source; names of models are escaped."""
    (tmp_path / "claims.yaml").write_text(CLAIMS.replace("Tiny", "'<b>Tiny</b>'"))
    words = ["report", "last", "--claims", str(tmp_path / "claims.yaml"), "--store", str(tmp_path / "s.sqlite")]
    assert main([*words, "-o", str(tmp_path / f"r.{ending}")]) == 0
    text = (tmp_path / f"r.{ending}").read_text()
    assert "Claimed by others" in text
    assert "its release post, 3 May 2026" in text
    assert "88.5%" in text
    assert "<b>Tiny" not in text


@pytest.mark.parametrize(
    ("content", "expected", "code"),
    [
        ("- {model: A, scores: {demo_who: 50}}", "claim 1 lacks its model or source", 3),
        ("- {model: A, source: b}", "claim 1 has no scores", 3),
        ("- {model: A, source: b, scores: {demo_who: 150}}", "demo_who is 150; expected per cent, 0 to 100", 3),
        ("- {model: A, source: b, scores: {demo_who: .nan}}", "expected per cent", 3),
        ("- {model: A, source: b, scores: {mmlu: 50}}", "is claimed to have a value of 'mmlu'", 2),
        ("[]", "has no claims", 3),
        ("- {model: 5, source: b, scores: {demo_who: 50}}", "claim 1: model is 5; expected a text", 3),
        ("- {model: A, source: b, url: c, scores: {demo_who: 50}}", "claim 1 has the key url; expected model,", 3),
        ("just words", "expected a list of {model: NAME", 3),
    ],
)
def test_each_fault_of_the_file_is_one_line(
    run: Run, tmp_path: Path, content: str, expected: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong and what was expected; no report is written."""
    (tmp_path / "claims.yaml").write_text(content)
    words = ["report", run.id, "--claims", str(tmp_path / "claims.yaml"), "--store", str(tmp_path / "s.sqlite")]
    assert main([*words, "-o", str(tmp_path / "r.md")]) == code
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "r.md").exists()


def test_shares_in_place_of_per_cent_are_pointed_out(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.99 is 0.99 per cent, and a line asks whether 99 was meant."""
    (tmp_path / "claims.yaml").write_text("- {model: A, source: b, scores: {demo_who: 0.99}}")
    words = ["report", run.id, "--claims", str(tmp_path / "claims.yaml"), "--store", str(tmp_path / "s.sqlite")]
    assert main([*words, "-o", str(tmp_path / "r.md")]) == 0
    assert "if these are shares, write 99 for 0.99" in capsys.readouterr().err
