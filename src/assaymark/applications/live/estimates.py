"""What the scores of traces say of the application: a mean by score and version, weighted by how traces were drawn.

Two rules of one score draw by the same number of a trace, so of a trace that both have drawn the higher rate is the
one at which it was drawn, and it counts once. Feedback and ratings were not drawn: who answers chooses to, so their
means are of those who did.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from assaymark.errors import DataError
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.sampled import estimate_sampled_mean
from assaymark.store.rule_rows import WeightedScore

__all__ = ["ScoreEstimate", "estimates_of"]


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

    def to_json(self) -> dict[str, Any]:
        """Return it with stable names."""
        estimate = self.estimate
        return {
            "name": self.name,
            "source": self.source,
            "version": self.version,
            "scorer_version": None if self.rule_version is None else self.rule_version.hex(),
            "n": self.n,
            "failed": self.n_failed,
            "stale": self.n_stale,
            "mean": None if estimate is None else estimate.value,
            "low": None if estimate is None else estimate.low,
            "high": None if estimate is None else estimate.high,
            "method": None if estimate is None else estimate.method,
            "rates": None if self.rates is None else list(self.rates),
            "labels": self.labels,
        }


def estimates_of(scores: Iterable[WeightedScore]) -> list[ScoreEstimate]:
    """Return an estimate for each name, source, version and way of scoring, in this order."""
    groups: dict[tuple[str, str, str | None, bytes | None], list[WeightedScore]] = defaultdict(list)
    for score in scores:
        groups[score.name, score.source, score.version, score.rule_version].append(score)
    order = sorted(groups, key=lambda key: (key[0], key[1], key[2] or "", key[3] or b""))
    return [_estimate(key, _once(groups[key])) for key in order]


def _once(scores: Sequence[WeightedScore]) -> list[WeightedScore]:
    """Return each trace's score of rules once: that of the highest rate at which it was drawn."""
    of_traces: dict[bytes, WeightedScore] = {}
    others: list[WeightedScore] = []
    for score in scores:
        if score.rate is None or score.trace_id is None:
            others.append(score)
            continue
        known = of_traces.get(score.trace_id)
        if known is None or known.rate is None or score.rate > known.rate:
            of_traces[score.trace_id] = score
    return [*of_traces.values(), *others]


def _estimate(key: tuple[str, str, str | None, bytes | None], scores: Sequence[WeightedScore]) -> ScoreEstimate:
    current = [score for score in scores if not score.is_stale]
    valued = [(score, score.value) for score in current if score.value is not None and not score.is_failed]
    labels: dict[str, int] = defaultdict(int)
    for score in current:
        if score.label is not None:
            labels[score.label] += 1
    rates = [1.0 if score.rate is None else score.rate for score, _ in valued]
    clusters = [score.session or score.trace_id or at for at, (score, _) in enumerate(valued)]
    estimate = None
    if valued:
        try:
            estimate = estimate_sampled_mean([value for _, value in valued], rates, clusters)
        except DataError:  # a value that is not finite: only a store from elsewhere has one
            estimate = None
    drawn = [score.rate for score in current if score.rate is not None]
    return ScoreEstimate(
        *key,
        n=len(valued),
        n_failed=sum(score.is_failed for score in current),
        n_stale=len(scores) - len(current),
        labels=dict(labels),
        rates=(min(drawn), max(drawn)) if drawn else None,
        estimate=estimate,
    )
