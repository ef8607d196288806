"""Win rates against one baseline: Arena-Hard's by Bradley-Terry, and the one at equal length of the answers."""

import math
from collections.abc import Hashable, Sequence

import numpy as np

from assaymark.errors import DataError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.bradley_terry import sigmoid
from assaymark.statistics.distributions import t_quantile
from assaymark.statistics.estimate import IntervalEstimate, cluster_sums
from assaymark.statistics.intervals import as_floats, bootstrap, check_confidence
from assaymark.statistics.logistic import fit_logistic, length_gaps

DRAWS = 1000
FEWEST_QUESTIONS = 10  # for a regression with two coefficients and its clustered error
LEAST_SHARE = 0.2  # of answers that are longer, and that are shorter: with less, equal length is an extrapolation


def bradley_terry_rate(
    outcomes: Sequence[float],
    weights: Sequence[float],
    questions: Sequence[Hashable],
    *,
    confidence: float = 0.95,
    draws: int = DRAWS,
) -> IntervalEstimate:
    """Return the chance of beating the baseline in a Bradley-Terry model of all battles, ties being half a win.

    With every battle against one baseline the likelihood has a closed solution: a model's strength depends on its own
    battles only, and its chance σ(θ - θ_baseline) is Σ weight · outcome / Σ weight, also where θ is infinite. The
    interval has the percentiles of a seeded bootstrap over questions, whose battles are dependent; there is none for
    one question, or where no draw differs.

    Args:
        outcomes: 1 for a win, 0 for a loss, in between for ties and for the mean of several battles.
        weights: battles that each outcome stands for, above 0.
        questions: a label for each outcome.
        draws: resamples of questions.

    Source: Arena-Hard v0.1 (arena-hard-auto 196f6b82), which draws single battles, 100 times; Bradley and Terry 1952.
    Raises: DataError for no outcomes, counts that differ, or a weight that is not above 0.
    """
    check_confidence(confidence)
    values, counts = as_floats(outcomes, "outcomes"), as_floats(weights, "weights")
    if not len(values) == len(counts) == len(questions) or counts.min() <= 0:
        raise DataError(f"{len(values)} outcomes, {len(counts)} weights; expected equal counts, weights above 0")
    sums = np.column_stack([cluster_sums(column, questions) for column in (values * counts, counts)])  # [questions, 2]
    n_questions, value = len(sums), float(values @ counts / counts.sum())
    drawn = bootstrap(sums, _ratio, draws=draws, name=("bradley-terry rate", n_questions)) if n_questions > 1 else sums
    if n_questions == 1 or np.ptp(drawn) < 1e-12:
        why = "one question" if n_questions == 1 else "no draw differs"
        return IntervalEstimate(value, None, None, None, f"none: {why}", len(values), confidence, n_questions)
    tail = (1.0 - confidence) / 2.0
    low, high = (float(end) for end in np.quantile(drawn, [tail, 1.0 - tail]))
    error, method = float(drawn.std(ddof=1)), "bootstrap over questions"
    return IntervalEstimate(value, low, high, error, method, len(values), confidence, n_questions)


def _ratio(drawn: Floats) -> Floats:
    """Return Σ wins / Σ battles of each draw. Shapes: [draws, questions, 2] -> [draws]."""
    totals = drawn.sum(axis=1)
    return np.asarray(totals[:, 0] / totals[:, 1])


def equal_length_rate(
    outcomes: Sequence[float],
    lengths: Sequence[tuple[float, float]],
    questions: Sequence[Hashable],
    weights: Sequence[float] | None = None,
    *,
    confidence: float = 0.95,
) -> IntervalEstimate | None:
    """Return the win rate where both answers are equally long: σ(θ) of logit P(win) = θ + φ tanh(Δ / sd(Δ)).

    Δ is the difference of lengths. It is the term of AlpacaEval's length-controlled win rate without the difficulty of
    each instruction, which only a fit over many models can estimate; so it is another number under another name.

    Args:
        outcomes: as for `bradley_terry_rate`.
        lengths: of the first answer and of the baseline's, in characters or tokens.
        questions: a label for each outcome.
        weights: battles that each outcome stands for; None: all 1.
        confidence: of the interval, θ ± t(C - 2) · clustered error for C questions, transformed by σ.

    Returns None where `why_no_equal_length` has a reason.
    Source: Dubois et al. 2024 (arXiv 2404.04475), equation 2 without its last term; see `fit_logistic`.
    """
    check_confidence(confidence)
    if why_no_equal_length(outcomes, lengths, questions) is not None:
        return None
    values, (own, baselines) = as_floats(outcomes, "outcomes"), np.asarray(lengths, dtype=np.float64).T
    design = np.column_stack([np.ones(len(values)), length_gaps(baselines, own)])
    fitted = fit_logistic(design, values, questions, None if weights is None else as_floats(weights, "weights"))
    if fitted is None or fitted.covariance is None:
        return None
    theta, error = float(fitted.coefficients[0]), math.sqrt(float(fitted.covariance[0, 0]))
    half = t_quantile(0.5 + confidence / 2.0, fitted.n_clusters - 2) * error
    value, low, high = (float(p) for p in sigmoid(np.array([theta, theta - half, theta + half])))
    method, stderr = "logistic regression on length", value * (1.0 - value) * error
    return IntervalEstimate(value, low, high, stderr, method, len(values), confidence, fitted.n_clusters)


def why_no_equal_length(
    outcomes: Sequence[float], lengths: Sequence[tuple[float, float]], questions: Sequence[Hashable]
) -> str | None:
    """Return why there is no win rate at equal length; None where there is one.

    Raises: DataError for counts that differ.
    """
    n = len(outcomes)
    if not n == len(lengths) == len(questions):
        raise DataError(f"{n} outcomes, {len(lengths)} pairs of lengths, {len(questions)} questions; expected as many")
    if (n_questions := len(set(questions))) < FEWEST_QUESTIONS:
        return f"{n_questions} questions; at least {FEWEST_QUESTIONS} are needed"
    gaps = np.array([own - other for own, other in lengths])
    if gaps.std() == 0:
        return "the lengths differ by the same number everywhere"
    longer, shorter = float((gaps >= 0).mean()), float((gaps <= 0).mean())
    if min(longer, shorter) < LEAST_SHARE:
        word = "longer" if longer < shorter else "shorter"
        share = min(longer, shorter)
        return f"only {share:.0%} of the answers are {word} than the other, so equal length would be an extrapolation"
    if np.ptp(np.asarray(outcomes)) == 0:
        return "all verdicts are equal"
    won = np.asarray(outcomes, dtype=np.float64)
    if fit_logistic(np.column_stack([np.ones(n), np.tanh(gaps / gaps.std())]), won) is None:
        return "the longer answer always wins, or always loses"
    return None
