"""Multiple choice against hand calculations, and against lm-eval's own process_results."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from assaymark.errors import MalformedSample, NonFiniteLogits, UnknownName
from assaymark.records import Score
from assaymark.scoring.choices import of_first_tokens, score_choices, softmax
from assaymark.scoring.metric import MULTIPLE_CHOICE
from assaymark.scoring.metrics import own_metrics

CHOICES = ["cat", "a dog", "é"]


def test_picks_the_most_probable_choice_by_sum_by_character_and_by_byte() -> None:
    """The three accuracies divide by 1, by characters and by UTF-8 bytes, and may pick three choices."""
    scores = score_choices([-3.0, -4.0, -1.2], [False] * 3, None, CHOICES, 1, ["acc", "acc_norm", "acc_bytes"])
    assert scores["acc"].detail["picked"] == 2
    assert scores["acc_norm"].detail["picked"] == 1  # -1, -0.8, -1.2
    assert scores["acc_bytes"].detail["picked"] == 2  # -1, -0.8, -0.6
    assert [scores[m].value for m in ("acc", "acc_norm", "acc_bytes")] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("gold", range(4))
def test_equal_log_likelihoods_score_exactly_chance_whatever_the_gold_order(gold: int) -> None:
    """Four equal log-likelihoods give 1/4 for every gold index, while lm-eval's value depends on it."""
    scores = score_choices([-2.0] * 4, [False] * 4, None, list("ABCD"), gold, ["acc"])
    assert scores["acc_ties"].value == 0.25
    assert scores["acc"].value == float(gold == 0)
    assert scores["n_tied"].value == 4.0
    assert scores["confidence"].value == 0.25


def test_a_list_of_one_index_is_a_label() -> None:
    """Of `{{[answer]}}` f1 and mcc take the element, as scikit-learn does, which lm-eval calls."""
    scores = score_choices([-2.0, -1.0, -3.0], [False] * 3, None, CHOICES, [1], ["mcc", "f1"])
    assert scores["mcc"].parts == scores["f1"].parts == (1, 1)


def test_a_tie_shares_its_credit_only_among_the_tied() -> None:
    """Two tied best choices give 1/2 if the gold is one of them, and 0 if it is neither."""
    nats = [-1.0, -1.0, -5.0]
    credit = [score_choices(nats, [False] * 3, None, CHOICES, g)["acc_ties"].value for g in range(3)]
    assert credit == [0.5, 0.5, 0.0]


def test_near_ties_are_those_within_numerical_noise() -> None:
    """A choice within 1e-4 + 1e-6 |nats| of the best is counted as near, one further away is not."""
    scores = score_choices([-100.0, -100.0001, -100.0003], [False] * 3, None, CHOICES, 0, ["acc"])
    assert scores["acc"].detail["n_near"] == 2
    assert scores["acc"].detail["n_tied"] == 1


def test_several_gold_answers_any_of_them_is_right() -> None:
    """With a list of gold indices the best choice may be any of them, and ties credit the share of right ones."""
    scores = score_choices([-2.0, -1.0, -1.0], [False, True, False], None, CHOICES, [1, 2], ["acc", "exact_match"])
    assert scores["acc"].value == 1.0
    assert scores["exact_match"].value == 1.0
    assert scores["acc_ties"].value == 1.0


def test_a_gold_text_is_looked_up_and_an_unknown_one_is_always_wrong() -> None:
    """Gold may be a choice's text; any other text or index is lm-eval's -100, scored as wrong by every metric."""
    assert score_choices([-1.0, -2.0, -3.0], [True] * 3, None, CHOICES, "cat")["acc"].value == 1.0
    for gold in ("cow", 3):
        scores = score_choices([-1.0, -2.0, -3.0], [True] * 3, None, CHOICES, gold, ["acc", "exact_match", "f1"])
        assert (scores["acc"].value, scores["exact_match"].value, scores["acc_ties"].value) == (0.0, 0.0, 0.0)
        assert scores["f1"].parts == (-100, 0)
        assert scores["brier"].value is None


def test_an_empty_choice_is_never_picked_by_the_normalised_accuracies() -> None:
    """Dividing by an empty choice's length gives minus infinity, so every other choice is better."""
    scores = score_choices([-0.5, -9.0], [False] * 2, None, ["", "word"], 1, ["acc", "acc_norm", "acc_bytes"])
    assert scores["acc"].value == 0.0
    assert (scores["acc_norm"].value, scores["acc_bytes"].value) == (1.0, 1.0)


def test_a_log_likelihood_that_is_no_number_is_an_error_and_never_a_score() -> None:
    """NaN or infinity raises NonFiniteLogits with the remedy, it does not become 0."""
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(NonFiniteLogits, match="bfloat16"):
            score_choices([-1.0, bad], [False] * 2, None, ["a", "b"], 0)


def test_bad_input_is_named() -> None:
    """Counts that differ and metrics that do not exist are refused with what was expected."""
    with pytest.raises(MalformedSample, match="2 log-likelihoods"):
        score_choices([-1.0, -2.0], [False] * 3, None, CHOICES, 0)
    with pytest.raises(MalformedSample, match="empty context"):
        score_choices([-1.0, -2.0, -3.0], [False] * 3, None, CHOICES, 0, ["acc_mutual_info"])
    with pytest.raises(UnknownName, match="acc_norm"):
        score_choices([-1.0, -2.0, -3.0], [False] * 3, None, CHOICES, 0, ["acc_nrom"])


def test_brier_and_confidence_come_from_the_softmax_over_summed_log_likelihoods() -> None:
    """For probabilities (0.5, 0.3, 0.2) and gold 1 the Brier score is .25 + .49 + .04."""
    scores = score_choices(np.log([0.5, 0.3, 0.2]).tolist(), [False] * 3, None, CHOICES, 1, ["brier_score"])
    assert scores["brier"].value == pytest.approx(0.78)
    assert scores["confidence"].parts == pytest.approx((0.5, 0.0))
    assert scores["brier_score"].parts is not None
    assert scores["brier_score"].parts[1] == pytest.approx([0.5, 0.3, 0.2])


def _lm_eval(answers: list[tuple[float, bool]], choices: list[str], gold: Any, names: list[str]) -> dict[str, Any]:
    """lm-eval's own process_results on one multiple-choice sample, called on a bare stand-in for its task object."""
    task_module = pytest.importorskip("lm_eval.api.task")
    stand_in = SimpleNamespace(
        config=SimpleNamespace(process_results=None),
        _metric_fn_list=dict.fromkeys(names),
        OUTPUT_TYPE="multiple_choice",
        doc_to_choice=lambda doc: choices,
        doc_to_target=lambda doc: gold,
        multiple_input=0,
        multiple_target=len(gold) if isinstance(gold, list) else 0,
    )
    result: dict[str, Any] = task_module.ConfigurableTask.process_results(stand_in, {}, answers)
    return result


@pytest.mark.oracle
def test_every_metric_equals_lm_eval_on_random_samples() -> None:
    """On 300 random samples, ties and gold outside the range included, each metric is lm-eval's."""
    rng = np.random.default_rng(0)
    names = [m.name for m in own_metrics() if MULTIPLE_CHOICE in m.of and m.in_lm_eval and not m.compares_nothing]
    for _ in range(300):
        k = int(rng.integers(2, 6))
        choices = ["".join(rng.choice(list("ab é"), size=rng.integers(1, 6))) for _ in range(k)]
        nats = [-float(v) / 2 for v in rng.integers(1, 12, size=2 * k)]
        greedy = [bool(g) for g in rng.integers(0, 2, size=2 * k)]
        gold = int(rng.integers(-1, k + 1))
        theirs = _lm_eval(list(zip(nats, greedy, strict=True)), choices, gold, names)
        ours = score_choices(nats[:k], greedy[:k], nats[k:], choices, gold, names)
        for name in names:
            score, expected = ours[name], theirs[name]
            item: Any = score.value if score.parts is None else score.parts
            if name == "exact_match" and gold == -1:
                expected = int(greedy[k - 1])  # with unconditional requests lm-eval's -1 reads the last of those
            if name in ("brier_score", "likelihood"):
                assert item[0] == expected[0]
                np.testing.assert_allclose(item[1], expected[1], rtol=1e-14)
            else:
                assert item == expected, name


@pytest.mark.oracle
def test_several_gold_answers_equal_lm_eval() -> None:
    """Every pair of gold indices gives lm-eval's acc, acc_norm, acc_bytes and exact_match."""
    names = ["acc", "acc_norm", "acc_bytes", "exact_match"]
    nats, greedy = [-3.0, -2.0, -2.0], [False, True, False]
    for gold in itertools.combinations(range(4), 2):
        theirs = _lm_eval(list(zip(nats, greedy, strict=True)), CHOICES, list(gold), names)
        ours = score_choices(nats, greedy, None, CHOICES, list(gold), names)
        assert {name: ours[name].value for name in names} == theirs


def test_softmax_of_equal_values_is_uniform() -> None:
    """Very negative equal log-likelihoods still share the probability equally."""
    np.testing.assert_array_equal(softmax([-1e5] * 4), [0.25] * 4)


def test_acc_tokens_is_the_lowest_perplexity() -> None:
    """Six nats over three tokens are likelier than three over one; without counts there is no such metric."""
    scores = score_choices([-6.0, -3.0], [False, False], None, ["long one", "b"], 0, ("acc", "acc_tokens"), [3, 1])
    assert (scores["acc"].value, scores["acc_tokens"].value) == (0.0, 1.0)
    for counts in (None, [3, 0]):
        with pytest.raises(MalformedSample, match="acc_tokens divides by the number of tokens"):
            score_choices([-6.0, -3.0], [False, False], None, ["a", "b"], 0, ("acc_tokens",), counts)


def test_a_bound_decides_a_choice_and_no_probability() -> None:
    """Of choices scored by the first token, one that is only bounded leaves accuracies, and no Brier score."""
    result = score_choices([-0.2, -3.0], [True, False], None, ["A", "B"], 0, ["acc", "brier_score", "f1"])
    scores = [Score("t/0/0", name, each.value, parts=each.parts, detail=each.detail) for name, each in result.items()]
    for n_outside in (0, 1):
        after = {score.metric: score for score in of_first_tokens(scores, n_outside)}
        assert after["acc"].value == 1.0
        assert isinstance(after["acc"].detail, dict)
        assert (after["acc"].detail["first_token"], after["acc"].detail["n_outside"]) == (True, n_outside)
        assert after["f1"].parts == (0, 0)
        for name in ("brier", "confidence", "brier_score"):
            assert (after[name].value is None and after[name].parts is None) == (n_outside == 1)
