"""Few-shot draws: the published schemes, reproduced draw by draw, and one of our own.

`sequential` is lm-evaluation-harness 0.4: one generator over the samples in document order. `shuffled` is its version
of 2023: the samples are shuffled first, and the same generator then draws the shots. `first_n` uses the first rows of
the pool. `others` is the Eval Gauntlet: any rows of the evaluated split except the sample's own, in the order of a
Python set. `per-sample` is ours: every sample has a generator seeded by its own hash, and a pool without rows that have
the same question.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Literal

from assaymark.errors import PlanError
from assaymark.randomness import generator_for, mersenne
from assaymark.records import Row, Sample

Shots = tuple[int, ...]  # positions in the pool
QuestionKey = Callable[[Row], Hashable]  # key of a row's question, equal for near-duplicates; None if it has none


@dataclass(frozen=True, slots=True)
class DrawRules:
    """How the shots of a task are drawn under a profile."""

    n_shots: int
    seed: int
    scheme: Literal["sequential", "shuffled", "others", "per-sample"] = "sequential"
    sampler: Literal["default", "first_n"] = "default"
    exclude: bool = False  # one more is drawn, so that the sample itself can be dropped
    forbid_leaks: bool = False


def order_of_samples(n_samples: int, rules: DrawRules) -> Sequence[int]:
    """Return the order in which samples are drawn for: file order, or shuffled by the generator of the shots."""
    if rules.scheme != "shuffled":
        return range(n_samples)
    order = list(range(n_samples))
    mersenne(rules.seed).shuffle(order)
    return order


def draw_shots(
    samples: Sequence[Sample], n_total: int, pool: Sequence[Row], rules: DrawRules, key: QuestionKey | None = None
) -> list[Shots]:
    """Return the shots of each sample. `samples` are in the order of `order_of_samples`, of `n_total` in the split.

    If leaks are forbidden, rows equal to the sample's and rows with the same question `key` are not drawn.

    Raises: PlanError if the pool is too small.
    Source: lm-evaluation-harness 0.4.13 `ContextSampler.sample`; harness b281b092 `evaluator.evaluate`.
    """
    if rules.n_shots == 0:
        return [()] * len(samples)
    guard = LeakGuard(pool, key if rules.forbid_leaks else None)
    if rules.sampler == "first_n":
        if rules.exclude or rules.forbid_leaks:
            return [_first(guard.without(sample, range(len(pool))), rules.n_shots) for sample in samples]
        return [_first(range(len(pool)), rules.n_shots)] * len(samples)
    if rules.scheme == "per-sample":
        return [_draw_by_name(sample, len(pool), rules, guard) for sample in samples]
    if rules.scheme == "others":
        return list(_draw_others(samples, len(pool), rules))
    return list(_draw_in_order(samples, n_total, pool, rules))


class LeakGuard:
    """Detects rows of a pool that show a sample its answer: those equal to its row, or with the same question."""

    def __init__(self, pool: Sequence[Row], key: QuestionKey | None) -> None:
        self._pool = pool
        self._key = key
        self._known: dict[int, Hashable] = {}

    def without(self, sample: Sample, indices: Iterable[int]) -> Iterator[int]:
        """Yield the positions whose row is neither equal to the sample's nor has the same question."""
        own = self._key_of(sample.row)
        return (index for index in indices if not self._shows(sample.row, own, index))

    def count(self, sample: Sample, shots: Shots) -> int:
        """Return the number of a sample's shots that leak."""
        own = self._key_of(sample.row) if shots else None
        return sum(self._shows(sample.row, own, index) for index in shots)

    def _shows(self, row: Row, own: Hashable, index: int) -> bool:
        return self._pool[index] == row or (own is not None and self._key_at(index) == own)

    def _key_of(self, row: Row) -> Hashable:
        return self._key(row) if self._key is not None else None

    def _key_at(self, index: int) -> Hashable:
        if index not in self._known:
            self._known[index] = self._key_of(self._pool[index])
        return self._known[index]


def draw_by_label(labels: Sequence[str], n_shots: int, seed: int) -> Shots:
    """Return HELM's shots, the same for all samples: labels by how often they occur, one row of each in turn.

    Args:
        labels: the text of each row's right answer; ties between labels are shuffled, "" is drawn last.
        n_shots: how many; fewer where the pool is smaller.
        seed: HELM's train trial, 0 for the first.

    Source: HELM 63754d05, benchmark/adaptation/adapters/in_context_learning_adapter.py, `sample_examples`.
    """
    generator = mersenne(seed)
    by_label: dict[str, list[int]] = {}
    for at, label in enumerate(labels):
        by_label.setdefault(label, []).append(at)
    unlabelled = by_label.pop("", [])
    by_count: dict[int, list[str]] = {}
    for label, rows in sorted(by_label.items()):
        by_count.setdefault(len(rows), []).append(label)
    order: list[str] = []
    for count in sorted(by_count, reverse=True):
        generator.shuffle(by_count[count])
        order += by_count[count]
    n_labelled = min(n_shots, sum(map(len, by_label.values())))
    drawn: list[int] = []
    turns = cycle(order)
    while len(drawn) < n_labelled:
        rows = by_label[next(turns)]
        if rows:
            drawn.append(rows.pop(generator.randrange(len(rows))))
    return (*drawn, *generator.sample(unlabelled, min(n_shots - len(drawn), len(unlabelled))))


def _first(indices: Iterable[int], n_shots: int) -> Shots:
    shots = tuple(islice(indices, n_shots))
    if len(shots) < n_shots:
        raise _too_few(n_shots, len(shots))
    return shots


def _draw_in_order(samples: Sequence[Sample], n_total: int, pool: Sequence[Row], rules: DrawRules) -> Iterator[Shots]:
    generator = mersenne(rules.seed)
    if rules.scheme == "shuffled":
        generator.shuffle(list(range(n_total)))  # advances the generator as `order_of_samples` did
    positions = range(len(pool))
    n_drawn = rules.n_shots + (1 if rules.exclude else 0)
    if n_drawn > len(pool):
        raise _too_few(rules.n_shots, len(pool), is_own_left_out=rules.exclude)
    for sample in samples:
        drawn = generator.sample(positions, n_drawn)
        if rules.exclude:
            drawn = [i for i in drawn if pool[i] != sample.row][: rules.n_shots]
            if len(drawn) < rules.n_shots and rules.scheme == "sequential":
                others = [i for i in positions if pool[i] != sample.row]
                if len(others) < rules.n_shots:
                    raise _too_few(rules.n_shots, len(others))
                drawn = generator.sample(others, rules.n_shots)
        yield tuple(drawn)


def _draw_others(samples: Sequence[Sample], n_rows: int, rules: DrawRules) -> Iterator[Shots]:
    """Draw among all rows of the evaluated split; the own row is replaced, a small split gives fewer shots.

    Source: mosaicml/llm-foundry 8c8dd48f `get_fewshot_sample_idxs`: a set, whose order is that of its hash table.
    """
    generator = mersenne(rules.seed)
    positions = range(n_rows)
    for sample in samples:
        drawn = set(generator.sample(positions, min(n_rows - 1, rules.n_shots)))
        if sample.index in drawn:
            drawn.remove(sample.index)
            other = generator.choice(positions)
            while other in drawn or other == sample.index:
                other = generator.choice(positions)
            drawn.add(other)
        yield tuple(drawn)


def _draw_by_name(sample: Sample, n_rows: int, rules: DrawRules, guard: LeakGuard) -> Shots:
    generator = generator_for("few-shot", sample.task, sample.sha256, rules.seed)
    order = generator.permutation(n_rows).tolist()
    return _first(guard.without(sample, order) if rules.forbid_leaks else order, rules.n_shots)


def _too_few(wanted: int, present: int, *, is_own_left_out: bool = False) -> PlanError:
    own = " of which one is the sample itself" * is_own_left_out
    return PlanError(f"{wanted} shots are to be drawn from {present} rows{own}; set a smaller --num_fewshot")
