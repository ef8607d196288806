"""Whether a model does better on the public part of a benchmark than on the part that nobody has seen.

The parts were drawn by a keyed hash of each row, so where the public rows are as new to a model as the others, every
division of its scores into parts of these sizes was equally likely. That is the distribution of the test, with no
assumption on the scores: for right and wrong it is Fisher's exact test (a hypergeometric tail), for graded scores a
permutation test.
"""

import math
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.groups import compare_means, compare_shares
from assaymark.statistics.intervals import as_floats

DRAWS = 9_999


@dataclass(frozen=True, slots=True)
class Exposure:
    """Scores on the public part beside those on the private one; larger is better."""

    n_public: int
    n_private: int
    public: float  # means
    private: float
    difference: float  # public minus private
    low: float | None  # one-sided bound: the true difference is above it with this confidence; None: unknown
    p: float  # one-sided, of no advantage on the public part
    method: str
    confidence: float = 0.95


def compare_parts(public: Floats, private: Floats, *, confidence: float = 0.95) -> Exposure:
    """Test whether scores on the public part are higher than on the private one.

    Bound of shares: the lower end of Newcombe's interval of twice the error; of graded scores: Welch's.
    Shapes: public [n_public], private [n_private]; larger is better.
    Source: Fisher 1935 (exact test); Newcombe 1998, method 10; Phipson and Smyth 2010 (p of a permutation test).
    Raises: DataError for an empty part, or scores that are not finite.
    """
    first, second = as_floats(public, "scores on the public part"), as_floats(private, "scores on the private part")
    if not 0.5 < confidence < 1.0:
        raise DataError(f"confidence is {confidence}; expected a number between 0.5 and 1, such as 0.95")
    together = np.concatenate([first, second])
    two_sided = 2.0 * confidence - 1.0
    low: float | None
    if np.isin(together, (0.0, 1.0)).all():
        right, right_private = int(first.sum()), int(second.sum())
        p = _hypergeometric_tail(right, len(first), right + right_private, len(together))
        low = compare_shares(right_private, len(second), right, len(first), confidence=two_sided).low
        method = "Fisher's exact test, Newcombe bound"
    else:
        p = _permutation_p(first, together)
        method = "permutation test, Welch bound"
        try:
            low = compare_means(second, first, confidence=two_sided).low
        except DataError:  # one score, or no spread
            low = None
    means = float(first.mean()), float(second.mean())
    return Exposure(len(first), len(second), *means, means[0] - means[1], low, p, method, confidence)


def _hypergeometric_tail(right: int, n_drawn: int, n_right: int, n: int) -> float:
    """Return the probability that n_drawn of n answers have at least `right` of the n_right right ones."""
    total = _log_choose(n, n_drawn)
    terms = [
        math.exp(_log_choose(n_right, k) + _log_choose(n - n_right, n_drawn - k) - total)
        for k in range(max(right, n_drawn - (n - n_right)), min(n_right, n_drawn) + 1)
    ]
    return min(1.0, math.fsum(terms))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _permutation_p(first: Floats, together: Floats) -> float:
    """Return the share of divisions whose first part has at least the observed sum; the observed one counts too."""
    generator = generator_for("exposure", len(first), len(together))
    observed = float(first.sum())
    tolerance = 1e-9 * max(1.0, abs(observed))
    n_at_least = sum(
        float(generator.permutation(together)[: len(first)].sum()) >= observed - tolerance for _ in range(DRAWS)
    )
    return (n_at_least + 1) / (DRAWS + 1)
