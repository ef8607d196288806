"""Choose which prefixes of prompts are stored once for all sequences that continue them.

Keys and values of a prefix that many sequences share are a trunk: stored once, read by all of them in one matrix
product. A short prefix, or one that few sequences share, is cheaper to copy into each sequence's own rows than to read
separately, so a trunk must save enough. Trunks nest: the shots of a subject, then one question with 64 repeats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from assaymark.engine.spans import IntArray, SpanBatch
from assaymark.engine.trie import Trie, build_trie

SHORTEST_TRUNK = 16  # tokens
LEAST_SAVED = 1024  # minimum number of rows saved per step: reading a trunk costs about as much


@dataclass(frozen=True, slots=True)
class Trunk:
    """Positions [first, last) of a path, shared by `n_users` sequences."""

    first: int
    last: int
    n_users: int


@dataclass(frozen=True, slots=True)
class PromptTrie:
    """All distinct prompts in pre-order, and the trunks above each.

    Shapes: ends int64 [n]: the last node of each distinct prompt, ascending; shared int64 [n]: tokens it shares with
        the previous one. members: the given prompts equal to each distinct one. chains: numbers of the trunks of each,
        from the root.
    """

    trie: Trie
    ends: IntArray
    shared: IntArray
    members: tuple[tuple[int, ...], ...]
    trunks: tuple[Trunk, ...]
    chains: tuple[tuple[int, ...], ...]

    def first_private(self, prompt: int) -> int:
        """Return the first position of a distinct prompt's own rows."""
        chain = self.chains[prompt]
        return self.trunks[chain[-1]].last if chain else 0

    def most_private(self, n_new: Sequence[int]) -> int:
        """Return the maximum number of own rows of a sequence if `n_new[i]` tokens are generated for prompt i."""
        lengths = self.trie.depths[self.ends].astype(np.int64) + 1
        return max(
            int(length) - self.first_private(i) + max(n_new[each] for each in self.members[i])
            for i, length in enumerate(lengths.tolist())
        )


def build_prompt_trie(prompts: Sequence[IntArray], n_sequences: Sequence[int], n_slots: int) -> PromptTrie:
    """Return the trie of `prompts`, with `n_sequences[i]` continuations to generate for prompt i."""
    # A span's last token predicts nothing, so each prompt is padded with one that is never evaluated.
    padded = [np.concatenate([tokens, np.zeros(1, dtype=np.int32)]) for tokens in prompts]
    trie = build_trie(SpanBatch.from_lists(padded, [1] * len(padded)))
    ends, begins = np.unique(trie.target_nodes, return_index=True)
    groups = np.split(trie.target_spans, begins[1:])
    members = tuple(tuple(sorted(group.tolist())) for group in groups)
    firsts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    shared = trie.depths[firsts].astype(np.int64)
    lengths = trie.depths[ends].astype(np.int64) + 1
    weights = np.asarray([sum(n_sequences[i] for i in group) for group in members], dtype=np.int64)
    trunks, chains = _find_trunks(shared, lengths, weights, n_slots)
    return PromptTrie(trie, ends, shared, members, trunks, chains)


def _find_trunks(
    shared: IntArray, lengths: IntArray, weights: IntArray, n_slots: int
) -> tuple[tuple[Trunk, ...], tuple[tuple[int, ...], ...]]:
    """Return the trunks that save enough, and the chain of them above each prompt."""
    trunks: list[Trunk] = []
    chains: list[tuple[int, ...]] = [()] * lengths.size
    stack: list[tuple[int, int, int, tuple[int, ...]]] = [(0, int(lengths.size), 0, ())]
    while stack:
        low, high, depth, chain = stack.pop()
        common = int(lengths[low]) if high - low == 1 else int(shared[low + 1 : high].min())
        n_users = int(weights[low:high].sum())
        n_saved = (min(n_users, n_slots) - 1) * (common - depth)
        if common - depth >= SHORTEST_TRUNK and n_saved >= LEAST_SAVED:
            chain = (*chain, len(trunks))
            trunks.append(Trunk(depth, common, n_users))
            depth = common
        if high - low == 1:
            chains[low] = chain
            continue
        edges = [low, *(np.flatnonzero(shared[low + 1 : high] == common) + low + 1).tolist(), high]
        stack += [(a, b, depth, chain) for a, b in pairwise(edges)]
    return tuple(trunks), tuple(chains)
