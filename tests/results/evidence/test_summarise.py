"""Estimates computed from rows of scores, with lm-eval's values in the details."""

import math
import random

import pytest

from assaymark.errors import DataError
from assaymark.interop.every_eval_results import bounds_of
from assaymark.records import JsonValue
from assaymark.results.evidence.records import GroupAggregate, GroupSummaryInput, MetricInput, RunView, ScoreRow
from assaymark.results.evidence.summarise import summarise
from assaymark.results.views.cells import table_rows
from assaymark.results.views.run_document import note_lines
from assaymark.scoring.instructions.ifeval import agg_inst_level_acc
from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.intervals import wilson
from tests.results.made import PERPLEXITY, choice_rows, plain_rows, task_of


def test_all_equal_choices_score_exactly_chance() -> None:
    """A model that finds all four choices equally probable scores 25%; lm-eval's value depends on the gold order."""
    rows = [
        ScoreRow(
            "t", i, f"s{i}", "acc", float(i % 2 == 0), detail={"picked": 0, "n_tied": 4, "credit": 0.25, "n_choices": 4}
        )
        for i in range(100)
    ]
    (result,) = summarise(rows, [task_of()])
    assert result.value == pytest.approx(0.25)
    assert result.chance == pytest.approx(0.25)
    assert result.details["lm_eval_value"] == pytest.approx(0.5)
    assert result.details["n_tied"] == 100


@pytest.mark.parametrize(("key", "value"), [("n_tied", "two"), ("credit", "half"), ("n_choices", [4])])
def test_a_detail_that_is_no_number_is_named(key: str, value: object) -> None:
    """A metric of the user may store anything; the error says what was stored where a number is expected."""
    detail = {"picked": 0, "n_tied": 1, "credit": 1.0, "n_choices": 4, key: value}
    with pytest.raises(DataError, match="where a number is expected"):
        summarise([ScoreRow("t", 0, "s", "acc", 1.0, detail=detail)], [task_of()])


def test_an_aggregation_that_cannot_take_the_scores_is_named() -> None:
    """lm-eval ends with a TypeError; here the task, the metric, a score and the remedy are named."""
    rows = [ScoreRow("t", 0, "s", "likelihood", None, parts=(0, [-3.0, -2.5]))]
    with pytest.raises(DataError, match=r"task t: the aggregation mean cannot take what likelihood gives.*metric_list"):
        summarise(rows, [task_of("t", MetricInput("likelihood"))])


@pytest.mark.parametrize("credit", [0.0, 1.0])
def test_the_interval_is_no_point_at_the_ends(credit: float) -> None:
    """Ten right (or wrong) answers of ten have Wilson's interval, while lm-eval's error is zero."""
    (result,) = summarise(choice_rows("t", [credit] * 10), [task_of()])
    expected = wilson(10 * credit, 10)
    assert result.low == pytest.approx(expected.low)
    assert result.high == pytest.approx(expected.high)
    assert result.method == "wilson"
    assert result.details["lm_eval_stderr"] == 0.0


def test_a_failed_request_is_excluded_and_counted() -> None:
    """Failed requests change n_failed and never the value."""
    (result,) = summarise(plain_rows("t", [1.0, None, 0.0, 1.0, None]), [task_of()])
    assert result.value == pytest.approx(2 / 3)
    assert (result.n, result.n_failed) == (3, 2)


def test_without_any_answer_everything_is_undefined() -> None:
    """A task all of whose requests failed has no value, no interval and no lm-eval value: None, not 0."""
    (result,) = summarise(plain_rows("t", [None, None]), [task_of()])
    assert (result.value, result.low, result.high, result.n, result.n_failed) == (None, None, None, 0, 2)
    assert result.details["lm_eval_value"] is None


def test_an_infinite_score_leaves_no_mean() -> None:
    """The mean of the others would be of other samples than those counted; lm-eval's mean is infinite."""
    (result,) = summarise(plain_rows("t", [1.0, math.inf, 0.0]), [task_of()])
    assert (result.value, result.n, result.details["lm_eval_value"]) == (None, 3, None)
    view = RunView("model", "run", (result,))
    assert "t acc: 1 score infinite, so there is no mean" in note_lines(table_rows([view]), [view])


def test_chance_is_the_mean_over_samples() -> None:
    """With four and five choices mixed, chance is the mean of 1/choices, not 1/4."""
    rows = [
        *choice_rows("t", [1.0, 0.0]),
        ScoreRow("t", 9, "x", "acc", 1.0, detail={"picked": 0, "n_tied": 1, "credit": 1.0, "n_choices": 5}),
    ]
    (result,) = summarise(rows, [task_of()])
    assert result.chance == pytest.approx((0.25 + 0.25 + 0.2) / 3)


def test_the_card_gives_chance_where_samples_do_not() -> None:
    """A metric without choices in its details takes the card's chance, and only the task's main metric does."""
    task = task_of("t", MetricInput("mc2"), MetricInput("other"), chance=0.4)
    result = summarise(plain_rows("t", [0.5, 0.7], "mc2") + plain_rows("t", [1.0, 0.0], "other"), [task])
    assert [estimate.chance for estimate in result] == [0.4, None]


def test_perplexity_is_a_ratio_of_sums() -> None:
    """Word perplexity is exp(-sum of nats / sum of words), with an unsymmetrical interval and no lm-eval error."""
    parts = [(-100.0, 20), (-330.0, 60), (-52.0, 11)]
    rows = [ScoreRow("t", i, f"s{i}", "word_perplexity", None, parts=pair) for i, pair in enumerate(parts)]
    (result,) = summarise(rows, [task_of("t", PERPLEXITY)])
    expected = math.exp(482 / 91)
    assert result.value == pytest.approx(expected)
    assert result.details["lm_eval_value"] == pytest.approx(expected)
    assert result.details["lm_eval_stderr"] is None
    assert result.low is not None
    assert result.high is not None
    assert expected - result.low < result.high - expected
    assert result.higher_is_better is False


def test_leaked_shots_and_cut_prompts_are_counted_per_sample() -> None:
    """Two leaked samples and one truncated prompt are in the details of the task's estimate."""
    rows = [
        *plain_rows("t", [1.0, 0.0, 1.0], n_leaked_shots=1, n_cut_tokens=0)[:2],
        ScoreRow("t", 2, "s2", "acc", 1.0, n_cut_tokens=17),
    ]
    (result,) = summarise(rows, [task_of()])
    assert (result.details["n_leaked"], result.details["n_cut"]) == (2, 1)


def test_rows_whose_right_answer_is_no_choice_are_counted_and_named() -> None:
    """They count as wrong, and the table reports how many there are and the first one, for a group too."""
    gone = {"credit": 0.0, "n_choices": 4, "n_tied": 1, "gold_is_absent": True}
    rows = [
        ScoreRow(
            task, index, f"{task}{index}", metric, 0.0, detail=gone if index > 1 else {**gone, "gold_is_absent": 0}
        )
        for task in ("s", "t")
        for metric in ("acc", "acc_ties")
        for index in range(4 if task == "t" else 1)
    ]
    group = GroupSummaryInput("both", ("s", "t"), (GroupAggregate("acc"),))
    result = summarise(rows, [task_of("s"), task_of("t")], [group])
    assert [cell.details.get("n_gold_absent") for cell in result] == [2, None, 2]
    view = RunView("model", "run", result)
    lines = note_lines(table_rows([view]), [view])
    assert "t: 2 rows whose correct answer is none of the choices, counted wrong (first: t, sample 2)" in lines


def test_the_same_note_of_several_tasks_is_one_line() -> None:
    """Seven tasks with the same note are one line with the first four names; another task's note is its own line."""
    names = list("abcdefg")
    rows = [
        ScoreRow(name, 0, f"{name}0", "acc", 0.0, detail={"credit": 0.5, "n_choices": 2, "n_tied": 2}) for name in names
    ]
    rows += [ScoreRow("h", i, f"h{i}", "acc", 0.0, detail=rows[0].detail) for i in range(2)]
    result = summarise(rows, [task_of(name) for name in (*names, "h")])
    view = RunView("model", "run", result)
    ties = [line for line in note_lines(table_rows([view]), [view]) if "tie" in line]
    assert [line.partition(":")[0] for line in ties] == ["a acc, b acc, c acc, d acc and 3 more", "h acc"]


def test_every_multiple_choice_has_brier_score_and_calibration() -> None:
    """Auxiliary scores have no rows of their own, but give Brier score and calibration error in the details."""
    rows = choice_rows("t", [1.0, 0.0])
    rows += plain_rows("t", [0.2, 1.4], "brier")
    rows += [
        ScoreRow("t", i, f"s{i}", "confidence", c, parts=(c, r)) for i, (c, r) in enumerate([(0.9, 1.0), (0.6, 0.0)])
    ]
    (result,) = summarise(rows, [task_of()])
    assert result.metric == "acc"
    assert result.details["brier"] == pytest.approx(0.8)
    assert result.details["calibration_error"] == pytest.approx((0.1 + 0.6) / 2)
    assert 0 < result.details["calibration_error_null"] < 1


def test_metrics_that_a_task_adds_are_averaged() -> None:
    """A metric that only process_results returns is averaged, as in lm-eval."""
    result = summarise(plain_rows("t", [1.0, 0.0]) + plain_rows("t", [0.2, 0.4], "own"), [task_of()])
    assert [(e.metric, e.value, e.details["primary"]) for e in result] == [
        ("acc", 0.5, True),
        ("own", pytest.approx(0.3), False),
    ]


@pytest.mark.parametrize(("metric", "bounds"), [("rouge1_max", (0.0, 100.0)), ("bleu_diff", (-100.0, 100.0))])
def test_scores_on_a_scale_to_100_are_no_shares(metric: str, bounds: tuple[float, float]) -> None:
    """TruthfulQA's similarities of 0 and 1 per cent have the interval of their own scale, in exports too."""
    values = [0.0] * 9 + [1.0, 0.4]
    task = task_of("t", MetricInput(metric))
    (result,) = summarise(plain_rows("t", values, metric), [task])
    expected = estimate_mean(values, binary=False, bounds=bounds)
    assert (result.low, result.high, result.method) == (expected.low, expected.high, expected.method)
    assert result.details["unit"] == "plain"
    assert bounds_of(result) == bounds
    (zero,) = summarise(plain_rows("t", [0.0] * 5, metric), [task])
    assert zero.high == pytest.approx(52.2, abs=0.05)  # any of the samples not seen may be at 100


def test_a_number_without_bounds_has_none_where_its_scores_happen_to_be_in_0_1() -> None:
    """A metric of the table (brier, cost) and a declared number, all 0.001, have no interval: nothing bounds them."""
    for metric in (MetricInput("brier"), MetricInput("price", scale="number"), MetricInput("cost")):
        (result,) = summarise(plain_rows("t", [0.001] * 3, metric.name), [task_of("t", metric)])
        assert (result.low, result.high, result.details["unit"]) == (None, None, "plain")


def test_a_task_own_aggregation_is_called() -> None:
    """An aggregation that is a function of the task file gives the value; its standard error is unknown."""
    task = task_of("t", MetricInput("acc", max))
    (result,) = summarise(plain_rows("t", [0.1, 0.9, 0.4]), [task])
    assert (result.value, result.low, result.stderr) == (0.9, None, None)


def groups_of_two(weight_by_size: bool) -> list[GroupSummaryInput]:
    """Return a group of two tasks inside a group of that and a third."""
    aggregates = (GroupAggregate("acc", weight_by_size),)
    return [
        GroupSummaryInput("top", ("pair", "c"), aggregates),
        GroupSummaryInput("pair", ("a", "b"), aggregates),
    ]


ROWS = [
    *choice_rows("a", [1.0] * 30 + [0.0] * 10),
    *choice_rows("b", [1.0] * 2 + [0.0] * 8),
    *choice_rows("c", [1.0] * 10 + [0.0] * 10),
]


def test_micro_and_macro_averages_are_over_leaf_tasks() -> None:
    """A micro average weights samples, a macro average tasks; an outer group averages tasks, not inner groups."""
    tasks = [task_of(name) for name in "abc"]
    micro = {e.task: e for e in summarise(ROWS, tasks, groups_of_two(weight_by_size=True))}
    macro = {e.task: e for e in summarise(ROWS, tasks, groups_of_two(weight_by_size=False))}
    assert micro["pair"].value == pytest.approx(32 / 50)
    assert micro["top"].value == pytest.approx(42 / 70)
    assert macro["pair"].value == pytest.approx((0.75 + 0.2) / 2)
    assert macro["top"].value == pytest.approx((0.75 + 0.2 + 0.5) / 3)
    assert micro["top"].n == 70


def test_group_errors_match_a_simulation() -> None:
    """The group's standard error is the spread of the group's value over repeated draws of all its samples."""
    drawn = random.Random(11)
    shares = {"a": (0.8, 60), "b": (0.3, 20)}
    for by_size in (True, False):
        groups = [GroupSummaryInput("g", ("a", "b"), (GroupAggregate("acc", by_size),))]
        values, errors = [], []
        for _ in range(200):
            rows = [
                row
                for name, (p, n) in shares.items()
                for row in choice_rows(name, [float(drawn.random() < p) for _ in range(n)])
            ]
            result = summarise(rows, [task_of("a"), task_of("b")], groups, bootstrap_iters=0)[0]
            values.append(result.value or 0.0)
            errors.append(result.stderr or 0.0)
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
        assert sum(errors) / len(errors) == pytest.approx(spread, rel=0.12)


def test_groups_come_before_their_members() -> None:
    """Estimates are in table order: a group, its inner groups, their tasks; each knows its path."""
    result = summarise(ROWS, [task_of(name) for name in "abc"], groups_of_two(weight_by_size=True))
    assert [(e.task, e.details["path"]) for e in result] == [
        ("top", ()),
        ("pair", ("top",)),
        ("a", ("top", "pair")),
        ("b", ("top", "pair")),
        ("c", ("top",)),
    ]


def test_a_group_at_full_marks_keeps_an_interval() -> None:
    """Where every task of a group has 100%, the group's interval still extends below 100%."""
    rows = choice_rows("a", [1.0] * 20) + choice_rows("b", [1.0] * 20)
    groups = [GroupSummaryInput("g", ("a", "b"), (GroupAggregate("acc"),))]
    group = summarise(rows, [task_of("a"), task_of("b")], groups)[0]
    assert (group.value, group.high) == (1.0, 1.0)
    assert group.low is not None
    assert 0.8 < group.low < 1.0


def test_a_group_that_lacks_a_tasks_value_has_none() -> None:
    """All requests of b failed: the mean of a alone is not the group's; ours and lm-eval's are None, and b is named."""
    rows = plain_rows("a", [1.0] * 3) + plain_rows("b", [None])
    metric = plain_rows("a", [1.0])[0].metric
    groups = [GroupSummaryInput("g", ("a", "b"), (GroupAggregate(metric),))]
    estimates = summarise(rows, [task_of("a"), task_of("b")], groups)
    group = estimates[0]
    assert (group.value, group.low, group.high, group.n, group.n_failed) == (None, None, None, 3, 1)
    assert (group.details["lm_eval_value"], group.details["lacking"]) == (None, ["b"])
    notes = note_lines(table_rows([RunView("model", "run", estimates)]), [RunView("model", "run", estimates)])
    assert "no mean, since there is no result of b" in " ".join(notes)


def test_a_group_without_aggregate_is_only_a_heading() -> None:
    """A group that averages nothing has no estimate; its tasks still have it in their path."""
    result = summarise(choice_rows("a", [1.0]), [task_of("a")], [GroupSummaryInput("g", ("a",))])
    assert [(e.task, e.details["path"]) for e in result] == [("a", ("g",))]


def test_right_answers_that_are_not_the_reference_are_counted_by_what_differs() -> None:
    """The note below the table names what was ignored, with counts, and JSON has them too."""
    metric = MetricInput("exact_match")
    details: list[dict[str, JsonValue]] = [{"equal_by": by} if by else {} for by in ("case", "number", "case", None)]
    details += [{"among_words": True}, {"near_miss": "part"}, {"metadata": {"near_miss": "case"}}]
    details += [{"reason": "wrong_type"}, {"reason": "no_call"}]
    values = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    rows = [
        ScoreRow("t", index, f"sha256:{index}", "exact_match", value, detail=detail)
        for index, (value, detail) in enumerate(zip(values, details, strict=True))
    ]
    estimates = summarise(rows, [task_of("t", metric, output_type="generate_until")])
    assert estimates[0].details["equal_by"] == {"case": 2, "number": 1}
    view = RunView("m", "r", estimates)
    (note,) = note_lines(table_rows([view]), [view])
    assert note == (
        "t exact_match: 3 right answers not the reference to the letter: 2 in case, 1 in how a number is written; "
        "1 wrong answer with the reference among other words, where only the reference alone is right; "
        "--system_instruction can ask for it; 1 wrong answer found within a longer reference, where only all of it is "
        "right; several right answers are a list; 1 wrong answer equal to the expected value but for case, which "
        "{exact: {ignore_case: true, ignore_typography: true}} ignores; 1 wrong answer with an argument of "
        "another type than the declared one, such as '3' or 3.0 for an integer"
    )


def test_a_share_of_instructions_has_an_interval_by_prompt() -> None:
    """IFEval's share of instructions is a proportion; instructions of one prompt are not independent."""
    name = "inst_level_strict_acc"
    followed = [(True, True, True), (False, False, False)] * 10 + [(True, False)] * 5
    rows = [ScoreRow("t", at, f"s{at}", name, sum(each) / len(each), parts=each) for at, each in enumerate(followed)]
    (result,) = summarise(rows, [task_of("t", MetricInput(name, agg_inst_level_acc))])
    parts = [(part, at) for at, each in enumerate(followed) for part in each]
    expected = estimate_mean([float(part) for part, _ in parts], clusters=[at for _, at in parts])
    assert result.value == pytest.approx(35 / 70)
    assert (result.low, result.high, result.method) == (expected.low, expected.high, "clustered wilson")
    assert (result.n, result.details["unit"]) == (25, "proportion")
    as_if_independent = wilson(35, 70)
    assert expected.low is not None
    assert expected.low < as_if_independent.low - 0.03
    (alone,) = summarise(rows[:1], [task_of("t", MetricInput(name, agg_inst_level_acc))])
    assert (alone.value, alone.low) == (1.0, None)
