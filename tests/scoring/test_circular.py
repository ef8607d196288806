"""CircularEval's scores, against a plain computation."""

import itertools
import random

import pytest

from assaymark.errors import NonFiniteLogits
from assaymark.scoring.choices import CIRCULAR, OVER_ROTATIONS, score_rotations


def rows_of(preferred: list[int], n: int) -> list[list[float]]:
    """Return log-likelihoods [rotation, position] of a model that prefers these options of the row in each rotation."""
    return [
        [0.0 if (position - shift) % n == option else -1.0 for position in range(n)]
        for shift, option in enumerate(preferred)
    ]


@pytest.mark.parametrize("preferred", itertools.product(range(3), repeat=3))
def test_all_patterns_of_three_options(preferred: tuple[int, ...]) -> None:
    """Over all answers to three rotations: right in all, and the share of right ones."""
    scores = score_rotations(rows_of(list(preferred), 3), ["A", "B", "C"], 1)
    assert scores[CIRCULAR].value == float(preferred == (1, 1, 1))
    assert scores[OVER_ROTATIONS].value == preferred.count(1) / 3
    assert scores[CIRCULAR].detail["picked_by_rotation"] == list(preferred)


def test_a_model_that_always_answers_a_is_never_right_in_all() -> None:
    """It is right in exactly one rotation of each question, whatever its gold answer."""
    nats = [[0.0, -1.0, -1.0, -1.0]] * 4
    for gold in range(4):
        scores = score_rotations(nats, list("ABCD"), gold)
        assert (scores[CIRCULAR].value, scores[OVER_ROTATIONS].value) == (0.0, 0.25)


def test_ties_have_the_credit_of_a_fair_draw() -> None:
    """Where all choices tie, the credits are the chance scores."""
    scores = score_rotations([[-1.0] * 4] * 4, list("ABCD"), 2)
    assert scores[OVER_ROTATIONS].detail["credit"] == 0.25
    assert scores[CIRCULAR].detail["credit"] == pytest.approx(0.25**4)
    assert scores[CIRCULAR].detail["chance"] == pytest.approx(0.25**4)


@pytest.mark.slow
def test_random_guesses_meet_the_stated_chance() -> None:
    """The mean over many random models is the chance in the details (3 options, 5,000 draws, 5 standard errors)."""
    draw = random.Random(7)
    n = 5_000
    right = sum(
        score_rotations([[draw.random() for _ in range(3)] for _ in range(3)], ["A", "B", "C"], 0)[CIRCULAR].value or 0
        for _ in range(n)
    )
    assert abs(right / n - 1 / 27) < 5 * (26 / 27 / 27 / n) ** 0.5


def test_several_gold_answers_and_none() -> None:
    """Any of several golds counts; a gold that is not a choice is always wrong."""
    scores = score_rotations(rows_of([0, 2, 0], 3), ["A", "B", "C"], [0, 2])
    assert scores[CIRCULAR].value == 1.0
    assert score_rotations(rows_of([0, 0, 0], 3), ["A", "B", "C"], "Z")[OVER_ROTATIONS].value == 0.0


def test_a_rotation_that_is_not_finite_is_no_wrong_answer() -> None:
    """It raises, so that the response is counted as failed."""
    with pytest.raises(NonFiniteLogits):
        score_rotations([[0.0, -1.0], [float("nan"), 0.0]], ["A", "B"], 0)
