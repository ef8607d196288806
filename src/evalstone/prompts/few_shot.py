"""Which shots a sample gets. Five published schemes, each repeated draw by draw, and one of our own.

`sequential` is lm-evaluation-harness 0.4: one generator over the samples in document order. `shuffled` is its 2023
ancestor: the samples are shuffled first and the same generator goes on to draw. `first_n` takes the pool's beginning.
`others` is the Eval Gauntlet: any rows of the asked split but the sample's own, in the order of a Python set.
`per-sample` is ours: every sample draws by its own name, from a pool without rows equal to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from evalstone.errors import PlanError
from evalstone.randomness import generator_for, mersenne
from evalstone.records import Sample

Shots = tuple[int, ...]  # positions in the pool


@dataclass(frozen=True, slots=True)
class DrawRules:
    """How a task and a profile draw."""

    n_shots: int
    seed: int
    scheme: Literal["sequential", "shuffled", "others", "per-sample"] = "sequential"
    sampler: Literal["default", "first_n"] = "default"
    exclude: bool = False  # one more is drawn, so that the sample itself can be dropped
    forbid_leaks: bool = False


def order_of_samples(n_samples: int, rules: DrawRules) -> list[int]:
    """Return the order in which samples are taken: as they are, or shuffled by the generator that draws the shots."""
    order = list(range(n_samples))
    if rules.scheme == "shuffled":
        mersenne(rules.seed).shuffle(order)
    return order


def draw_shots(samples: Sequence[Sample], n_total: int, pool: Sequence[Any], rules: DrawRules) -> list[Shots]:
    """Return the shots of each sample. `samples` are in the order of `order_of_samples`, of `n_total` in the split.

    Raises: PlanError if the pool is too small.
    Source: lm-evaluation-harness 0.4.13 `ContextSampler.sample`; harness b281b092 `evaluator.evaluate`.
    """
    if rules.n_shots == 0:
        return [()] * len(samples)
    if rules.sampler == "first_n":
        leave_out = rules.exclude or rules.forbid_leaks
        fixed = None if leave_out else _first(pool, None, rules.n_shots)
        return [fixed or _first(pool, sample.row, rules.n_shots) for sample in samples]
    if rules.scheme == "per-sample":
        return [_draw_by_name(sample, pool, rules) for sample in samples]
    if rules.scheme == "others":
        return list(_draw_others(samples, len(pool), rules))
    return list(_draw_in_order(samples, n_total, pool, rules))


def _first(pool: Sequence[Any], without: Any, n_shots: int) -> Shots:
    indices = range(len(pool)) if without is None else (i for i in range(len(pool)) if pool[i] != without)
    found = tuple(islice(indices, n_shots))
    if len(found) < n_shots:
        raise _too_few(n_shots, len(found))
    return found


def _draw_in_order(samples: Sequence[Sample], n_total: int, pool: Sequence[Any], rules: DrawRules) -> Iterator[Shots]:
    generator = mersenne(rules.seed)
    if rules.scheme == "shuffled":
        generator.shuffle(list(range(n_total)))  # spends what ordering the samples spent
    positions = range(len(pool))
    n_drawn = rules.n_shots + (1 if rules.exclude else 0)
    if n_drawn > len(pool):
        raise _too_few(n_drawn, len(pool))
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
    """Draw among all rows of the asked split; one's own is replaced by another, a small split gives fewer shots.

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


def _draw_by_name(sample: Sample, pool: Sequence[Any], rules: DrawRules) -> Shots:
    generator = generator_for("few-shot", sample.task, sample.sha256, rules.seed)
    chosen: list[int] = []
    for i in generator.permutation(len(pool)).tolist():
        if not (rules.forbid_leaks and pool[i] == sample.row):
            chosen.append(i)
        if len(chosen) == rules.n_shots:
            return tuple(chosen)
    raise _too_few(rules.n_shots, len(chosen))


def _too_few(wanted: int, present: int) -> PlanError:
    return PlanError(f"{wanted} shots are to be drawn from {present} rows; ask for fewer with --num_fewshot")


def count_leaks(sample: Sample, shots: Shots, pool: Sequence[Any]) -> int:
    """Return how many of the shots equal the sample's row."""
    return sum(1 for i in shots if pool[i] == sample.row)
