"""lm-evaluation-harness's own standard errors, reproduced draw by draw, for files in its format.

Its bootstrap draws 100,000 resamples in chunks of 1,000, chunk i with random.Random(i).choices, in a pool of
processes. Here the same generator state is loaded into numpy's Mersenne twister, and the same draws are made as
arrays, which is faster and gives the same numbers. Our own errors are in `intervals`, `estimate` and `groups`; they
differ from lm-eval's for size-weighted groups (`pooled_stderr`).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import mersenne
from assaymark.statistics import aggregate
from assaymark.statistics.arrays import Floats

Indices = NDArray[np.int64]
Statistic = Callable[[Indices], Floats]  # resampled positions [draws, n] -> one number per draw

CHUNK = 1000
_DRAWS_AT_ONCE = 4_000_000  # bounds memory: 32 MB of doubles


def stderr(aggregation: str, items: aggregate.Items, bootstrap_iters: int = 100_000) -> float | None:
    """Return the standard error that lm-eval prints with an aggregation; None if it prints "N/A".

    Source: lm-evaluation-harness 0.4.13, `stderr_for_metric` and `_compute_task_aggregations`.
    """
    if bootstrap_iters <= 0 or len(items) <= 1:
        return None
    if aggregation == "mean":
        return mean_stderr(items)
    if aggregation == "acc_all":
        questions = aggregate.acc_all_groups(items, by_paragraph=False)
        return mean_stderr(questions) if len(questions) > 1 else None
    traits = aggregate.traits_of(aggregation)
    if not traits.is_bootstrapped:
        return None
    iters = bootstrap_iters if traits.most_draws is None else min(bootstrap_iters, traits.most_draws)
    replicates = bootstrap_replicates(_statistic(aggregation, items), len(items), iters)
    return mean_stderr(replicates) * math.sqrt(len(replicates)) if len(replicates) > 1 else None


def mean_stderr(values: Sequence[float] | Floats) -> float:
    """Return the sample standard deviation over the root of n."""
    array = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # of infinite values it is NaN, as in lm-eval
        return float(array.std(ddof=1) / math.sqrt(len(array)))


def bootstrap_replicates(statistic: Statistic, n: int, iters: int) -> Floats:
    """Return the statistic of each of lm-eval's resamples, in its order.

    Shapes: result [iters // chunk * chunk] with chunk = min(1000, iters): an incomplete chunk is not drawn.
    """
    chunk = min(CHUNK, iters)
    rows = max(1, min(chunk, _DRAWS_AT_ONCE // n))
    results: list[Floats] = []
    for seed in range(iters // chunk):
        generator = twister_of(seed)
        for start in range(0, chunk, rows):
            draws = generator.random_sample((min(rows, chunk - start), n))
            results.append(statistic((draws * n).astype(np.int64)))  # truncation is floor, since draws are >= 0
    return np.concatenate(results)


def twister_of(seed: int) -> np.random.RandomState:
    """Return numpy's Mersenne twister in the state of random.Random(seed): both draw the same doubles."""
    _, state, _ = mersenne(seed).getstate()
    generator = np.random.RandomState()
    generator.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
    return generator


def _statistic(aggregation: str, items: aggregate.Items) -> Statistic:
    match aggregation:
        case "perplexity":
            values = np.asarray(items, dtype=np.float64)
            return lambda index: np.exp(-values[index].mean(axis=1))
        case "median":
            return _median(np.asarray(items, dtype=np.float64))
        case "nanmean":
            return _nanmean(np.asarray(items, dtype=np.float64))
        case "f1" | "matthews_corrcoef" | "mcc":
            return _of_labels(items, is_f1=aggregation == "f1")
        case _:
            function = aggregate.AGGREGATIONS[aggregation].function
            return lambda index: np.array([function([items[i] for i in row]) for row in index.tolist()])


def _median(values: Floats) -> Statistic:
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values), dtype=np.int32)  # medians of ranks are faster than of doubles, and equivalent
    rank[order] = np.arange(len(values), dtype=np.int32)
    ascending, middle = values[order], len(values) // 2
    return lambda index: ascending[np.partition(rank[index], middle, axis=1)[:, middle]]


def _nanmean(values: Floats) -> Statistic:
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)

    def statistic(index: Indices) -> Floats:
        counts = known[index].sum(axis=1)
        with np.errstate(invalid="ignore"):  # a resample of missing values only gives NaN, as in lm-eval
            return np.asarray(filled[index].sum(axis=1) / counts)

    return statistic


def _of_labels(items: aggregate.Items, *, is_f1: bool) -> Statistic:
    if is_f1:
        aggregate.check_two_classes(items)
    pairs = aggregate.LabelPairs.of(items)
    of_tables = pairs.f1 if is_f1 else pairs.mcc
    return lambda index: of_tables(_counts(pairs.cell_of[index], len(pairs.counts)))


def _counts(codes: Indices, n_codes: int) -> Floats:
    """Count each code in each row. Shapes: codes [rows, n]; result [rows, n_codes]."""
    if n_codes <= 16:
        return np.stack([(codes == code).sum(axis=1) for code in range(n_codes)], axis=1).astype(np.float64)
    offsets = np.arange(len(codes))[:, None] * n_codes
    return np.bincount((codes + offsets).ravel(), minlength=len(codes) * n_codes).reshape(-1, n_codes).astype(float)


# ------------------------------------------------------------------------------------------------ groups


def group_mean(values: Sequence[float], sizes: Sequence[int], *, weight_by_size: bool) -> float:
    """Return lm-eval's group score: weighted by sample counts, or with equal weights."""
    _check(values, sizes)
    weights = list(sizes) if weight_by_size else [1] * len(values)
    return float(sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights))


def pooled_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the error that lm-eval prints with a size-weighted group mean: from the pooled variance of its tasks.

    It equals the correct one (`groups.linear_stderr`) only if all tasks have the same size or variance.
    Source: lm-evaluation-harness 0.4.13 `pooled_sample_stderr`.
    """
    _check(stderrs, sizes)
    squares = sum((n - 1) * error**2 * n for error, n in zip(stderrs, sizes, strict=True))
    return math.sqrt(squares / (sum(sizes) - len(sizes)) / sum(sizes))


def unweighted_stderr(stderrs: Sequence[float]) -> float:
    """Return the error that lm-eval prints with an unweighted group mean since 0.4.13: √Σ SE² / k.

    Earlier versions print `pooled_stderr` there too, which is wrong for a macro average.
    """
    return math.sqrt(sum(error**2 for error in stderrs)) / len(stderrs)


def group_stderr(stderrs: Sequence[float | None], sizes: Sequence[int], *, weight_by_size: bool) -> float | None:
    """Return lm-eval 0.4.13's group error; None ("N/A") if a task has none."""
    known = [error for error in stderrs if error is not None]
    if len(known) != len(stderrs) or not known:
        return None
    return pooled_stderr(known, sizes) if weight_by_size else unweighted_stderr(known)


def _check(values: Sequence[float], sizes: Sequence[int]) -> None:
    if len(values) != len(sizes) or not values:
        raise DataError(f"{len(values)} task values and {len(sizes)} sizes; expected equal numbers, at least 1")
