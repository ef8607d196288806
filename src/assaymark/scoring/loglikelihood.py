"""Score log-likelihood tasks (LAMBADA): the probability of one target, and whether greedy decoding generates it.

Score whole texts: a document's nats per word or byte, independent of the tokenizer.

A document has its own perplexity; the task's is computed from the ratio of sums, for which scores have `parts`.
"""

import math
import re
from collections.abc import Iterable

from assaymark.errors import MalformedSample, NonFiniteLogits, UnknownName
from assaymark.registry import nearest
from assaymark.scoring.metrics import LOGLIKELIHOOD, ROLLING, defaults_for, names_for
from assaymark.scoring.values import ScoreValue


def count_words(text: str) -> int:
    """Return lm-eval's word count: pieces between runs of white space, empty ones at the ends included."""
    return len(re.split(r"\s+", text))


def count_bytes(text: str) -> int:
    """Return the bytes of the text in UTF-8."""
    return len(text.encode("utf-8"))


def score_rolling(
    nats: float, text: str, metrics: Iterable[str] = defaults_for(ROLLING), *, counted_text: str | None = None
) -> dict[str, ScoreValue]:
    """Score one document's rolling log-likelihood; `parts` are (nats, weight) with weight in words or bytes.

    Args:
        nats: log-likelihood of the whole text.
        text: the text that was scored.
        metrics: those of `metrics.METRICS` for whole texts.
        counted_text: the text whose words and bytes count, where it differs (wikitext: the original page).

    Units: nats; bits for bits_per_byte. Raises: NonFiniteLogits; MalformedSample for an empty text.
    Source: lm-evaluation-harness 0.4.13, output type loglikelihood_rolling; aggregation sum(nats) / sum(weights).
    """
    if not math.isfinite(nats):
        raise NonFiniteLogits(f"log-likelihood of the text is {nats}; expected a finite number; try dtype=bfloat16")
    counted = text if counted_text is None else counted_text
    if not counted:
        raise MalformedSample("the text is empty; a perplexity per word or byte needs at least one byte")
    result: dict[str, ScoreValue] = {}
    for metric in metrics:
        if metric not in names_for(ROLLING):
            raise UnknownName("rolling metric", metric, nearest(metric, names_for(ROLLING)))
        result[metric] = _metric(metric, nats, counted)
    return result


def _metric(metric: str, nats: float, counted: str) -> ScoreValue:
    if metric == "bypass":
        return ScoreValue(None)
    weight = count_words(counted) if metric == "word_perplexity" else count_bytes(counted)
    rate = -nats / weight
    return ScoreValue(rate / math.log(2) if metric == "bits_per_byte" else _exp(rate), parts=(float(nats), weight))


def _exp(value: float) -> float | None:
    """Return exp(value), or None beyond float64: one document may be that improbable, the ratio of sums is not."""
    return math.exp(value) if value < 709 else None


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
