"""SQuAD's and DROP's scores against worked examples and copies of the official scripts."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from assaymark.scoring.reading import (
    best_assignment,
    drop_answers,
    drop_scores,
    normalise_drop,
    normalise_squad,
    score_drop,
    score_squad,
    squad_exact,
    squad_f1,
)


def test_squad_by_hand() -> None:
    """Articles, case and punctuation do not count; two of three words shared gives 2·2/(3+2) = .8."""
    assert normalise_squad("The  Eiffel-Tower, a tower!") == "eiffeltower tower"
    assert squad_exact("The Normans.", "normans") == 1.0
    assert squad_f1("in northern France", "northern France") == pytest.approx(0.8)


def test_a_question_without_an_answer_requires_an_empty_one() -> None:
    """Without a reference an empty answer is right and any other wrong; HasAns and NoAns scores are separate."""
    scores = score_squad("", [])
    assert (scores["exact"].value, scores["NoAns_exact"].value, scores["HasAns_exact"].value) == (1.0, 1.0, None)
    assert score_squad("Paris", [])["f1"].value == 0.0
    assert score_squad("Paris", ["London", "Paris, France"])["HasAns_f1"].value == pytest.approx(2 / 3)


WORDS = ["the", "a", "cat", "dog", "Dog.", "12", "12.0", "3,000", "well-known", "U.S.", "an", "", "x,y", "-5", "nan"]


@pytest.mark.oracle
def test_squad_equals_a_copy_of_the_official_script() -> None:
    """For random texts of difficult words F1 and exact match are those of the script's copy in lm-eval's tydiqa."""
    metrics = pytest.importorskip("lm_eval.tasks.tydiqa.utils")
    rng = np.random.default_rng(0)
    for _ in range(300):
        prediction, reference = (" ".join(rng.choice(WORDS, size=rng.integers(1, 6))) for _ in range(2))
        assert squad_exact(prediction, reference) == metrics.exact_match_score(prediction, reference, "en")
        if normalise_squad(prediction) or normalise_squad(reference):  # both empty: right in version 2.0
            assert squad_f1(prediction, reference) == pytest.approx(metrics.f1_score(prediction, reference, "en"))


def test_drop_by_hand() -> None:
    """Numbers are compared as numbers, spans one to one, and a wrong number scores nothing."""
    assert normalise_drop("The 3,000 well-known men") == "3000.0 well known men"
    assert drop_scores("12", ("12.0",)) == (1.0, 1.0)
    assert drop_scores("12 yards", ("13 yards",)) == (0.0, 0.0)
    assert drop_scores(("Tom Brady", "Manning"), ("Manning", "Tom Brady")) == (1.0, 1.0)
    assert drop_scores("Manning", ("Manning", "Tom Brady")) == (0.0, 0.5)


def test_a_drop_row_has_distinct_references() -> None:
    """The annotators' answers follow the first, each once; a date is day, month and year."""
    date = {"day": "", "month": "May", "year": "1999"}
    nothing = {"day": "", "month": "", "year": ""}
    row = {
        "answer": {"number": "", "date": date, "spans": []},
        "validated_answers": {"number": ["3", ""], "date": [nothing, date], "spans": [[], []]},
    }
    assert drop_answers(row) == [("May 1999",), ("3",)]
    assert score_drop("3", drop_answers(row))["em"].value == 1.0
    assert score_drop("", [(" ",)])["em"].value == 0.0


@pytest.mark.oracle
def test_drop_equals_lm_eval() -> None:
    """For random answers and references of difficult words, one span or several, em and F1 are lm-eval's."""
    theirs = pytest.importorskip("lm_eval.tasks.drop.utils")
    pytest.importorskip("scipy")
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(1, 4)))

    for _ in range(300):
        prediction: Any = text() if rng.random() < 0.5 else tuple(text() for _ in range(rng.integers(1, 4)))
        golds = [tuple(text() for _ in range(rng.integers(1, 4))) for _ in range(rng.integers(1, 4))]
        expected = theirs.process_results(
            {"answers": golds}, [prediction] if isinstance(prediction, str) else prediction
        )
        ours = score_drop(prediction, golds)
        assert {name: score.value for name, score in ours.items()} == pytest.approx(expected), (prediction, golds)


def test_the_assignment_is_the_best_of_all() -> None:
    """On random tables, tall and wide, the sum equals the best over all permutations."""
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (2, 3), (4, 4), (5, 3), (1, 5)):
        for _ in range(20):
            gains = np.round(rng.random(shape), 1)
            wide = gains if shape[0] <= shape[1] else gains.T
            best = max(
                sum(wide[i, j] for i, j in enumerate(columns))
                for columns in permutations(range(wide.shape[1]), wide.shape[0])
            )
            assert best_assignment(gains.tolist()) == pytest.approx(best)
    assert best_assignment([]) == 0.0
