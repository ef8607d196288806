"""SQuAD 2.0's threshold against exhaustive search."""

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.answer_threshold import best_threshold


def test_the_best_threshold_equals_exhaustive_search() -> None:
    """For random questions the value equals the best over every threshold, with answers above it withheld."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 30))
        probabilities, has_answer = rng.random(n), rng.random(n) < 0.6
        answered = rng.random(n) < 0.9
        scores = np.where(has_answer, rng.random(n) * answered, ~answered)
        tried = []
        for threshold in [-1.0, *probabilities]:
            withheld = probabilities > threshold
            tried.append(float(np.where(withheld, ~has_answer, scores).mean()))
        result = best_threshold(scores.tolist(), probabilities.tolist(), has_answer.tolist(), answered.tolist())
        assert result.value == pytest.approx(max(tried))


def test_never_answering_may_be_best() -> None:
    """If every answer is wrong, it is best to withhold them all."""
    result = best_threshold([0.0, 0.0], [0.2, 0.4], [True, False], [True, True])
    assert (result.value, result.threshold) == (0.5, 0.0)
    with pytest.raises(DataError, match="differ in length"):
        best_threshold([0.0], [0.2, 0.4], [True], [True])
