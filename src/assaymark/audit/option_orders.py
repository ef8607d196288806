"""Position bias: every sample is evaluated once in each cyclic order of its options.

Also a test of whether the file's own order is likelier to the model than shuffles of it.

The rows of a benchmark are exchangeable: a model that has not read the file has no reason to prefer an order. The file
is split into shards that fit the model's context, and each shard's log-likelihood in the file's order is compared with
the mean over its shuffles. If the file is sorted by a column (a subject, a passage, the correct answer), its order is
not arbitrary: rows are then only exchanged with rows of the same value.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assaymark.audit.items import AuditItem
from assaymark.audit.likelihoods import Likelihoods
from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.distributions import chi_square_sf
from assaymark.statistics.intervals import wilson
from assaymark.statistics.paired import LocationTest, mean_above_zero

JOINT = "\n\n"
FEWEST_SHARDS = 4
SHARE_OF_CONTEXT = 0.9  # a shard longer than the context would be scored in pieces
SORTED_P = 0.001
SORTED_DRAWS = 999


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """Size of the test. The published test uses 50 shards of 250 shuffles; 25 shuffles detect nearly as much."""

    n_shards: int = 50
    n_shuffles: int = 25
    seed: int = 0


@dataclass(frozen=True, slots=True)
class OrderTest:
    """Result for the file's order, and for a control: one fixed shuffle of the rows, tested like the file's order."""

    of_file: LocationTest
    control: LocationTest
    rows_per_shard: int
    sorted_by: tuple[str, ...]  # columns by which the file is sorted; rows were shuffled within equal values only


def order_test(likelihoods: Likelihoods, items: Sequence[AuditItem], settings: OrderSettings, name: str) -> OrderTest:
    """Test whether a task's rows are likelier in their own order than in others.

    d_i = log p(shard i) - mean over shuffles of log p(shuffled shard i); t = mean(d) / (sd(d) / √r), one-sided.

    Raises: DataError if there are too few rows, or they are too long for the model's context.
    Source: Oren et al. 2023 (arXiv 2310.17623), section 3.2.
    """
    size = _rows_per_shard(likelihoods, items, settings)
    n_shards = min(settings.n_shards, len(items) // size)
    if n_shards < FEWEST_SHARDS:
        raise DataError(
            f"{len(items)} rows make {n_shards} shards of {size}; the order test needs at least {FEWEST_SHARDS}: "
            "use more samples (--limit)"
        )
    used = items[: n_shards * size]
    columns = sorted_by(used)
    shards = _Shards(used, [tuple(_columns(item)[column] for column in columns) for item in used], size, settings, name)
    orders = {"file": list(range(len(used)))}
    orders["control"] = _shuffle(shards.keys, generator_for("order test control", name, settings.seed))
    tests = []
    for kind, order in orders.items():
        differences = shards.differences(likelihoods, order, kind)
        if len(differences) < FEWEST_SHARDS:
            raise DataError(
                f"only {len(differences)} shards can be shuffled: the file is sorted by {', '.join(columns)}, and few "
                "neighbouring rows have equal values"
            )
        tests.append(mean_above_zero(differences))
    return OrderTest(tests[0], tests[1], size, columns)


@dataclass(frozen=True, slots=True)
class _Shards:
    """Rows to score in several orders, `size` rows per shard."""

    items: Sequence[AuditItem]
    keys: Sequence[Hashable]  # rows are exchanged only with rows of the same key
    size: int
    settings: OrderSettings
    name: str

    def differences(self, likelihoods: Likelihoods, order: Sequence[int], kind: str) -> list[float]:
        """Return each shard's log-likelihood in this order minus the mean over its shuffles, in nats."""
        generator = generator_for("order test", self.name, self.settings.seed, kind)
        texts: list[str] = []
        for start in range(0, len(order), self.size):
            rows = order[start : start + self.size]
            own = [self.keys[row] for row in rows]
            if len(set(own)) == len(own):
                continue  # no two rows that may be exchanged
            texts.append(self._text(rows))
            shuffles = [_shuffle(own, generator) for _ in range(self.settings.n_shuffles)]
            texts += [self._text([rows[position] for position in shuffle]) for shuffle in shuffles]
        nats = likelihoods.of_texts(texts, f"{self.name}: order, {kind}")
        step = self.settings.n_shuffles + 1
        groups = [nats[start : start + step] for start in range(0, len(nats), step)]
        whole = [[value for value in group if value is not None] for group in groups]
        return [values[0] - float(np.mean(values[1:])) for values in whole if len(values) == step]

    def _text(self, rows: Sequence[int]) -> str:
        return JOINT.join(self.items[row].text for row in rows)


def _shuffle(keys: Sequence[object], generator: np.random.Generator) -> list[int]:
    """Return a random permutation of positions that exchanges only positions of equal keys."""
    groups: dict[object, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    result = list(range(len(keys)))
    for positions in groups.values():
        for position, source in zip(positions, generator.permutation(positions).tolist(), strict=True):
            result[position] = source
    return result


def _rows_per_shard(likelihoods: Likelihoods, items: Sequence[AuditItem], settings: OrderSettings) -> int:
    """Return the number of rows per shard: at least two, as many as fit the context and `n_shards` allows."""
    wanted = max(2, len(items) // max(settings.n_shards, 1))
    limit = likelihoods.model.identity.max_length
    if limit is None or not items:
        return min(wanted, 20)
    per_row = likelihoods.n_tokens([item.text + JOINT for item in items]) / len(items)
    fitting = int(SHARE_OF_CONTEXT * limit / per_row)
    if fitting < 2:
        raise DataError(
            f"a row has {per_row:.0f} tokens on average and the model {limit} positions; the order test needs two rows "
            "in one context"
        )
    return min(wanted, fitting)


def sorted_by(items: Sequence[AuditItem]) -> tuple[str, ...]:
    """Return the columns in which neighbouring rows are equal far more often than by chance."""
    tables = [_columns(item) for item in items]
    return (
        tuple(name for name in tables[0] if _is_sorted([table.get(name) for table in tables], name)) if tables else ()
    )


def _columns(item: AuditItem) -> dict[str, object]:
    """Return the row's scalar values, and which answer is correct."""
    plain: Mapping[str, object] = {k: v for k, v in item.row.items() if isinstance(v, str | int | bool) or v is None}
    return {**plain, "right answer": tuple(sorted(item.gold))}


def _is_sorted(values: Sequence[object], name: str) -> bool:
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    n = len(values)
    if not 2 <= len(numbers) <= n / 2:
        return False
    coded: NDArray[np.int64] = np.array([numbers[value] for value in values])
    generator = generator_for("sorted by", name, n)
    observed = _n_equal_neighbours(coded)
    drawn = np.array([_n_equal_neighbours(generator.permutation(coded)) for _ in range(SORTED_DRAWS)])
    return bool((1 + (drawn >= observed).sum()) / (SORTED_DRAWS + 1) <= SORTED_P)


def _n_equal_neighbours(coded: NDArray[np.int64]) -> int:
    return int((coded[1:] == coded[:-1]).sum())


NO_SPREAD = 1e-9  # keeps the covariance invertible where all samples are alike


@dataclass(frozen=True, slots=True)
class OptionOrders:
    """Results over all cyclic orders."""

    n: int  # samples
    accuracy: float  # mean over orders
    by_shift: tuple[float, ...]  # accuracy with the options rotated by 0, 1, ...; over samples with that many options
    circular_accuracy: float  # share of samples that are correct in every order
    circular_low: float
    circular_high: float
    circular_if_independent: float  # circular accuracy expected if orders were independent
    consistency: float  # share of samples with the same option picked in every order
    picked_share: tuple[float, ...]  # of each position, over samples with the most common number of options
    position_p: float | None  # chi-square test of those shares against equal ones


def option_orders(picks: Sequence[Sequence[int]], golds: Sequence[frozenset[int]]) -> OptionOrders:
    """Summarise picks in all cyclic orders.

    Args:
        picks: for each sample, the position picked under each shift; as many as the sample has options.
        golds: for each sample, the correct options in the file's order.

    Source: CircularEval (Liu et al. 2023, MMBench); position profile after Pezeshkpour and Hruschka 2023.
    """
    originals = [[(position - shift) % len(row) for shift, position in enumerate(row)] for row in picks]
    right = [np.array([pick in gold for pick in row]) for row, gold in zip(originals, golds, strict=True)]
    n = len(picks)
    most = max(len(row) for row in picks)
    by_shift = tuple(float(np.mean([row[shift] for row in right if shift < len(row)])) for shift in range(most))
    accuracy = float(np.mean([row.mean() for row in right]))
    all_right = int(sum(bool(row.all()) for row in right))
    interval = wilson(all_right, n)
    shares, p = _positions(picks)
    return OptionOrders(
        n=n,
        accuracy=accuracy,
        by_shift=by_shift,
        circular_accuracy=all_right / n,
        circular_low=interval.low,
        circular_high=interval.high,
        circular_if_independent=float(np.mean([accuracy ** len(row) for row in picks])),
        consistency=float(np.mean([len(set(row)) == 1 for row in originals])),
        picked_share=shares,
        position_p=p,
    )


def _positions(picks: Sequence[Sequence[int]]) -> tuple[tuple[float, ...], float | None]:
    """Return the share of picks at each position, and p of the hypothesis of equal shares.

    Without position bias, a sample's picks over its cyclic orders are spread evenly over the positions, whatever the
    model knows. So each sample's counts are averaged first, and samples are the units of the test.
    """
    sizes = [len(row) for row in picks]
    usual = max(set(sizes), key=sizes.count)
    shares = np.array([np.bincount(row, minlength=usual) / usual for row in picks if len(row) == usual])
    mean = shares.mean(axis=0)
    n = len(shares)
    if n <= usual:
        return tuple(mean.tolist()), None
    deviation = (mean - 1.0 / usual)[:-1]  # the last share follows from the others
    covariance = np.atleast_2d(np.cov(shares[:, :-1], rowvar=False)) / n + NO_SPREAD * np.eye(usual - 1)
    statistic = float(deviation @ np.linalg.solve(covariance, deviation))
    return tuple(mean.tolist()), chi_square_sf(statistic, usual - 1)
