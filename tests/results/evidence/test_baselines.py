"""Baselines of multiple-choice tasks."""

from dataclasses import replace
from typing import cast

import pytest

from assaymark.records import BlindScore, Estimate, EstimateDetails
from assaymark.records.result_facts import ResultFacts
from assaymark.results.evidence.baselines import ConstantAnswers, highest_baseline, with_baselines
from assaymark.results.evidence.records import RunView, ScoreRow
from assaymark.results.evidence.task_facts import with_declared_chance
from assaymark.results.views.cells import table_rows
from assaymark.results.views.details import baseline_cells, baseline_notes, baselines_table


def row(task: str, index: int, gold: int, choices: tuple[str, ...] = ("no", "yes")) -> ScoreRow:
    """Return one score of a sample with choices."""
    return ScoreRow(task, index, f"{task}{index}", "acc", 1.0, gold=(gold,), choices=choices)


def estimate(task: str, n: int, value: float, low: float, **details: object) -> Estimate:
    """Return one cell of a table."""
    own = cast("EstimateDetails", {"kind": "task", "unit": "proportion", "path": ("both",), **details})
    return Estimate(task, "acc", "none", value, low, 1.0, "wilson", n, chance=0.5, details=own)


def test_the_majority_class_is_the_most_frequent_gold_choice() -> None:
    """622 of 1,000 yes-answers give always-yes 62.2%, as on BoolQ, and the choice is named by its text."""
    constant = ConstantAnswers()
    rows = [row("boolq", i, int(i < 622)) for i in range(1000)]
    assert list(constant.watch(rows)) == rows
    assert constant.best("boolq") == (0.622, 1)
    assert constant.text("boolq", 1) == "yes"
    assert constant.best("other") is None


def test_choices_that_vary_have_no_text_in_common() -> None:
    """Where every sample has choices of its own, a position has no text; letters of different numbers have one."""
    constant = ConstantAnswers()
    list(constant.watch([row("cloze", 0, 0, ("a cat", "a dog")), row("cloze", 1, 0, ("tea", "milk"))]))
    list(constant.watch([row("letters", 0, 0, ("A", "B")), row("letters", 1, 2, ("A", "B", "C"))]))
    assert constant.text("cloze", 0) is None
    assert constant.text("letters", 2) == "C"


def test_a_value_above_chance_and_below_always_yes_is_noted() -> None:
    """58% with an interval above chance is no better than always answering yes, as the note states."""
    constant = ConstantAnswers()
    list(constant.watch([row("boolq", i, int(i < 622)) for i in range(1000)]))
    (result,) = with_baselines([estimate("boolq", 1000, 0.58, 0.55)], constant, {})
    assert highest_baseline(result) == ("always answering 'yes'", 0.622)
    assert "always answering 'yes' (62.2%)" in baseline_notes(result)[0]
    assert baseline_cells(result)[1] == "62.2% (yes)"
    (better,) = with_baselines([estimate("boolq", 1000, 0.7, 0.66)], constant, {})
    assert baseline_notes(better) == []


@pytest.mark.parametrize(("n", "n_right", "other", "is_noted"), [(20, 10, 0, True), (20, 18, 0, False),
                                                                 (19, 10, 0, False), (20, 10, 1, False)])  # fmt: skip
def test_one_choice_that_is_always_picked_is_noted(n: int, n_right: int, other: int, is_noted: bool) -> None:
    """Not where it is nearly always right, for fewer than 20 samples, or with another pick among them."""
    constant = ConstantAnswers()
    picks = [other if i == 0 else 0 for i in range(n)]
    list(constant.watch([replace(row("t", i, int(i >= n_right)), detail={"picked": picks[i]}) for i in range(n)]))
    (result,) = with_baselines([estimate("t", n, n_right / n, 0.3)], constant, {})
    assert (f"all {n} picks are choice 1, whatever the question" in baseline_notes(result)) == is_noted


def test_the_question_blind_baseline_belongs_to_its_metric() -> None:
    """A question-blind baseline of acc is in the details of acc, and is used where it is the highest."""
    acc, acc_norm = BlindScore(value=0.6, low=0.5, high=0.7, n=10), BlindScore(value=0.1, low=0.0, high=0.4, n=10)
    blind = {"boolq": {"acc": acc, "acc_norm": acc_norm}}
    (result,) = with_baselines([estimate("boolq", 10, 0.58, 0.55)], ConstantAnswers(), blind)
    assert highest_baseline(result) == ("the question-blind model", 0.6)
    assert baseline_cells(result)[2] == "60.0%"


def test_a_groups_majority_class_is_weighted_as_its_value() -> None:
    """A micro average weights its tasks by samples, a macro average equally."""
    constant = ConstantAnswers()
    list(constant.watch([row("small", i, int(i < 20)) for i in range(20)]))
    list(constant.watch([row("large", i, int(i < 30)) for i in range(60)]))
    leaves = [estimate("small", 20, 0.5, 0.4), estimate("large", 60, 0.5, 0.4)]
    for weighting, expected in (("micro", (20 * 1.0 + 60 * 0.5) / 80), ("macro", 0.75)):
        group = estimate("both", 80, 0.5, 0.4, kind="group", weighting=weighting, path=())
        assert with_baselines([group, *leaves], constant, {})[0].details["best_constant"] == expected


def test_a_group_of_tiny_tasks_has_no_majority_class() -> None:
    """The best position of three samples is mostly chance, and so is their mean."""
    constant = ConstantAnswers()
    list(constant.watch([row("tiny", i, int(i < 2)) for i in range(3)]))
    group = estimate("both", 3, 0.5, 0.4, kind="group", weighting="micro", path=())
    result, leaf = with_baselines([group, estimate("tiny", 3, 0.5, 0.4)], constant, {})
    assert "best_constant" not in result.details
    assert leaf.details["best_constant"] == 2 / 3


def test_baselines_are_compared_with_the_primary_value() -> None:
    """A task's value in the table of baselines is that of its primary metric, not of the first one shown."""
    acc = estimate("arc", 40, 0.5, 0.4, best_constant=0.3, primary=False)
    norm = replace(acc, metric="acc_norm", value=0.6, details={**acc.details, "primary": True})
    rows = table_rows([RunView("model", "r1", (acc, norm))])
    shown = baselines_table(rows)
    assert shown is not None
    assert [cell.text for cell in shown.rows[0][:2]] == ["arc", "60.0%"]


@pytest.mark.parametrize("name", ["a**b", "/etc/x", "L" * 999, "*", "../demo_facts", "demo_facts"])
def test_a_task_of_an_imported_run_is_found_by_its_name_alone(name: str) -> None:
    """A name from elsewhere is neither a pattern nor a path; only the library's own name has its card's chance."""
    made = replace(estimate(name, 10, 0.5, 0.2, primary=True), chance=None)
    (shown,) = with_declared_chance([made], cast("ResultFacts", {"tasks": {name: {"origin": "assaymark"}}}))
    assert (shown.chance is not None) is (name == "demo_facts")
