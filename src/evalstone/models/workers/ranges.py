"""Work cut into ranges for several workers: sorted, so that what shares a beginning stays in one place.

Neighbours in sorted order share most, so a range is a contiguous part of that order. A cut makes the path above it be
computed twice; each is put where neighbours share least, near its ideal place. So ranges are few: a long one for each
worker, then rounds of ever shorter ones, which even out what the first did not take as long as was thought.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from evalstone.engine.generation import GenerationPrompt
from evalstone.engine.spans import IntArray, SpanBatch
from evalstone.engine.trie import common_prefixes, sorted_order
from evalstone.models.workers.token_costs import TokenCosts

__all__ = ["GeneratedUnits", "RangeReport", "WorkRange", "ranges_of", "ranges_of_texts", "total"]

FloatArray = npt.NDArray[np.float64]

SEARCH = 0.02  # share of a range around its ideal end in which the cheapest place to cut is looked for
ROUND = 0.2  # length of a round's ranges beside those of the round before
SMALLEST = 256  # tokens that a range must be worth: a window of fewer goes through a model more slowly
PATHS = 1.5  # what a range must be worth beside the path above it, which it computes again
HALVINGS = 30  # of the interval in which the length of the first ranges is looked for


@dataclass(frozen=True, slots=True)
class WorkRange:
    """A contiguous part of the sorted work.

    Shapes: indices int64 [n], the units of it. Units: tokens of model input, as asked and as computed.
    """

    indices: IntArray
    n_tokens: int
    n_distinct: int


@dataclass(frozen=True, slots=True)
class RangeReport:
    """How far a range is.

    Units: tokens of model input as asked and as computed, then those written; see `GenerationReport`.
    """

    n_tokens: int = 0
    n_distinct: int = 0
    n_generated: int = 0
    n_slot_steps: int = 0
    n_sequences_done: int = 0


def total(reports: Sequence[RangeReport]) -> RangeReport:
    """Return how far all ranges are together."""
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
    """Return the spans in rounds of `n_workers` ranges of nearly equal cost, the longest first.

    A range is worth `smallest` tokens or more, and more than the path above it, if the work is; `costs` say what deep
    tokens and rows cost beside others.
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
    """What the sorted units cost.

    Shapes: done float [n], the cost of all units up to each, shared tokens once; paths float [n], what a cut before
    each costs again.
    """

    done: FloatArray
    paths: FloatArray
    token: float

    @classmethod
    def of(cls, lengths: IntArray, shared: IntArray, n_scored: IntArray, costs: TokenCosts) -> "_Line":
        """Return the line of units of these lengths, of which the first tokens are shared with the one before."""

        def up_to(depth: IntArray) -> FloatArray:
            return costs.token * depth + costs.position * depth * (depth + 1.0) / 2

        rows = np.minimum(n_scored, lengths - shared)
        new = up_to(lengths) - up_to(shared) + costs.row * rows
        return cls(np.cumsum(new), up_to(shared), costs.token)

    def edges(self, n_workers: int, smallest: int) -> list[int]:
        """Return where the line is cut, both ends included, so that ranges of a round cost the same, paths included."""
        least = max(smallest * self.token, PATHS * float(self.paths.mean()))
        share = float(self.done[-1]) / n_workers
        if share < least:
            sizes = [1.0] * max(1, int(self.done[-1] / least))
        else:
            n_rounds = 1 + int(np.log(least / share) / np.log(ROUND))
            sizes = [ROUND**number for number in range(n_rounds) for _ in range(n_workers)]
        low, high = 0.0, float(self.done[-1] + self.paths.max())  # the first range alone could hold all
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
            if far < self.done.size:  # of equally cheap places the last
                far -= int(np.argmin(self.paths[near : far + 1][::-1]))
            edges.append(far)
        return edges


@dataclass(frozen=True, slots=True)
class GeneratedUnits:
    """Texts to be written, each prompt and repeat one of them: unit k is repeat repeats[k] of prompt places[k]."""

    prompts: Sequence[GenerationPrompt]
    places: IntArray
    repeats: IntArray

    @classmethod
    def of(cls, prompts: Sequence[GenerationPrompt]) -> "GeneratedUnits":
        """Return the units of these prompts, the repeats of a prompt side by side."""
        counts = [len(prompt.repeats) for prompt in prompts]
        repeats = [repeat for prompt in prompts for repeat in prompt.repeats]
        return cls(prompts, np.repeat(np.arange(len(prompts)), counts), np.asarray(repeats, dtype=np.int64))

    def __len__(self) -> int:
        return int(self.places.size)

    def grouped(self, units: IntArray) -> dict[int, tuple[int, ...]]:
        """Return the repeats of each prompt that these units are, in their order: side by side they are the units."""
        found: dict[int, list[int]] = {}
        for place, repeat in zip(self.places[units].tolist(), self.repeats[units].tolist(), strict=True):
            found.setdefault(place, []).append(repeat)
        return {place: tuple(repeats) for place, repeats in found.items()}


def ranges_of_texts(units: GeneratedUnits, n_ranges: int) -> list[WorkRange]:
    """Return the units in at most `n_ranges` parts of nearly equal cost: prompt tokens to read, tokens to write.

    How long an answer becomes is not known; each is taken to be as long as it may. n_tokens and n_distinct are those
    of prompts alone.
    """
    if not len(units):
        return []
    tokens = [units.prompts[place].tokens for place in units.places.tolist()]
    padded = [np.append(each, np.int32(0)) for each in tokens]  # a span's last token is a target, never an input
    spans = SpanBatch.from_lists(padded, [1] * len(padded))
    order = sorted_order(spans)
    lengths = np.diff(spans.offsets)[order] - 1
    shared = common_prefixes(spans.tokens, spans.offsets[:-1][order], lengths)
    limits = np.asarray([units.prompts[place].max_new_tokens for place in units.places[order].tolist()])
    edges = _edges(lengths - shared + limits, shared, n_ranges)
    return _parts(order, lengths, shared, edges)


def _edges(costs: IntArray, shared: IntArray, n_ranges: int) -> list[int]:
    """Return where the sorted units are cut, both ends included."""
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
