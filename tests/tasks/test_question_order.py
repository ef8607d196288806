"""The order of questions where each task counts the same."""

import numpy as np
import pytest

from assaymark.tasks.question_order import macro_weights, question_order

INDICES = {"small": range(5), "large": range(95)}
HASHES: dict[str, str | None] = {"small": "a", "large": "b"}


def order(seed: int, *, macro: bool) -> list[tuple[str, int]]:
    """Return the order of two tasks' questions."""
    return question_order(INDICES, HASHES, seed, macro=macro)


@pytest.mark.parametrize("macro", [False, True])
def test_an_order_is_a_permutation_that_data_and_seed_decide(macro: bool) -> None:
    """Each question is there once; the same seed gives the same order, another data set another one."""
    everything = [(task, at) for task, own in INDICES.items() for at in own]
    assert sorted(order(1, macro=macro)) == sorted(everything)
    assert order(1, macro=macro) == order(1, macro=macro)
    assert order(1, macro=macro) != order(2, macro=macro)
    assert order(1, macro=macro) != question_order(INDICES, {**HASHES, "small": "c"}, 1, macro=macro)


def test_a_first_question_is_of_each_task_as_often() -> None:
    """By weight in half of the seeds of the small task; by number in one of twenty. Binomial, within four errors."""
    n = 2_000
    by_weight = np.mean([order(seed, macro=True)[0][0] == "small" for seed in range(n)])
    by_number = np.mean([order(seed, macro=False)[0][0] == "small" for seed in range(n)])
    assert abs(by_weight - 0.5) < 4 * (0.25 / n) ** 0.5
    assert abs(by_number - 0.05) < 4 * (0.05 * 0.95 / n) ** 0.5


def test_a_next_question_is_drawn_by_the_weights_that_are_left() -> None:
    """After one of the small task's five, its four others weigh 4/5 of the large task's: 4/9 of the seeds."""
    second = [order(seed, macro=True)[1][0] for seed in range(4_000) if order(seed, macro=True)[0][0] == "small"]
    share = np.mean([task == "small" for task in second])
    assert abs(share - 4 / 9) < 4 * (4 / 9 * 5 / 9 / len(second)) ** 0.5


def test_questions_of_one_task_are_in_random_order() -> None:
    """Among themselves they have equal weights: each is as often the first of its task."""
    firsts = [next(at for task, at in order(seed, macro=True) if task == "small") for seed in range(2_000)]
    counts = np.bincount(firsts, minlength=5)
    assert abs(counts - 400).max() < 4 * (2_000 * 0.2 * 0.8) ** 0.5


def test_weights_sum_to_one_and_are_equal_for_tasks() -> None:
    """Whatever the order of the questions."""
    places = order(0, macro=True)
    weights = dict(zip(places, macro_weights(places), strict=True))
    assert sum(weights.values()) == pytest.approx(1.0)
    assert sum(weight for (task, _), weight in weights.items() if task == "small") == pytest.approx(0.5)
