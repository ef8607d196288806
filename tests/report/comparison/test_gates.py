"""Gates for continuous integration: a run passes only if it is shown to be no worse than allowed."""

from xml.etree import ElementTree as ET

import pytest

from assaymark.errors import UnknownName, UsageError
from assaymark.report.comparison.compare import compare_runs
from assaymark.report.comparison.gates import check_gates, junit_xml, parse_gate
from assaymark.report.comparison.records import Comparison
from assaymark.report.evidence.records import RunEvidence, ScoreRow
from assaymark.statistics.paired import non_inferiority
from tests.report.made import PERPLEXITY, choice_rows, task_of


def compared(first: list[float], second: list[float]) -> Comparison:
    """Return a comparison of one task."""
    runs = [
        RunEvidence(label, label, tuple(choice_rows("mmlu", values)), (task_of("mmlu"),))
        for label, values in (("old", first), ("new", second))
    ]
    return compare_runs(runs)


MANY = [1.0] * 600 + [0.0] * 400
SLIGHTLY_WORSE = [0.0] * 3 + [1.0] * 598 + [0.0] * 399


def test_a_gates_bound_may_be_a_share_or_a_percentage() -> None:
    """`-0.01` and `-1%` are the same bound."""
    assert parse_gate("mmlu >= -0.01").bound == parse_gate(" mmlu>=-1% ").bound == -0.01
    assert parse_gate("overall > 0").name == "overall"


@pytest.mark.parametrize("text", ["mmlu", "mmlu <= 0.1", ">= 0.1", "mmlu >= much"])
def test_an_invalid_gate_is_refused(text: str) -> None:
    """An expression that cannot be parsed raises an error with a valid example."""
    with pytest.raises(UsageError, match=r"mmlu >= -0\.01"):
        parse_gate(text)


def test_a_slight_loss_passes_a_point_and_fails_a_tenth() -> None:
    """A loss of two answers in a thousand passes a margin of one point and fails one of a tenth of a point."""
    comparison = compared(MANY, SLIGHTLY_WORSE)
    assert [r.passed for r in check_gates(comparison, [parse_gate("mmlu >= -0.01"), parse_gate("mmlu >= -0.001")])] == [
        True,
        False,
    ]


def test_too_few_samples_fail_a_gate() -> None:
    """Ten equal answers do not show that at most one point was lost."""
    (result,) = check_gates(compared([1.0] * 10, [1.0] * 10), [parse_gate("mmlu >= -0.01")])
    assert not result.passed
    assert "failed" in result.message


def test_the_gate_agrees_with_the_test_of_non_inferiority() -> None:
    """With a negative bound, a gate passes if and only if Tango's one-sided test at that margin does."""
    for lost in range(0, 40, 3):
        second = [0.0] * lost + MANY[lost:]
        expected = non_inferiority(MANY, second, 0.02)
        (result,) = check_gates(compared(MANY, second), [parse_gate("mmlu >= -0.02")])
        assert result.low == pytest.approx(expected.low, abs=0.002)
        assert result.passed == expected.passed


def test_a_lower_perplexity_is_a_gain() -> None:
    """For a metric for which lower is better, a decrease passes a gate above zero and an increase does not."""

    def run(label: str, nats: float) -> RunEvidence:
        rows = [ScoreRow("w", i, f"s{i}", "word_perplexity", None, parts=(nats - i % 3, 20)) for i in range(30)]
        return RunEvidence(label, label, tuple(rows), (task_of("w", PERPLEXITY),))

    better, worse = (compare_runs([run("old", -100.0), run("new", nats)]) for nats in (-90.0, -110.0))
    gate = [parse_gate("w > 0")]
    assert [check_gates(found, gate)[0].passed for found in (better, worse)] == [True, False]
    message = check_gates(better, gate)[0].message
    assert "w word_perplexity ×0.607 (lower is better), at most ×" in message
    assert "required at most ×1" in message


def test_an_unknown_name_in_a_gate_is_an_error() -> None:
    """A gate on a task that was not compared never passes silently."""
    with pytest.raises(UnknownName, match="nearest: mmlu"):
        check_gates(compared(MANY, MANY), [parse_gate("mmul >= -0.01")])


def test_junit_counts_and_explains_failures() -> None:
    """The JUnit report has one case per gate and a message with the numbers in each failure."""
    comparison = compared(MANY, SLIGHTLY_WORSE)
    results = check_gates(comparison, [parse_gate("mmlu >= -0.01"), parse_gate("mmlu > 0")])
    suite = ET.fromstring(junit_xml(comparison, results, ["board: mean win rate"]))
    assert suite.findtext("system-out") == f"{comparison.verdict}\nboard: mean win rate"
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failure,) = suite.iter("failure")
    assert "gate 'mmlu > 0' failed: mmlu -0.2 points, at least -0.7 points" in (failure.get("message") or "")
