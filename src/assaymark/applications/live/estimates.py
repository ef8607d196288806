"""Estimates from the scores of traces: a mean for each score and version, weighted by how the traces were drawn.

Two rules with the same score draw by the same number of a trace (`draw_of`). A trace that both have drawn was
therefore drawn at the higher of the two rates, and counts once. Feedback and ratings are not drawn: people choose
whether to answer, so these means are of those who did.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from assaymark.applications.live.rule_rows import WeightedScore
from assaymark.applications.scorers.named import is_of_numbers
from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.summed import estimate_sampled_mean


@dataclass(frozen=True, slots=True)
class ScoreEstimate:
    """The scores of one name, source, version of the application and way of scoring.

    n: with a value; n_failed: the scorer failed, or the trace has no output; n_stale: spans came after the score, which
    is not in the estimate until the trace is scored again; rates: lowest and highest.
    """

    name: str
    source: str
    version: str | None
    rule_version: bytes | None
    n: int
    n_failed: int
    n_stale: int
    labels: dict[str, int]
    rates: tuple[float, float] | None
    estimate: IntervalEstimate | None

    json_keys = (
        "name source version scorer_version=rule_version n failed=n_failed stale=n_stale mean=estimate.value "
        "low=estimate.low high=estimate.high method=estimate.method rates labels"
    )


def estimates_of(scores: Iterable[WeightedScore], numbers: Collection[tuple[str, str]] = ()) -> list[ScoreEstimate]:
    """Return an estimate for each name, source, version and way of scoring, in this order.

    scores: in the order of `RuleLog.weighted_scores`. Of each that counts two numbers and a label are kept.
    numbers: names and sources of scores that are no shares, besides those of registered scorers (`number_scores`).
    """
    estimates = [
        _estimate(key, _once(group), is_number=key[:2] in numbers or is_of_numbers(key[0]))
        for key, group in groupby(scores, key=lambda each: (each.name, each.source, each.version, each.rule_version))
    ]
    return sorted(estimates, key=lambda each: (each.name, each.source, each.version or "", each.rule_version or b""))


def _once(scores: Iterable[WeightedScore]) -> Iterator[WeightedScore]:
    """Yield each trace's score of rules once: the one with the highest rate, which comes first."""
    last: bytes | None = None
    for score in scores:
        if score.rate is None or score.trace_id is None:
            yield score
        elif score.trace_id != last:
            last = score.trace_id
            yield score


def _estimate(
    key: tuple[str, str, str | None, bytes | None], scores: Iterable[WeightedScore], *, is_number: bool
) -> ScoreEstimate:
    values, rates, clusters = array("d"), array("d"), array("q")
    labels: dict[str, int] = defaultdict(int)
    lowest, highest = math.inf, -math.inf  # rates of rules
    n_failed = n_stale = n_clusters = 0
    cluster: str | bytes | None = None
    for score in scores:
        if score.is_stale:
            n_stale += 1
            continue
        if score.label is not None:
            labels[score.label] += 1
        if score.rate is not None:
            lowest, highest = min(lowest, score.rate), max(highest, score.rate)
        n_failed += score.is_failed
        if score.value is None or score.is_failed:
            continue
        of_score = score.session or score.trace_id
        if of_score is None or of_score != cluster:
            n_clusters += 1
            cluster = of_score
        values.append(score.value)
        rates.append(1.0 if score.rate is None else score.rate)
        clusters.append(n_clusters)
    estimate = None
    if values:
        try:
            # a different label for each carries no information and takes much more memory
            estimate = estimate_sampled_mean(
                values,
                rates,
                clusters if n_clusters < len(values) else None,
                is_share=False if is_number else None,
            )
        except DataError:  # a value that is not finite: only a store from elsewhere has one
            estimate = None
    return ScoreEstimate(
        *key,
        n=len(values),
        n_failed=n_failed,
        n_stale=n_stale,
        labels=dict(labels),
        rates=None if lowest > highest else (lowest, highest),
        estimate=estimate,
    )
