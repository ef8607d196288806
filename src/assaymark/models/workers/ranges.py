"""Split work into ranges for several workers: sorted, so that sequences with a common prefix stay together.

Neighbours in sorted order share most, so a range is a contiguous part of that order. The path above a split is computed
twice, so each split is placed where neighbours share least, near its ideal position. For the same reason ranges are
few: a long one for each worker, then rounds of ever shorter ones, which compensate for errors in the estimated costs.

The costs of tokens are estimated from a model's shape alone, to split work evenly before anything is computed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from assaymark.engine.generation import GenerationPrompt
from assaymark.engine.spans import IntArray, SpanBatch
from assaymark.engine.trie import common_prefixes, sorted_order
from assaymark.models.checkpoint.config_check import whole_number

ATTENTION = 1.5  # time per operation of attention relative to matrix products (measured: benchmarks/RESULTS.md)


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """The cost of a token, of each position it attends to, and of a row over the vocabulary, in matrix operations.

    Only their ratios matter. If a model's shape is unknown, a token costs the same at every position.
    """

    token: float = 1.0
    position: float = 0.0
    row: float = 0.0

    @classmethod
    def of(cls, config: Mapping[str, object], n_parameters: int | None) -> "TokenCosts":
        """Return the costs of a model from its config.json; embedding look-ups cost nothing."""
        layers = whole_number(config, "num_hidden_layers", "n_layer")
        width = whole_number(config, "hidden_size", "n_embd")
        words = width * whole_number(config, "vocab_size")
        n_tables = 1 if config.get("tie_word_embeddings", True) else 2
        body = (n_parameters or 0) - n_tables * words
        if body <= 0 or not layers or not width:
            return cls()
        return cls(2.0 * body, ATTENTION * 4.0 * layers * width, 2.0 * words)


FloatArray = npt.NDArray[np.float64]

SEARCH = 0.02  # share of a range around its ideal end that is searched for the cheapest position to split
ROUND = 0.2  # length of a round's ranges relative to the previous round's
SMALLEST = 256  # minimum cost of a range in tokens: smaller windows are less efficient
PATHS = 1.5  # minimum cost of a range relative to the path above it, which it computes again
HALVINGS = 30  # steps of the bisection for the length of the first ranges


@dataclass(frozen=True, slots=True)
class WorkRange:
    """A contiguous part of the sorted work.

    Shapes: indices int64 [n], its units. Units: tokens of model input, as requested and as computed.
    """

    indices: IntArray
    n_tokens: int
    n_distinct: int


@dataclass(frozen=True, slots=True)
class RangeReport:
    """The progress of a range.

    Units: tokens of model input as requested and as computed, then generated tokens; see `GenerationReport`.
    """

    n_tokens: int = 0
    n_distinct: int = 0
    n_generated: int = 0
    n_slot_steps: int = 0
    n_sequences_done: int = 0


def total(reports: Sequence[RangeReport]) -> RangeReport:
    """Return the total progress of all ranges."""
    return RangeReport(
        n_tokens=sum(each.n_tokens for each in reports),
        n_distinct=sum(each.n_distinct for each in reports),
        n_generated=sum(each.n_generated for each in reports),
        n_slot_steps=sum(each.n_slot_steps for each in reports),
        n_sequences_done=sum(each.n_sequences_done for each in reports),
    )


def ranges_of(
    spans: SpanBatch, n_workers: int, costs: TokenCosts | None = None, *, smallest: int = SMALLEST
) -> list[WorkRange]:
    """Return the spans as rounds of `n_workers` ranges of nearly equal cost, the longest first.

    A range costs at least `smallest` tokens, and more than the path above it, if there is enough work; `costs` are the
    relative costs of deep tokens and of rows.
    """
    if not len(spans):
        return []
    order = sorted_order(spans)
    lengths = np.diff(spans.offsets)[order] - 1
    shared = common_prefixes(spans.tokens, spans.offsets[:-1][order], lengths)
    line = _Line.of(lengths, shared, spans.n_scored[order], costs or TokenCosts())
    return _parts(order, lengths, shared, line.edges(n_workers, smallest))


@dataclass(frozen=True, slots=True)
class _Line:
    """The costs of the sorted units.

    Shapes: done float [n], the cost of all units up to each, shared tokens counted once; paths float [n], the repeated
    cost of a split before each.
    """

    done: FloatArray
    paths: FloatArray
    token: float

    @classmethod
    def of(cls, lengths: IntArray, shared: IntArray, n_scored: IntArray, costs: TokenCosts) -> "_Line":
        """Return the line for units of these lengths, whose first `shared` tokens equal those of the unit before."""

        def up_to(depth: IntArray) -> FloatArray:
            return costs.token * depth + costs.position * depth * (depth + 1.0) / 2

        rows = np.minimum(n_scored, lengths - shared)
        new = up_to(lengths) - up_to(shared) + costs.row * rows
        return cls(np.cumsum(new), up_to(shared), costs.token)

    def edges(self, n_workers: int, smallest: int) -> list[int]:
        """Return the split positions, both ends included, that make the ranges of a round cost the same with paths."""
        least = max(smallest * self.token, PATHS * float(self.paths.mean()))
        share = float(self.done[-1]) / n_workers
        if share < least:
            sizes = [1.0] * max(1, int(self.done[-1] / least))
        else:
            n_rounds = 1 + int(np.log(least / share) / np.log(ROUND))
            sizes = [ROUND**number for number in range(n_rounds) for _ in range(n_workers)]
        low, high = 0.0, float(self.done[-1] + self.paths.max())  # the first range alone could contain all
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self._filled(sizes, middle)[-1] < self.done.size:
                low = middle
            else:
                high = middle
        return self._filled(sizes, high)

    def _filled(self, sizes: Sequence[float], first: float) -> list[int]:
        """Return the edges of ranges that cost at most `first` times their size; the last may end before the line."""
        edges = [0]
        for size in sizes:
            begin = edges[-1]
            if begin == self.done.size:
                break
            before = (self.done[begin - 1] if begin else 0.0) - self.paths[begin]
            ends = before + first * size * np.asarray([1 - SEARCH, 1.0])
            near, far = np.maximum(np.searchsorted(self.done, ends, side="right"), begin + 1).tolist()
            if far < self.done.size:  # of equally cheap positions the last
                far -= int(np.argmin(self.paths[near : far + 1][::-1]))
            edges.append(far)
        return edges


@dataclass(frozen=True, slots=True)
class GeneratedUnits:
    """Texts to generate, one per prompt and repeat: unit k is repeat repeats[k] of prompt positions[k]."""

    prompts: Sequence[GenerationPrompt]
    positions: IntArray
    repeats: IntArray

    @classmethod
    def of(cls, prompts: Sequence[GenerationPrompt]) -> "GeneratedUnits":
        """Return the units of these prompts, with the repeats of a prompt adjacent."""
        counts = [len(prompt.repeats) for prompt in prompts]
        repeats = [repeat for prompt in prompts for repeat in prompt.repeats]
        return cls(prompts, np.repeat(np.arange(len(prompts)), counts), np.asarray(repeats, dtype=np.int64))

    def __len__(self) -> int:
        return int(self.positions.size)

    def grouped(self, units: IntArray) -> dict[int, tuple[int, ...]]:
        """Return the repeats of each prompt among these units, in order; concatenated they are the units again."""
        by_position: dict[int, list[int]] = {}
        for position, repeat in zip(self.positions[units].tolist(), self.repeats[units].tolist(), strict=True):
            by_position.setdefault(position, []).append(repeat)
        return {position: tuple(repeats) for position, repeats in by_position.items()}


def ranges_of_texts(units: GeneratedUnits, n_ranges: int) -> list[WorkRange]:
    """Return the units in at most `n_ranges` parts of nearly equal cost: prompt tokens plus tokens to generate.

    The length of an answer is unknown; each is assumed to have the maximum length. n_tokens and n_distinct count only
    prompts.
    """
    if not len(units):
        return []
    tokens = [units.prompts[position].tokens for position in units.positions.tolist()]
    padded = [np.append(each, np.int32(0)) for each in tokens]  # a span's last token is a target, never an input
    spans = SpanBatch.from_lists(padded, [1] * len(padded))
    order = sorted_order(spans)
    lengths = np.diff(spans.offsets)[order] - 1
    shared = common_prefixes(spans.tokens, spans.offsets[:-1][order], lengths)
    limits = np.asarray([units.prompts[position].max_new_tokens for position in units.positions[order].tolist()])
    edges = _edges(lengths - shared + limits, shared, n_ranges)
    return _parts(order, lengths, shared, edges)


def _edges(costs: IntArray, shared: IntArray, n_ranges: int) -> list[int]:
    """Return the positions where the sorted units are split, both ends included."""
    done = np.cumsum(costs)
    total = int(done[-1])
    edges = {0, int(costs.size)}
    reach = SEARCH * total / n_ranges
    for k in range(1, n_ranges):
        ideal = total * k / n_ranges
        low, high = np.searchsorted(done, [ideal - reach, ideal + reach])
        low, high = max(int(low), 1), min(max(int(high), int(low) + 1), int(costs.size))
        if low < high:
            edges.add(low + int(np.argmin(shared[low:high])))
    return sorted(edges)


def _parts(order: IntArray, lengths: IntArray, shared: IntArray, edges: Sequence[int]) -> list[WorkRange]:
    distinct = np.cumsum(lengths - shared)
    parts = []
    for first, last in pairwise(edges):
        before = int(distinct[first - 1]) if first else 0
        n_distinct = int(distinct[last - 1]) - before + int(shared[first])
        parts.append(WorkRange(order[first:last], int(lengths[first:last].sum()), n_distinct))
    return parts
