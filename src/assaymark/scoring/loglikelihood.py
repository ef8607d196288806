"""Score log-likelihood tasks (LAMBADA): the probability of one target, and whether greedy decoding generates it."""

import math
from collections.abc import Iterable

from assaymark.errors import NonFiniteLogits, UnknownName
from assaymark.registry import nearest
from assaymark.scoring.metrics import LOGLIKELIHOOD, defaults_for, names_for
from assaymark.scoring.values import ScoreValue


def score_loglikelihood(
    nats: float, greedy: bool, metrics: Iterable[str] = defaults_for(LOGLIKELIHOOD)
) -> dict[str, ScoreValue]:
    """Score one target.

    `perplexity`'s value is the target's log-likelihood; its aggregation is exp(-mean): per sample, not per token.

    Units: nats. Raises: NonFiniteLogits; UnknownName.
    Source: lm-evaluation-harness 0.4.13, `ConfigurableTask.process_results`, output type loglikelihood.
    """
    if not math.isfinite(nats):
        raise NonFiniteLogits(f"log-likelihood of the target is {nats}; expected a finite number; try dtype=bfloat16")
    values = {
        "perplexity": ScoreValue(float(nats)),
        "acc": ScoreValue(float(greedy)),
        "bypass": ScoreValue(None),
    }
    wanted = list(metrics)
    for metric in wanted:
        if metric not in values:
            raise UnknownName("log-likelihood metric", metric, nearest(metric, names_for(LOGLIKELIHOOD)))
    return {metric: values[metric] for metric in wanted}
