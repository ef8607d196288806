"""Work cut into ranges for several workers: sorted, so that what shares a beginning stays in one place.

Neighbours in sorted order share most, so a range is a contiguous part of that order. A cut makes the path above it be
computed twice; each is put where neighbours share least, near its ideal place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from evalstone.engine.generation import GenerationPrompt
from evalstone.engine.spans import IntArray, SpanBatch
from evalstone.engine.trie import common_prefixes, sorted_order

__all__ = ["RangeReport", "WorkRange", "WrittenUnits", "ranges_of", "ranges_of_texts", "total"]

SEARCH = 0.02  # share of a range around its ideal end in which the cheapest place to cut is looked for


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
    n_written: int = 0
    n_slot_steps: int = 0
    n_sequences_done: int = 0


def total(reports: Sequence[RangeReport]) -> RangeReport:
    """Return how far all ranges are together."""
    return RangeReport(
        n_tokens=sum(each.n_tokens for each in reports),
        n_distinct=sum(each.n_distinct for each in reports),
        n_written=sum(each.n_written for each in reports),
        n_slot_steps=sum(each.n_slot_steps for each in reports),
        n_sequences_done=sum(each.n_sequences_done for each in reports),
    )


def ranges_of(spans: SpanBatch, n_ranges: int, *, smallest: int = 1) -> list[WorkRange]:
    """Return the spans in at most `n_ranges` parts of nearly equal cost: `smallest` distinct tokens each, or more."""
    if not len(spans):
        return []
    order = sorted_order(spans)
    lengths = np.diff(spans.offsets)[order] - 1
    shared = common_prefixes(spans.tokens, spans.offsets[:-1][order], lengths)
    n_distinct = int((lengths - shared).sum())
    edges = _edges(lengths - shared, shared, min(n_ranges, max(1, n_distinct // smallest)))
    return _parts(order, lengths, shared, edges)


@dataclass(frozen=True, slots=True)
class WrittenUnits:
    """Texts to be written, each prompt and repeat one of them: unit k is repeat repeats[k] of prompt places[k]."""

    prompts: Sequence[GenerationPrompt]
    places: IntArray
    repeats: IntArray

    @classmethod
    def of(cls, prompts: Sequence[GenerationPrompt]) -> "WrittenUnits":
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


def ranges_of_texts(units: WrittenUnits, n_ranges: int) -> list[WorkRange]:
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
