"""A run's composite from the scores of its samples: value, standard error, shared questions, and its line."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assaymark.documents.terminal import as_text
from assaymark.records import Estimate
from assaymark.records.result_facts import ResultFacts
from assaymark.results.evidence.composites import (
    SuiteRows,
    composite_estimates,
    composite_lines,
    holds_suites,
    suite_facts,
    suites_from,
)
from assaymark.results.evidence.records import MetricInput, RunView, ScoreRow
from assaymark.results.evidence.summarise import summarise
from assaymark.results.views.run_document import run_document
from assaymark.statistics.groups import linear_stderr
from assaymark.tasks.suites import ChosenSuite, suite_from
from assaymark.tasks.task import Selection
from tests.results.made import choice_rows, plain_rows, task_of

A = [1.0] * 30 + [0.0] * 10
B = [1.0] * 20 + [0.0] * 60


def member(task: str, column: str = "", metric: Any = "acc", **changes: Any) -> dict[str, Any]:
    """Return a member of a suite file."""
    return {"task": task, "metric": metric, "chance": 0.25, "column": column or task, **changes}


def chosen(*members: Mapping[str, Any], leaves: Sequence[Sequence[str]] = (), **changes: Any) -> ChosenSuite:
    """Return a chosen suite; each member is a task unless `leaves` names its tasks."""
    suite = suite_from({"name": "board", "members": list(members), **changes})
    return ChosenSuite(suite, tuple(map(tuple, leaves)) or tuple((m.task,) for m in suite.members))


def composite(suite: ChosenSuite, rows: Sequence[ScoreRow], metrics: Sequence[MetricInput] = ()) -> Estimate:
    """Return the composite of a suite over these rows."""
    collected = SuiteRows([suite])
    names = dict.fromkeys(row.task for row in rows)
    estimates = summarise(collected.watch(rows), [task_of(name, *metrics) for name in names], bootstrap_iters=0)
    (result,) = composite_estimates([suite], collected, estimates)
    json.dumps(result.details, allow_nan=False)
    return result


def test_the_mean_of_two_tasks() -> None:
    """Value, standard error, interval and chance of the simplest composite."""
    result = composite(chosen(member("a"), member("b")), [*plain_rows("a", A), *plain_rows("b", B)])
    assert result.value == pytest.approx((0.75 + 0.25) / 2)
    errors = [math.sqrt(0.75 * 0.25 / 39), math.sqrt(0.25 * 0.75 / 79)]
    assert result.stderr == pytest.approx(linear_stderr(errors, [0.5, 0.5]))
    assert result.low is not None
    assert result.high is not None
    assert 0.38 < result.low < 0.5 < result.high < 0.62
    assert (result.n, result.chance, result.details["lm_eval_value"]) == (120, 0.25, pytest.approx(0.5))
    assert [column["name"] for column in result.details["columns"]] == ["a", "b"]


def test_a_column_that_is_one_tasks_score_has_that_tasks_interval() -> None:
    """One number has one interval, in the run's table and on each board; a composite of one column has it too."""
    rows = [*plain_rows("a", A), *plain_rows("b", B)]
    task_a, task_b = summarise(rows, [task_of("a"), task_of("b")], bootstrap_iters=0)
    result = composite(chosen(member("a"), member("b")), rows)
    assert [(each["low"], each["high"], each["method"]) for each in result.details["columns"]] == [
        (task.low, task.high, "wilson") for task in (task_a, task_b)
    ]
    alone = composite(chosen(member("a")), plain_rows("a", A))
    assert (alone.low, alone.high, alone.stderr) == (task_a.low, task_a.high, task_a.stderr)


@pytest.mark.parametrize(
    "suite",
    [
        chosen(member("a", "both"), member("b", "both")),
        chosen(member("a", chance=0.2), member("b"), normalise="chance"),
    ],
    ids=["a column of two tasks", "normalised"],
)
def test_other_columns_have_intervals_of_their_own(suite: ChosenSuite) -> None:
    """A mean of tasks and a normalised score are other numbers than the table's."""
    result = composite(suite, [*plain_rows("a", A), *plain_rows("b", B)])
    assert {each["method"] for each in result.details["columns"]} == {"column score"}


def test_ties_share_credit_and_lm_evals_value_is_in_the_details() -> None:
    """The composite is computed from our values; the one from lm-eval's is in the details."""
    result = composite(chosen(member("a")), choice_rows("a", [1.0, 0.5, 0.0, 0.5]))
    assert result.value == pytest.approx(0.5)
    assert result.details["lm_eval_value"] == pytest.approx(0.25)


def test_chance_is_subtracted_per_sample_where_the_suite_defines_it_so() -> None:
    """1/choices: Σ(score - 1/k) / Σ(1 - 1/k), not one chance for all; random guessing then scores 0."""
    rows = choice_rows("a", [1.0, 0.0, 1.0, 1.0], n_choices=4)
    rows += [replace(row, sample_index=9 + row.sample_index) for row in choice_rows("a", [1.0, 0.0], n_choices=10)]
    result = composite(chosen(member("a", chance="1/choices"), normalise="chance"), rows)
    assert result.value == pytest.approx((4 - 4 * 0.25 - 2 * 0.1) / (4 * 0.75 + 2 * 0.9))
    assert result.chance == pytest.approx(0.0)


def test_members_below_chance_count_as_zero_where_clipped() -> None:
    """Clipped per member; the value without clipping is reported too, and the interval extends to it or to 0."""
    rows = [*plain_rows("a", A), *plain_rows("b", [1.0] * 4 + [0.0] * 76)]
    result = composite(chosen(member("a"), member("b"), normalise="chance", clip=True), rows)
    assert result.value == pytest.approx((0.5 / 0.75) / 2)
    unclipped = result.details["unclipped"]
    assert unclipped is not None
    assert unclipped["value"] == pytest.approx((0.5 / 0.75 - 0.2 / 0.75) / 2)
    assert result.low is not None
    assert result.value is not None
    assert 0 <= result.low < unclipped["value"] < result.value


def test_the_tasks_of_a_group_are_averaged_by_the_suites_rule() -> None:
    """within: mean weights tasks equally, weighted samples."""
    rows = [*plain_rows("a", A), *plain_rows("b", B)]
    for within, expected in (("mean", 0.5), ("weighted", 50 / 120)):
        result = composite(chosen(member("group", within=within), leaves=[["a", "b"]]), rows)
        assert result.value == pytest.approx(expected)


def test_two_metrics_of_one_answer_are_averaged_per_sample() -> None:
    """IFEval's prompt and instruction levels are dependent, so the error is larger than if they were independent."""
    hits = [(True, True), (True, False), (False, False), (True, True)] * 10
    rows = plain_rows("a", [float(all(h)) for h in hits], "prompt_level")
    rows += [
        replace(row, value=None, parts=h)
        for row, h in zip(plain_rows("a", [0.0] * 40, "inst_level"), hits, strict=True)
    ]

    def flat(items: Sequence[Sequence[bool]]) -> float:
        return sum(map(sum, items)) / sum(map(len, items))

    metrics = [MetricInput("prompt_level"), MetricInput("inst_level", flat)]
    result = composite(chosen(member("a", metric=["prompt_level", "inst_level"])), rows, metrics)
    per_item = [(float(all(h)) + sum(h) / 2) / 2 for h in hits]
    mean = sum(per_item) / 40
    assert result.value == pytest.approx(mean)
    assert result.stderr == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in per_item) / 39 / 40))


def test_members_with_the_same_questions_are_not_independent() -> None:
    """The errors of members add where rows are equal or `questions` is the same; of other members they do not."""
    same = [*plain_rows("a", A), *[replace(row, task="b") for row in plain_rows("a", A)]]
    apart = [*plain_rows("a", A), *plain_rows("b", A)]
    copied, independent = (
        composite(chosen(member("a"), member("b")), same),
        composite(chosen(member("a"), member("b")), apart),
    )
    declared = composite(chosen(member("a", questions="q"), member("b", questions="q")), apart)
    assert copied.stderr is not None
    assert independent.stderr == pytest.approx(copied.stderr / math.sqrt(2))
    assert declared.stderr == pytest.approx(copied.stderr)


def test_a_metric_that_is_no_mean_has_no_error() -> None:
    """Where the value is not the mean of the samples' scores, the composite has no standard error."""
    rows = plain_rows("a", A, "best")
    result = composite(chosen(member("a", metric="best")), rows, [MetricInput("best", max)])
    assert (result.value, result.stderr, result.low) == (1.0, None, None)


def test_missing_scores_leave_no_composite() -> None:
    """With a task without scores, or whose requests all failed, the composite is None and the task is named."""
    suite = chosen(member("a"), member("b"))
    absent = composite(suite, plain_rows("a", A))
    assert (absent.value, absent.details["why"]) == (None, "no score of b")
    failed = composite(suite, [*plain_rows("a", [*A, None]), *plain_rows("b", [None, None])])
    assert (failed.value, failed.details["why"]) == (None, "no score of b")
    assert composite(suite, [*plain_rows("a", [*A, None]), *plain_rows("b", B)]).n_failed == 1


def test_a_chance_that_is_not_known_leaves_no_composite() -> None:
    """gold/choices where the chance of a task is unknown: there is no composite, and no crash."""
    result = composite(chosen(member("a", chance="gold/choices"), normalise="chance"), plain_rows("a", A))
    assert result.value is None
    assert "the chance score of a is not known" in (result.details["why"] or "")


def test_suites_are_stored_with_a_run() -> None:
    """Facts survive JSON, keep the suites stored before, and show whether a selection's suites are among them."""
    first, two = chosen(member("a")), chosen(member("b"))
    two = replace(two, suite=suite_from({**two.suite.spec, "name": "other"}))
    facts: ResultFacts = {"suites": json.loads(json.dumps(suite_facts(Selection((), suites=(first,)), {})))}
    assert [(c.suite.spec, c.leaves) for c in suites_from(facts)] == [(first.suite.spec, first.leaves)]
    both = suite_facts(Selection((), suites=(two,)), facts)
    assert [c.suite.name for c in suites_from({"suites": both})] == ["board", "other"]
    assert holds_suites(facts, Selection((), suites=(first,)))
    assert holds_suites(facts, Selection(()))
    assert not holds_suites(facts, Selection((), suites=(two,)))


def test_the_line_under_the_table() -> None:
    """The composite is a line, not a row: value, interval, columns, and whether the prompts are reproduced."""
    result = composite(chosen(member("a"), member("b")), [*plain_rows("a", A), *plain_rows("b", B)])
    view = RunView("model", "abc", (result,))
    (line,) = composite_lines([view])
    assert line.startswith("board: 50.0% (95%: ")
    assert "mean of 2 columns; a 75.0%, b 25.0%; chance 25.0%" in line
    assert "not reproduced" in line
    drawn = as_text(run_document([view]))
    assert drawn.count("board:") == 1
    known = replace(result, details={**result.details, "reproduced": True})
    assert "reproduced" not in composite_lines([RunView("model", "abc", (known,))])[0]
    assert ", model: " in composite_lines([view, view])[0]
    hole = composite(chosen(member("a"), member("b")), plain_rows("a", A))
    assert composite_lines([RunView("model", "abc", (hole,))]) == ["board: no composite, no score of b; a 75.0%"]
