"""Score log-likelihood tasks (LAMBADA): the probability of one target, and whether greedy decoding generates it.

Score whole texts: a document's nats per word or byte, independent of the tokenizer.

A document has its own perplexity; the task's is computed from the ratio of sums, for which scores have `parts`.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from assaymark.errors import MalformedSample, NonFiniteLogits, UnknownName
from assaymark.registry import nearest
from assaymark.scoring.metric import LOGLIKELIHOOD, ROLLING, ScoreValue, metric
from assaymark.scoring.metrics import computations, defaults_for

_FROM_ZERO = (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    """How probable a model finds one target. Units: nats."""

    nats: float
    greedy: bool  # whether greedy decoding would generate it


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """How probable a model finds a whole text. Units: nats."""

    nats: float
    counted: str  # the text whose words and bytes count


def count_words(text: str) -> int:
    """Return lm-eval's word count: pieces between runs of white space, empty ones at the ends included."""
    return len(re.split(r"\s+", text))


def count_bytes(text: str) -> int:
    """Return the bytes of the text in UTF-8."""
    return len(text.encode("utf-8"))


def score_rolling(
    nats: float, text: str, metrics: Iterable[str] | None = None, *, counted_text: str | None = None
) -> dict[str, ScoreValue]:
    """Score one document's rolling log-likelihood; `parts` are (nats, weight) with weight in words or bytes.

    Args:
        nats: log-likelihood of the whole text.
        text: the text that was scored.
        metrics: those of whole texts; None: the default ones.
        counted_text: the text whose words and bytes count, where it differs (wikitext: the original page).

    Units: nats; bits for bits_per_byte. Raises: NonFiniteLogits; MalformedSample for an empty text.
    Source: lm-evaluation-harness 0.4.13, output type loglikelihood_rolling; aggregation sum(nats) / sum(weights).
    """
    if not math.isfinite(nats):
        raise NonFiniteLogits(f"log-likelihood of the text is {nats}; expected a finite number; try dtype=bfloat16")
    counted = text if counted_text is None else counted_text
    if not counted:
        raise MalformedSample("the text is empty; a perplexity per word or byte needs at least one byte")
    answer, known = TextAnswer(float(nats), counted), computations(ROLLING)
    result: dict[str, ScoreValue] = {}
    for name in defaults_for(ROLLING) if metrics is None else metrics:
        if name not in known:
            raise UnknownName("rolling metric", name, nearest(name, known))
        result[name] = known[name](answer)
    return result


OfText = Callable[[TextAnswer], ScoreValue]


def _per_unit(formula: str, aggregation: str, preference: int | None = None) -> Callable[[OfText], OfText]:
    """Declare a metric of whole texts' log-likelihoods per word or byte."""
    return metric(
        of=ROLLING,
        formula=formula,
        is_default=True,
        aggregation=aggregation,
        higher_is_better=False,
        scale="number",
        bounds=_FROM_ZERO,
        measures_text=True,
        in_lm_eval=True,
        preference=preference,
    )


@_per_unit("exp(-sum of log-likelihoods / sum of words)", "weighted_perplexity", 7)
def word_perplexity(answer: TextAnswer) -> ScoreValue:
    """Return a document's perplexity per word."""
    weight = count_words(answer.counted)
    return ScoreValue(_exp(-answer.nats / weight), parts=(answer.nats, weight))


@_per_unit("exp(-sum of log-likelihoods / sum of UTF-8 bytes)", "weighted_perplexity")
def byte_perplexity(answer: TextAnswer) -> ScoreValue:
    """Return a document's perplexity per byte."""
    weight = count_bytes(answer.counted)
    return ScoreValue(_exp(-answer.nats / weight), parts=(answer.nats, weight))


@_per_unit("-sum of log-likelihoods / sum of UTF-8 bytes / ln 2", "bits_per_byte", 6)
def bits_per_byte(answer: TextAnswer) -> ScoreValue:
    """Return a document's bits per byte."""
    weight = count_bytes(answer.counted)
    return ScoreValue(-answer.nats / weight / math.log(2), parts=(answer.nats, weight))


def _exp(value: float) -> float | None:
    """Return exp(value), or None beyond float64: one document may be that improbable, the ratio of sums is not."""
    return math.exp(value) if value < 709 else None


def score_loglikelihood(nats: float, greedy: bool, metrics: Iterable[str] | None = None) -> dict[str, ScoreValue]:
    """Score one target, by the default metrics where `metrics` is None.

    `perplexity`'s value is the target's log-likelihood; its aggregation is exp(-mean): per sample, not per token.

    Units: nats. Raises: NonFiniteLogits; UnknownName.
    Source: lm-evaluation-harness 0.4.13, `ConfigurableTask.process_results`, output type loglikelihood.
    """
    if not math.isfinite(nats):
        raise NonFiniteLogits(f"log-likelihood of the target is {nats}; expected a finite number; try dtype=bfloat16")
    answer, known = TargetAnswer(float(nats), bool(greedy)), computations(LOGLIKELIHOOD)
    wanted = defaults_for(LOGLIKELIHOOD) if metrics is None else list(metrics)
    for name in wanted:
        if name not in known:
            raise UnknownName("log-likelihood metric", name, nearest(name, known))
    return {name: known[name](answer) for name in wanted}


@metric(
    of=LOGLIKELIHOOD,
    formula="exp of minus the mean log-likelihood of the continuations, per sample",
    is_default=True,
    aggregation="perplexity",
    higher_is_better=False,
    scale="number",
    bounds=_FROM_ZERO,
    measures_text=True,
    in_lm_eval=True,
)
def perplexity(answer: TargetAnswer) -> ScoreValue:
    """Return the target's log-likelihood, of which the aggregation is exp(-mean)."""
    return ScoreValue(answer.nats)


@metric(
    of=LOGLIKELIHOOD,
    formula="1 if every token of the continuation is the model's first choice, else 0",
    is_default=True,
    scale="right or wrong",
    in_lm_eval=True,
    logged_as="whole number",
)
def acc(answer: TargetAnswer) -> ScoreValue:
    """Return whether greedy decoding would generate the target."""
    return ScoreValue(float(answer.greedy))
