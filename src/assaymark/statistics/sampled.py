"""Mean of scores of which each was drawn with a known probability, as rules draw traces."""

import math
from collections.abc import Hashable, Sequence

from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate, cluster_sums, effective_wilson, estimate_mean
from assaymark.statistics.intervals import as_floats, t_interval


def estimate_sampled_mean(
    values: Sequence[float],
    rates: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    is_share: bool | None = None,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Estimate the mean that all traces would have, of those that were drawn, each at its own rate.

    The mean is sum(y / r) / sum(1 / r), Hajek's form of the Horvitz-Thompson estimate. Its error is that of a ratio,
    linearised, over clusters: it holds for the application that made the traces, not for these traces alone, so it is
    above 0 at a rate of 1 too. At one rate it is `estimate_mean`. Of shares the interval is Wilson's with the effective
    number of scores, otherwise Student's.

    Args:
        values: the scores.
        rates: the probability with which each was drawn, 0 < r <= 1.
        clusters: a label per score; those of one label (a session) may depend on each other. None: none do.
        is_share: whether only values in [0, 1] are possible; None: whether these are.
        confidence: of the interval.

    Returns: the estimate; without an interval where all scores are of one cluster.

    Raises: DataError for no scores, counts that differ, or a rate outside (0, 1].
    Source: Hajek 1971; Särndal, Swensson and Wretman 1992, section 5.7; Kish 1965 (effective number).
    """
    scores, drawn = as_floats(values), as_floats(rates, "rates")
    n_labels = len(scores) if clusters is None else len(clusters)
    if not len(scores) == len(drawn) == n_labels:
        raise DataError(f"{len(scores)} scores, {len(drawn)} rates and {n_labels} clusters; expected equal numbers")
    if drawn.min() <= 0 or drawn.max() > 1:
        raise DataError(f"rates are from {drawn.min():g} to {drawn.max():g}; expected more than 0 and at most 1")
    n_clusters = len(scores) if clusters is None else len(set(clusters))
    weights = 1.0 / drawn
    total = float(weights.sum())
    mean = float((weights * scores).sum()) / total
    if n_clusters < 2:
        return IntervalEstimate(mean, None, None, None, "none: one cluster", len(scores), confidence, n_clusters)
    if drawn.min() == drawn.max():
        labels = clusters if n_clusters < len(scores) else None
        binary, bounds = (False, (-math.inf, math.inf)) if is_share is False else (None, None)
        return estimate_mean(values, binary=binary, clusters=labels, confidence=confidence, bounds=bounds)
    residuals = weights * (scores - mean)
    sums = weights
    if clusters is not None:
        residuals, sums = cluster_sums(residuals, clusters), cluster_sums(weights, clusters)
    stderr = math.sqrt(n_clusters / (n_clusters - 1) * float((residuals**2).sum())) / total
    n_effective = total**2 / float((sums**2).sum())
    df = max(n_effective - 1.0, 1.0)
    if (scores.min() >= 0 and scores.max() <= 1) if is_share is None else is_share:
        interval, method = effective_wilson(mean, stderr, n_effective, df, confidence), "weighted wilson"
    elif stderr == 0:
        method = "none: all scores are equal"
        return IntervalEstimate(mean, None, None, None, method, len(scores), confidence, n_clusters)
    else:
        interval, method = t_interval(mean, stderr, df, confidence), "weighted t"
    n = len(scores)
    return IntervalEstimate(mean, interval.low, interval.high, stderr, method, n, confidence, n_clusters, df)
