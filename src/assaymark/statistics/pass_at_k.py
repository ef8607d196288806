"""Metrics of several answers per question: pass@k (one of k is correct), pass^k (all are), majority vote, G-Pass@k.

For n answers, c of them correct, each metric is the exact average over all choices of k answers. The unit of
uncertainty is the question, not the answer: compute the metric per question and estimate its mean.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate, estimate_mean


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the probability that at least one of k answers is correct: 1 - C(n-c, k) / C(n, k).

    Source: Chen et al. 2021 (arXiv 2107.03374), equation 1; unbiased, unlike 1 - (1 - c/n)^k.
    """
    _check(n, c, k)
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Return the probability that all of k answers are correct: C(c, k) / C(n, k).

    Source: Yao et al. 2024 (tau-bench).
    """
    _check(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def g_pass_at_k(n: int, c: int, k: int, threshold: float) -> float:
    """Return the probability that at least max(1, ⌈threshold k⌉) of k answers are correct.

    Source: Liu et al. 2024 (G-Pass@k, arXiv 2412.13147), equation 3: a hypergeometric tail.
    """
    _check(n, c, k)
    if not 0.0 <= threshold <= 1.0:
        raise DataError(f"threshold is {threshold}; expected a share between 0 and 1")
    least = max(math.ceil(threshold * k - 1e-9), 1)
    ways = sum(math.comb(c, j) * math.comb(n - c, k - j) for j in range(least, min(c, k) + 1))
    return ways / math.comb(n, k)


def mg_pass_at_k(n: int, c: int, k: int) -> float:
    """Return the mean of G-Pass@k over thresholds from one half to one: (2/k) Σ_{i = ⌈k/2⌉+1..k} G-Pass@k(i/k)."""
    _check(n, c, k)
    return 2.0 / k * sum(g_pass_at_k(n, c, k, i / k) for i in range(math.ceil(k / 2) + 1, k + 1))


def maj_at_k(answers: Sequence[Hashable], right: Sequence[bool], k: int) -> float:
    """Return the probability that the most frequent of k answers is correct; t tied answers count 1/t each.

    Exact over all C(n, k) choices: for every correct answer and every count it can have, the choices in which no other
    answer has a larger count, divided by the number of answers with the same count.

    Source: Wang et al. 2022 (self-consistency), averaged over choices of k.
    Raises: DataError if the same answer has different verdicts.
    """
    _check(len(answers), sum(bool(r) for r in right), k)
    if len(answers) != len(right):
        raise DataError(f"{len(answers)} answers and {len(right)} verdicts; expected one verdict per answer")
    verdicts: dict[Hashable, bool] = {}
    counts: dict[Hashable, int] = {}
    for answer, verdict in zip(answers, right, strict=True):
        if verdicts.setdefault(answer, bool(verdict)) != bool(verdict):
            raise DataError(f"answer {answer!r} is both right and wrong; expected one verdict per distinct answer")
        counts[answer] = counts.get(answer, 0) + 1
    total = sum(
        _winning_ways(size, [other for key, other in counts.items() if key != answer], k)
        for answer, size in counts.items()
        if verdicts[answer]
    )
    return total / math.comb(len(answers), k)


def _winning_ways(size: int, others: Sequence[int], k: int) -> float:
    """Return the number of choices of k in which an answer of `size` copies wins; a tie of t counts 1/t."""
    total = 0.0
    for votes in range(1, min(size, k) + 1):
        # ways[drawn, tied]: choices from the others so far with none above `votes` and `tied` of them equal to it
        ways: dict[tuple[int, int], int] = {(0, 0): 1}
        for other in others:
            grown: dict[tuple[int, int], int] = {}
            for (drawn, tied), count in ways.items():
                for x in range(min(other, votes, k - votes - drawn) + 1):
                    state = (drawn + x, tied + (x == votes))
                    grown[state] = grown.get(state, 0) + count * math.comb(other, x)
            ways = grown
        of_others = sum(count / (tied + 1) for (drawn, tied), count in ways.items() if drawn == k - votes)
        total += math.comb(size, votes) * of_others
    return total


@dataclass(frozen=True, slots=True)
class RepeatVariance:
    """Components of the variance of a mean over repeated answers."""

    between_items: float  # variance of the questions' own means
    within_items: float  # mean variance of a question's answers
    repeats: float  # answers per question, harmonic mean

    def of_mean(self, n_items: int, repeats: float) -> float:
        """Return (between + within / K) / n: the variance of the mean of n questions with K answers each."""
        return (self.between_items + self.within_items / repeats) / n_items


def split_variance(scores: Sequence[Sequence[float]]) -> RepeatVariance:
    """Split the variance of repeated scores into between and within questions. Shapes: scores [questions][answers].

    Raises: DataError for fewer than 2 questions, or fewer than 2 answers of one.

    Source: Miller 2024 (arXiv 2411.00640), section 2.3; one-way random effects, method of moments.
    """
    rows = [np.asarray(row, dtype=np.float64) for row in scores]
    if len(rows) < 2 or min(len(row) for row in rows) < 2:
        raise DataError("a split of the variance needs at least 2 questions with at least 2 answers each")
    within = float(np.mean([row.var(ddof=1) for row in rows]))
    repeats = len(rows) / sum(1.0 / len(row) for row in rows)
    means = np.array([row.mean() for row in rows])
    return RepeatVariance(max(float(means.var(ddof=1)) - within / repeats, 0.0), within, repeats)


def estimate_pass_at_k(
    right: Sequence[int], tried: Sequence[int], k: int, confidence: float = 0.95
) -> IntervalEstimate:
    """Estimate the mean pass@k over questions, from the numbers of right answers and of tries per question.

    With k near n the values per question are nearly 0 or 1 and the error is large: n >= 2k is advised.
    """
    if len(right) != len(tried):
        raise DataError(f"{len(right)} counts of right answers and {len(tried)} of tries; expected equal numbers")
    values = [pass_at_k(n, c, k) for c, n in zip(right, tried, strict=True)]
    return estimate_mean(values, confidence=confidence)


def _check(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise DataError(f"n = {n} answers, c = {c} right, k = {k}; expected 0 <= c <= n and 1 <= k <= n")
