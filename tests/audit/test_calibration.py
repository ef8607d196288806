"""The calibration audit of stored runs, and the audit commands."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import assaymark
from assaymark.audit.auditing import audit_calibration
from assaymark.audit.calibration import ALL, calibration_of
from assaymark.audit.documents import calibration_document
from assaymark.cli.main import cli, main
from assaymark.documents.terminal import as_text
from assaymark.errors import DataError, UnknownName
from assaymark.randomness import generator_for
from tests.tasks.folders import task_spec, write_rows, write_task

ROWS = [{"question": f"Number {i}?", "choices": ["a", "b", "c"], "answer": i % 3} for i in range(60)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tasks."""
    write_rows(tmp_path, ROWS, ROWS)
    for name in ("one", "two"):
        write_task(tmp_path, task_spec(name))
    return tmp_path


def test_a_calibrated_model_is_not_reported_as_miscalibrated() -> None:
    """Answers that are correct as often as the confidence states have an error near its null and a slope near 1."""
    draw = generator_for("calibrated")
    confidences = draw.uniform(0.25, 1.0, 3000)
    pairs = [(float(c), float(draw.random() < c)) for c in confidences]
    result = calibration_of("made", pairs)
    assert result.error.p > 0.01
    assert result.error.value < result.error.null_high * 1.3
    assert result.platt.slope == pytest.approx(1.0, abs=0.15)
    assert result.selective[-1] == (1.0, result.accuracy)


def test_overconfidence_is_reported() -> None:
    """A model with confidence 95% and accuracy 60% has an error of 35 points."""
    draw = generator_for("overconfident")
    pairs = [(0.95, float(draw.random() < 0.6)) for _ in range(500)]
    result = calibration_of("made", pairs)
    assert result.error.value == pytest.approx(0.35, abs=0.06)
    assert result.error.p < 0.01


def test_a_stored_run_is_audited_by_task_and_pooled(folder: Path) -> None:
    """Each multiple-choice task has its curve, and all together one more."""
    run = assaymark.evaluate("fake", ["one", "two"], include_path=[folder])
    result = audit_calibration(run)
    assert [audit.task for audit in result] == ["one", "two", ALL]
    assert result[-1].n == 120
    assert [audit.task for audit in audit_calibration(run, ["two"])] == ["two"]
    with pytest.raises(UnknownName, match="nearest"):
        audit_calibration(run, ["tow"])


def test_too_few_samples_are_refused(folder: Path) -> None:
    """Ten answers are too few for a curve, and the error states how many there are."""
    run = assaymark.evaluate("fake", "one", include_path=[folder], limit=10)
    with pytest.raises(DataError, match="this run has 10 answered multiple-choice samples; expected 40"):
        audit_calibration(run)


def test_small_tasks_are_pooled_too(folder: Path) -> None:
    """A task without a row of its own counts among all, and many small ones have that row alone."""
    write_rows(folder, ROWS[:39], ROWS[:39])
    for name in ("one", "two"):
        write_task(folder, task_spec(name))
    run = assaymark.evaluate("fake", ["one", "two"], include_path=[folder])
    assert [(audit.task, audit.n) for audit in audit_calibration(run)] == [(ALL, 78)]


@pytest.mark.parametrize(
    ("credit", "said"), [(1.0, "all answers are right): under"), (0.0, "all answers are wrong): over")]
)
def test_without_both_right_and_wrong_answers_there_is_no_slope(credit: float, said: str) -> None:
    """The direction is that of the mean confidence, and nothing is called a slope of 0."""
    audit = calibration_of("made", [(0.9 + 0.001 * at, credit) for at in range(76)])
    assert audit.platt.slope is None
    assert f"no Platt slope ({said}confident" in as_text(calibration_document([audit]), 120)


@pytest.mark.slow
def test_audits_write_json_and_print(folder: Path) -> None:
    """Every audit prints, returns JSON, and writes it with -o; contamination tests state what they do not show."""
    shared = ["--include_path", str(folder), "-q"]
    path = folder / "out" / "found.json"
    words = ["audit", "contamination", "fake", "one", "--shards", "4", "--shuffles", "3", *shared, "-o", str(path)]
    result = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert "Does not show" in result
    written = json.loads(path.read_text())
    assert {test["test"] for test in written} == {"order", "options", "numbers", "min-k"}
    assert all(test["not_shown"] for test in written)
    for kind in (["prompts", "fake", "one", *shared], ["calibration", "--model", "fake", "--tasks", "one", *shared]):
        actual = CliRunner().invoke(cli, ["audit", *kind, "--json"], catch_exceptions=False).output
        json.loads(actual)
        assert CliRunner().invoke(cli, ["audit", *kind], catch_exceptions=False).output


def test_mistyped_audits_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown test, a missing corpus and a wrong file ending are usage errors that state what was expected."""
    model = ["audit", "contamination", "fake", "one", "--include_path", str(folder), "-q"]
    for more, expected in (
        (["--test", "ordre"], "expected order, options"),
        (["--test", "overlap"], "--corpus"),
        (["--test", "overlap", "--corpus", str(folder / "nothing")], "does not exist"),
        (["--test", "options", "-o", str(folder / "x.txt")], ".json"),
    ):
        assert main([*model, *more]) == 2
        assert expected in capsys.readouterr().err
