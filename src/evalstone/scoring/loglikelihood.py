"""Log-likelihood tasks (LAMBADA): how probable one given target is, and whether greedy decoding would write it."""

import math
from collections.abc import Iterable

from evalstone.errors import NonFiniteLogits, UnknownName
from evalstone.registry import nearest
from evalstone.scoring.values import ScoreValue

METRICS = ("perplexity", "acc", "bypass")


def score_loglikelihood(
    nats: float, greedy: bool, metrics: Iterable[str] = ("perplexity", "acc")
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
            raise UnknownName("log-likelihood metric", metric, nearest(metric, METRICS))
    return {metric: values[metric] for metric in wanted}
