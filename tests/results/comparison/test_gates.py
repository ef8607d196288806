"""Gates for continuous integration: a run passes only if it is shown to be no worse than allowed."""

import math
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from assaymark.errors import UnknownName, UsageError
from assaymark.results.comparison.compare import compare_runs
from assaymark.results.comparison.gates import check_gates, junit_xml, parse_gate
from assaymark.results.comparison.records import Comparison
from assaymark.results.evidence.records import RunEvidence, ScoreRow
from assaymark.statistics.distributions import normal_quantile
from assaymark.statistics.paired import score_statistic
from tests.results.made import PERPLEXITY, choice_rows, task_of


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


def test_a_gates_bound_is_tangos() -> None:
    """With one answer gained of 50 and none lost, the one-sided bound is Tango's score bound, -.032 and not -.041."""
    (result,) = check_gates(compared([0.0, *[1.0] * 49], [1.0] * 50), [parse_gate("mmlu >= -0.035")])
    assert result.low is not None
    assert round(result.low, 3) == -0.032
    assert score_statistic(1, 0, 50, result.low) == pytest.approx(normal_quantile(0.95), abs=1e-6)
    assert result.passed


def test_the_overall_bound_is_made_of_the_tasks_bounds() -> None:
    """The one-sided bound of an average is recovered from those of its tasks, not from their 95% intervals."""
    rng = np.random.default_rng(0)
    values = {
        label: {task: list((rng.random(60) < share).astype(float)) for task in ("a", "b")}
        for label, share in (("old", 0.7), ("new", 0.75))
    }
    runs = [
        RunEvidence(
            label, label, tuple(row for task in ("a", "b") for row in choice_rows(task, of[task])),
            tuple(task_of(task) for task in ("a", "b")),
        )
        for label, of in values.items()
    ]  # fmt: skip
    result = compare_runs(runs)
    (overall,) = check_gates(result, [parse_gate("overall >= -0.5")])
    line = result.pairs[0].overall
    assert line is not None
    assert line.low is not None
    assert overall.low is not None
    assert line.low < overall.low < line.difference
    least = [each.one_sided[0] for each in result.pairs[0].tasks]
    arms = [
        (entry.difference - low) / 2 for entry, low in zip(result.pairs[0].tasks, least, strict=True) if low is not None
    ]
    assert overall.low == pytest.approx(line.difference - math.hypot(*arms))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mmlu > -5", "cannot fail: .*write -0.05 or -5% for 5 points"),
        ("mmlu >= -1", "cannot fail: .*write -0.01 or -1% for 1 point$"),
        ("overall >= -100%", "cannot fail"),
        ("mmlu > 2", "cannot pass: .*write 0.02 or 2% for 2 points"),
    ],
)
def test_a_gate_without_effect_is_refused(text: str, message: str) -> None:
    """A bound beyond the differences that shares can have is an error, with the bound that was meant."""
    with pytest.raises(UsageError, match=message):
        check_gates(compared(MANY, MANY), [parse_gate(text)])


def test_a_lower_perplexity_is_a_gain() -> None:
    """For a metric for which lower is better, a decrease passes a gate above zero and an increase does not."""

    def run(label: str, nats: float) -> RunEvidence:
        by_row = [nats - i % 3 + (i % 2 - 0.5) * (label == "new") for i in range(30)]  # not the same change in each
        rows = [ScoreRow("w", i, f"s{i}", "word_perplexity", None, parts=(own, 20)) for i, own in enumerate(by_row)]
        return RunEvidence(label, label, tuple(rows), (task_of("w", PERPLEXITY),))

    better, worse = (compare_runs([run("old", -100.0), run("new", nats)]) for nats in (-90.0, -110.0))
    gate = [parse_gate("w > 0")]
    assert [check_gates(each, gate)[0].passed for each in (better, worse)] == [True, False]
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
