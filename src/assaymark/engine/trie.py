"""The trie of all sequences, as four flat arrays and no tree objects.

If sequences are sorted lexicographically, the longest common prefixes of neighbours are the trie. In pre-order, each
node has a token, a depth (its position id) and `end`, the last pre-order index in its subtree; then j is an
ancestor-or-self of i exactly when j <= i <= end[j]. That comparison is the whole attention mask. The last token of a
sequence predicts nothing, so it is a target and not a node.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from assaymark.engine.spans import IntArray, SpanBatch

PAIRS_TOKENS = 1 << 22  # tokens compared at once when prefixes are measured; bounds the temporary arrays


@dataclass(frozen=True, slots=True)
class Trie:
    """All distinct token paths in pre-order, and the targets to score after their nodes.

    Shapes: tokens, depths int32 [n_nodes]; ends int64 [n_nodes], inclusive; target_nodes int64, target_tokens and
        target_spans int32 [n_targets], ordered by node: "the log-probability of token after node, for span".
    """

    tokens: IntArray
    depths: IntArray
    ends: IntArray
    target_nodes: IntArray
    target_tokens: IntArray
    target_spans: IntArray

    @property
    def n_nodes(self) -> int:
        """Number of distinct tokens to compute."""
        return int(self.tokens.size)


@dataclass(frozen=True, slots=True)
class TriePlan:
    """The work of scoring a batch.

    Units: tokens of model input; `n_tokens` counts each span in full, `n_distinct` computed ones. `n_rows` are rows
        projected to the vocabulary. `attended` is the number of (query, key) pairs that attention needs.
        `memory_bytes` is None if the model's shape is unknown.
    """

    n_spans: int
    n_tokens: int
    n_distinct: int
    n_rows: int
    attended: int
    max_depth: int
    window_tokens: int
    n_windows: int
    memory_bytes: int | None


def sorted_order(spans: SpanBatch) -> IntArray:
    """Return the spans' indices in lexicographic order of their inputs (all tokens but the last).

    Shapes: int64 [n]. Equal inputs keep the order of their spans, so a plan is a function of the batch alone.
    """
    big_endian = spans.tokens.astype(">i4")
    edges = spans.offsets.tolist()
    # As big-endian bytes, tokens compare in one memcmp; token ids are not negative.
    keys = [big_endian[a : b - 1].tobytes() for a, b in itertools.pairwise(edges)]
    return np.asarray(sorted(range(len(spans)), key=keys.__getitem__), dtype=np.int64)


def _ragged_arange(begins: IntArray, counts: IntArray) -> IntArray:
    """Return begin, begin + 1, ... (count of them) for each pair, concatenated."""
    edges = np.cumsum(counts) - counts
    return np.repeat(begins - edges, counts) + np.arange(int(counts.sum()), dtype=np.int64)


def common_prefixes(tokens: IntArray, begins: IntArray, lengths: IntArray) -> IntArray:
    """Return how many leading tokens each sequence shares with the previous one (0 for the first).

    Shapes: begins, lengths and the result int64 [n]; sequence k is tokens[begins[k] : begins[k] + lengths[k]].
    """
    shared = np.zeros(begins.size, dtype=np.int64)
    widths = np.minimum(lengths[1:], lengths[:-1])
    totals = np.cumsum(widths)
    first = 0
    while first < widths.size:
        done = int(totals[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(totals, done + PAIRS_TOKENS, side="right")))
        width = widths[first:last]
        edges = np.cumsum(width) - width
        ours = _ragged_arange(begins[first + 1 : last + 1], width)
        theirs = _ragged_arange(begins[first:last], width)
        differing = np.flatnonzero(tokens[ours] != tokens[theirs])
        nearest = np.searchsorted(differing, edges)
        at = np.append(differing, edges[-1] + width[-1])[nearest]
        shared[first + 1 : last + 1] = np.minimum(at - edges, width)
        first = last
    return shared


def build_trie(spans: SpanBatch) -> Trie:
    """Return the trie of `spans`: sort, measure common prefixes, list in pre-order."""
    order = sorted_order(spans)
    begins = spans.offsets[:-1][order]
    lengths = np.diff(spans.offsets)[order] - 1
    n_scored = spans.n_scored[order].astype(np.int64)
    shared = common_prefixes(spans.tokens, begins, lengths)
    n_new = lengths - shared
    starts = np.cumsum(n_new) - n_new
    n_nodes = int(n_new.sum())
    ends = np.full(n_nodes, n_nodes - 1, dtype=np.int64)
    target_nodes = np.empty(int(n_scored.sum()), dtype=np.int64)
    path = np.empty(int(lengths.max(initial=0)), dtype=np.int64)  # the open node at each depth
    open_length = 0
    n_done = 0
    rows = zip(shared.tolist(), lengths.tolist(), starts.tolist(), n_scored.tolist(), strict=True)
    for prefix, length, start, scored in rows:
        if prefix < open_length:
            ends[path[prefix:open_length]] = start - 1
        path[prefix:length] = np.arange(start, start + length - prefix)
        open_length = length
        target_nodes[n_done : n_done + scored] = path[length - scored : length]
        n_done += scored
    by_node = np.argsort(target_nodes, kind="stable")
    targets = spans.tokens[_ragged_arange(begins + lengths + 1 - n_scored, n_scored)]
    return Trie(
        tokens=spans.tokens[_ragged_arange(begins + shared, n_new)],
        depths=_ragged_arange(shared, n_new).astype(np.int32),
        ends=ends,
        target_nodes=target_nodes[by_node],
        target_tokens=targets[by_node],
        target_spans=np.repeat(order, n_scored).astype(np.int32)[by_node],
    )


def plan_trie(spans: SpanBatch, window_tokens: int = 1024, memory_bytes: int | None = None) -> TriePlan:
    """Return the work of scoring `spans`; loads no model and no torch."""
    trie = build_trie(spans)
    return describe_trie(trie, spans, window_tokens, memory_bytes)


def describe_trie(trie: Trie, spans: SpanBatch, window_tokens: int, memory_bytes: int | None = None) -> TriePlan:
    """Return the counts of an existing trie."""
    return TriePlan(
        n_spans=len(spans),
        n_tokens=int(spans.tokens.size) - len(spans),
        n_distinct=trie.n_nodes,
        n_rows=int(np.count_nonzero(np.diff(trie.target_nodes, prepend=-1))),
        attended=int(trie.depths.sum(dtype=np.int64)) + trie.n_nodes,
        max_depth=int(trie.depths.max(initial=-1)) + 1,
        window_tokens=window_tokens,
        n_windows=-(-trie.n_nodes // window_tokens),
        memory_bytes=memory_bytes,
    )
