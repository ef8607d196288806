"""The trie against a plain set of prefixes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assaymark.engine import trie as trie_module
from assaymark.engine.spans import SpanBatch
from assaymark.engine.trie import build_trie, plan_trie
from assaymark.engine.windows import WindowCutter, cut_blocks

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=9), min_size=1, max_size=12)


def batch_of(sequences: list[list[int]], seed: int = 0) -> SpanBatch:
    """Return the sequences with tails of pseudo-random lengths."""
    generator = np.random.default_rng(seed)
    return SpanBatch.from_lists(sequences, [int(generator.integers(1, len(s))) for s in sequences])


@given(SEQUENCES)
@settings(max_examples=150, deadline=None)
def test_nodes_are_the_distinct_prefixes_in_order(sequences: list[list[int]]) -> None:
    """Each distinct prefix of an input is one node, in lexicographic order, with its ancestors by the end rule."""
    trie = build_trie(batch_of(sequences))
    prefixes = {tuple(s[:k]) for s in sequences for k in range(1, len(s))}
    paths = []
    for node in range(trie.n_nodes):
        ancestors = [j for j in range(node + 1) if node <= trie.ends[j]]
        assert trie.depths[ancestors].tolist() == list(range(len(ancestors)))
        paths.append(tuple(trie.tokens[ancestors].tolist()))
    assert paths == sorted(prefixes)


@given(SEQUENCES, st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_targets_are_the_scored_tokens(sequences: list[list[int]], seed: int) -> None:
    """Every scored token is a target once, at the node of everything before it."""
    spans = batch_of(sequences, seed)
    trie = build_trie(spans)
    targets = []
    for node, target, span in zip(trie.target_nodes, trie.target_tokens, trie.target_spans, strict=True):
        ancestors = [j for j in range(node + 1) if node <= trie.ends[j]]
        targets.append((int(span), tuple(trie.tokens[ancestors].tolist()), int(target)))
    assert sorted(targets) == sorted(
        (i, tuple(s[:k]), s[k]) for i, s in enumerate(sequences) for k in range(len(s) - int(spans.n_scored[i]), len(s))
    )


@given(SEQUENCES, st.integers(1, 9), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_blocks_show_each_query_its_ancestors(sequences: list[list[int]], size: int, block_size: int) -> None:
    """With windows and blocks of any size, a query sees exactly its ancestors and itself."""
    trie = build_trie(batch_of(sequences))
    cutter = WindowCutter(trie)
    kept_nodes: dict[int, int] = {}
    while not cutter.is_done:
        window = cutter.window(size)
        for block in cut_blocks(window, block_size, None):
            keys = [kept_nodes[d] for d in range(block.n_path)] + (block.keys + window.first).tolist()
            for query in range(block.first, block.last):
                node = query + window.first
                seen = sorted(k for k, see in zip(keys, block.visible[query - block.first], strict=True) if see)
                assert seen == [j for j in range(node + 1) if node <= trie.ends[j]]
        for node in window.kept:
            kept_nodes[int(window.depths[node])] = int(node) + window.first
        cutter.pass_by(window)


def test_long_comparisons_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefixes are the same if tokens are compared a few at a time."""
    generator = np.random.default_rng(1)
    sequences = [generator.integers(0, 2, generator.integers(2, 30)).tolist() for _ in range(60)]
    whole = build_trie(batch_of(sequences))
    monkeypatch.setattr(trie_module, "PAIRS_TOKENS", 7)
    pieces = build_trie(batch_of(sequences))
    assert whole.tokens.tolist() == pieces.tokens.tolist()
    assert whole.ends.tolist() == pieces.ends.tolist()


def test_a_plan_counts_what_is_shared() -> None:
    """Four choices after one context of 100 tokens that differ in their last token cost 101 tokens, not 404."""
    context = list(range(100))
    spans = SpanBatch.from_lists([[*context, 200, 300 + c] for c in range(4)], [2] * 4)
    plan = plan_trie(spans, window_tokens=64)
    assert (plan.n_tokens, plan.n_distinct, plan.n_rows, plan.n_windows) == (404, 101, 2, 2)
    assert plan.max_depth == 101
