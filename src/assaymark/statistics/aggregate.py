"""lm-eval's aggregations of per-sample items to one number, by the names that its task files use.

An item is the contribution of one sample: a number, or a tuple such as (gold, predicted) or (nats, weight).

The intervals of F1 and Matthews' correlation are computed from the confusion table of (gold, predicted) pairs. A
resample of the pairs is a multinomial draw of the table's cells, and omitting one pair changes one cell, so the cost of
the bootstrap depends on how many different pairs there are, not on the number of samples.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError, MissingExtra, UnknownName
from assaymark.randomness import generator_for
from assaymark.registry import Registry, nearest
from assaymark.statistics.arrays import Floats
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.intervals import bca_ends

Label = int | float | str
Indices = NDArray[np.int64]
NUMBERS_AT_ONCE = 1 << 22  # of resampled tables: 32 MB


def estimate_label_metric(
    name: str, pairs: Sequence[tuple[Label, Label]], *, confidence: float = 0.95, draws: int = 10_000
) -> IntervalEstimate:
    """Estimate f1 (of class 1) or mcc over (gold, predicted) pairs, with a BCa bootstrap interval.

    If all resamples give the same number (for example if all samples are correct), the table has no information on the
    uncertainty, and the interval is None.

    Raises: UnknownName; DataError for no pairs, or three classes in f1.
    Source: Efron 1987; f1 and mcc as in `aggregate`.
    """
    if not traits_of(name).is_of_labels:
        known = [known for known, aggregation in AGGREGATIONS.items() if aggregation.is_of_labels]
        raise UnknownName("label metric", name, known)
    if not pairs:
        raise DataError(f"{name} of no pairs; expected at least one (gold, predicted) pair")
    if name == "f1":
        check_two_classes(pairs)
    table, n = LabelPairs.of(pairs), len(pairs)
    statistic = table.f1 if name == "f1" else table.mcc
    value = float(statistic(table.counts[None])[0])
    size = len(table.counts)
    step = max(1, NUMBERS_AT_ONCE // (size + table.n_labels))
    generator, shares = generator_for("label metric", name, n), table.shares()
    replicates = np.concatenate([
        statistic(generator.multinomial(n, shares, size=min(step, draws - at))[:, :size].astype(np.float64))
        for at in range(0, draws, step)
    ])  # fmt: skip
    if n < 2 or replicates.min() == replicates.max():
        return IntervalEstimate(value, None, None, None, "none: all resamples are equal", n, confidence)
    without_one = [
        statistic(table.counts - np.eye(min(step, size - at), size, k=at)) for at in range(0, size, step)
    ]  # fmt: skip
    jackknifed = np.repeat(np.concatenate(without_one), table.counts.astype(np.int64))
    interval = bca_ends(value, replicates, jackknifed, confidence)
    stderr = float(replicates.std(ddof=1))
    return IntervalEstimate(value, interval.low, interval.high, stderr, "bca", n, confidence)


@dataclass(frozen=True, slots=True)
class LabelPairs:
    """The cells of a confusion table that occur; of free texts as labels nearly all are empty.

    Shapes: gold, predicted, counts [cells]; cell_of [pairs], the cell of each pair.
    """

    gold: Indices  # of labels, whose order is ascending, numbers before texts
    predicted: Indices
    counts: Floats
    cell_of: Indices
    n_labels: int
    positive: int  # the index of class 1; -1 where it does not occur

    @classmethod
    def of(cls, pairs: Sequence[tuple[Label, Label]]) -> "LabelPairs":
        """Return the cells of (gold, predicted) pairs, in the order of the whole table."""
        labels = sorted({label for pair in pairs for label in pair}, key=lambda label: (isinstance(label, str), label))
        index_of = {label: index for index, label in enumerate(labels)}
        codes, cell_of, counts = np.unique(
            [index_of[g] * len(labels) + index_of[p] for g, p in pairs], return_inverse=True, return_counts=True
        )
        positive = index_of.get(1, -1)
        return cls(*np.divmod(codes, len(labels)), counts.astype(np.float64), cell_of, len(labels), positive)

    def shares(self) -> Floats:
        """Return the share of each cell, and of the whole table's last one: by them resamples are drawn as of it."""
        shares = self.counts / len(self.cell_of)
        is_last_empty = self.gold[-1] + self.predicted[-1] < 2 * (self.n_labels - 1)
        return np.append(shares, 0.0) if is_last_empty else shares

    def f1(self, counts: Floats) -> Floats:
        """Return the F1 of class 1 of each table, 0 without it. Shapes: counts [tables, cells]; result [tables]."""
        gold, predicted = self.gold == self.positive, self.predicted == self.positive
        hits, of_predicted, of_gold = (counts[:, which].sum(axis=1) for which in (gold & predicted, predicted, gold))
        positives, result = of_predicted + of_gold, np.zeros(len(counts))
        np.divide(2.0 * hits, positives, out=result, where=positives > 0)
        return result

    def mcc(self, counts: Floats) -> Floats:
        """Return Matthews' correlation of each table, 0 if it is 0/0. Shapes: counts [tables, cells]; result [tables].

        Source: Gorodkin 2004, equation 8; scikit-learn's matthews_corrcoef, which lm-eval calls.
        """
        gold, predicted = self._by_label(counts, self.gold), self._by_label(counts, self.predicted)
        right, total = counts[:, self.gold == self.predicted].sum(axis=1), counts.sum(axis=1)
        covariance = right * total - (gold * predicted).sum(axis=1)
        spread = (total**2 - (predicted**2).sum(axis=1)) * (total**2 - (gold**2).sum(axis=1))
        result: Floats = np.zeros_like(covariance)
        np.divide(covariance, np.sqrt(spread), out=result, where=spread > 0)
        return result

    def _by_label(self, counts: Floats, labels: Indices) -> Floats:
        """Return the sums of the cells of each label. Shapes: counts [tables, cells]; result [tables, labels]."""
        order = np.argsort(labels, kind="stable")
        present, starts = np.unique(labels[order], return_index=True)
        sums = np.zeros((len(counts), self.n_labels))
        sums[:, present] = np.add.reduceat(counts[:, order], starts, axis=1)
        return sums


Items = Sequence[Any]


def mean(items: Items) -> float:
    """Return the arithmetic mean."""
    return float(sum(items) / len(items))


def nanmean(items: Items) -> float:
    """Return the mean of the items that are not NaN; NaN if all are, as in lm-eval."""
    values = np.asarray(items, dtype=np.float64)
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def median(items: Items) -> float:
    """Return the upper median: for an even number of items the larger of the middle two, as in lm-eval."""
    return float(sorted(items)[len(items) // 2])


def perplexity(items: Items) -> float:
    """Return exp(-mean) of log-likelihoods in nats."""
    return math.exp(-mean(items))


def weighted_mean(items: Items) -> float:
    """Return the ratio of sums of (amount, weight) pairs."""
    return float(sum(amount for amount, _ in items) / sum(weight for _, weight in items))


def weighted_perplexity(items: Items) -> float:
    """Return exp of minus nats per weight (word or byte) over the corpus."""
    return math.exp(-weighted_mean(items))


def bits_per_byte(items: Items) -> float:
    """Return bits per byte over the corpus, of (nats, bytes) pairs."""
    return -weighted_mean(items) / math.log(2)


def brier_score(items: Items) -> float:
    """Return the mean squared error of the probabilities in (gold index, probabilities) pairs, summed over choices."""
    golds, predictions = zip(*items, strict=True)
    if len({len(p) for p in predictions}) != 1:
        raise DataError(
            "lm-eval's brier_score needs the same number of choices in every sample; average `brier` instead"
        )
    table = np.asarray(predictions, dtype=np.float64)  # [samples, choices]
    if np.min(golds, initial=0) < -table.shape[1]:
        raise DataError(
            "lm-eval's brier_score needs each correct answer among the choices; correct the rows where it is none of "
            "them, or average `brier` instead"
        )
    truth = np.eye(table.shape[1])[list(golds)]
    return float(np.mean(np.sum((table - truth) ** 2, axis=1)))


def f1(items: Items) -> float:
    """Return the F1 of class 1 over (gold, predicted) pairs; 0 if class 1 does not occur.

    Raises: DataError unless the labels are two classes, one of them 1.
    Source: van Rijsbergen 1979; scikit-learn's f1_score(average="binary", zero_division=0), which lm-eval calls.
    """
    check_two_classes(items)
    pairs = LabelPairs.of(items)
    return float(pairs.f1(pairs.counts[None])[0])


def check_two_classes(items: Items) -> None:
    """Raise DataError if there are more than two labels in all, or two of which none is 1."""
    labels = {label for pair in items for label in pair}
    if len(labels) > 2 or (len(labels) == 2 and 1 not in labels):
        raise DataError(f"f1 is defined for two classes, one of them 1; found labels {sorted(labels, key=str)}")


def matthews_corrcoef(items: Items) -> float:
    """Return Matthews' correlation of (gold, predicted) pairs for any number of classes; as `LabelPairs.mcc`."""
    pairs = LabelPairs.of(items)
    return float(pairs.mcc(pairs.counts[None])[0])


def bypass(items: Items) -> float:
    """Return lm-eval's placeholder 999: samples are logged, no metric is computed."""
    return 999.0 if items is not None else math.nan


def _pairs_for_sacrebleu(items: Items) -> tuple[list[str], list[list[str]]]:
    """Return (predictions, reference streams): one stream per position among a sample's references."""
    references = [[r] if isinstance(r, str) else list(r) for r, _ in items]
    predictions = [p if isinstance(p, str) else p[0] for _, p in items]
    return predictions, [list(stream) for stream in zip(*references, strict=False)]


def _sacrebleu(function: str, items: Items, **options: object) -> float:
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtra(f"the metric {function.removeprefix('corpus_')}", "metrics") from error
    return float(getattr(sacrebleu, function)(*_pairs_for_sacrebleu(items), **options).score)


def bleu(items: Items) -> float:
    """Return corpus BLEU of (references, prediction) pairs. Source: Papineni et al. 2002; sacrebleu's defaults."""
    return _sacrebleu("corpus_bleu", items)


def chrf(items: Items) -> float:
    """Return corpus chrF. Source: Popović 2015; sacrebleu's defaults."""
    return _sacrebleu("corpus_chrf", items)


def chrf_plus_plus(items: Items) -> float:
    """Return corpus chrF++, with word bigrams. Source: Popović 2017; sacrebleu with word_order=2."""
    return _sacrebleu("corpus_chrf", items, word_order=2)


def ter(items: Items) -> float:
    """Return corpus TER; lower is better. Source: Snover et al. 2006; sacrebleu's defaults."""
    return _sacrebleu("corpus_ter", items)


def acc_all(items: Items) -> float:
    """Return the share of questions with all answers classified correctly, of (predicted, row) pairs (MultiRC)."""
    return mean(list(acc_all_groups(items, by_paragraph=True)))


def acc_all_groups(items: Items, *, by_paragraph: bool) -> list[int]:
    """Return 0 or 1 per question; without `by_paragraph` as lm-eval's standard error, by question number alone."""
    groups: dict[object, bool] = {}
    for predicted, row in items:
        key = (row["idx"]["paragraph"] if by_paragraph else None, row["idx"]["question"])
        groups[key] = groups.get(key, True) and ((row["label"] == 1) == predicted)
    return [int(right) for right in groups.values()]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One way from the items of many samples to one number, and what follows from it for intervals and comparisons."""

    function: Callable[[Items], float]
    is_mean: bool = False  # of the scores themselves
    is_log_scale: bool = False  # of two results only the ratio means anything
    is_per_sample: bool = False  # each sample has its part in it, so that two runs can be compared pair by pair
    ratio: Literal["perplexity", "bits"] | None = None  # of sums of amounts and weights, and what is made of it
    is_of_labels: bool = False  # of the table of (gold, predicted) pairs
    is_bootstrapped: bool = False  # in lm-eval, for its standard error
    most_draws: int | None = None  # of that bootstrap, where lm-eval takes fewer than it is told to
    is_share: bool = False  # whether values are in [0, 1] and shown as per cent, for one that is not a mean
    interval: Literal["fitted", "mean of values", "bootstrap", "none"] = "bootstrap"
    """How its interval is computed, unless it is a mean, a ratio or of labels: by its own method, as of a mean of the
    samples' values, or by resampling. none: there is none."""

    def __call__(self, items: Items) -> float:
        """Return the number, as the declared function does."""
        return self.function(items)


_UNKNOWN = Aggregation(bypass, interval="none")
AGGREGATIONS: dict[str, Aggregation] = {
    "mean": Aggregation(mean, is_mean=True, is_per_sample=True),
    "nanmean": Aggregation(nanmean, is_mean=True, is_per_sample=True, is_bootstrapped=True),
    "median": Aggregation(median, is_bootstrapped=True, interval="none"),
    "perplexity": Aggregation(
        perplexity, is_log_scale=True, is_per_sample=True, is_bootstrapped=True, interval="fitted"
    ),
    "weighted_perplexity": Aggregation(weighted_perplexity, is_log_scale=True, is_per_sample=True, ratio="perplexity"),
    "bits_per_byte": Aggregation(bits_per_byte, is_per_sample=True, ratio="bits"),
    "brier_score": Aggregation(brier_score, is_per_sample=True, interval="mean of values"),
    "f1": Aggregation(f1, is_of_labels=True, is_bootstrapped=True, is_share=True),
    "matthews_corrcoef": Aggregation(matthews_corrcoef, is_of_labels=True, is_bootstrapped=True),
    "mcc": Aggregation(matthews_corrcoef, is_of_labels=True, is_bootstrapped=True),
    "bypass": Aggregation(bypass, interval="none"),
    "bleu": Aggregation(bleu, is_bootstrapped=True, most_draws=100, interval="none"),
    "chrf": Aggregation(chrf, is_bootstrapped=True, most_draws=100, interval="none"),
    "chrf++": Aggregation(chrf_plus_plus, is_bootstrapped=True, most_draws=100, interval="none"),
    "ter": Aggregation(ter, is_bootstrapped=True, most_draws=100, interval="none"),
    "acc_all": Aggregation(acc_all, interval="none"),
}
"""Every aggregation that is known by name. Which metric has which is in `scoring.metrics`."""


REGISTERED: Registry[Aggregation] = Registry("aggregations", "aggregation")  # of installed packages


def find_aggregation(name: object) -> Aggregation | None:
    """Return the aggregation of a name, or a declared one itself; None for any other function or an unknown name."""
    if isinstance(name, Aggregation):
        return name
    if not isinstance(name, str):
        return None
    if name not in AGGREGATIONS and name in REGISTERED:
        return REGISTERED.load(name)
    return AGGREGATIONS.get(name)


def traits_of(aggregation: object) -> Aggregation:
    """Return the facts that follow from an aggregation; none do from a function of a task file or an unknown name."""
    return find_aggregation(aggregation) or _UNKNOWN


def aggregate(name: str, items: Items) -> float | None:
    """Return the aggregation of that name over the items; None if there are no items.

    Raises: UnknownName; DataError if the items do not fit the aggregation.
    """
    aggregation = find_aggregation(name)
    if aggregation is None:
        known = [*AGGREGATIONS, *REGISTERED]
        raise UnknownName("aggregation", name, nearest(name, known))
    return aggregation.function(items) if len(items) else None


@overload
def aggregation(function: Callable[[Items], float], /) -> Aggregation: ...
@overload
def aggregation(
    *, is_share: bool = False, is_log_scale: bool = False
) -> Callable[[Callable[[Items], float]], Aggregation]: ...
def aggregation(
    function: Callable[[Items], float] | None = None, /, *, is_share: bool = False, is_log_scale: bool = False
) -> Aggregation | Callable[[Callable[[Items], float]], Aggregation]:
    """Declare a function of the items of all samples as an aggregation, with an interval by resampling the samples.

    Args:
        function: the function, where the decorator is written without parentheses.
        is_share: whether values are in [0, 1] and shown as per cent.
        is_log_scale: whether only the ratio of two results means anything.
    """

    def declare(declared: Callable[[Items], float]) -> Aggregation:
        if not callable(declared):
            raise TypeError(f"@assaymark.aggregation declares a function; it got {declared!r:.60}")
        return Aggregation(declared, is_share=is_share, is_log_scale=is_log_scale, interval="bootstrap")

    return declare if function is None else declare(function)
