"""Cut the pre-order sequence of a trie into windows, and decide who may attend to whom inside one.

A window is a run of consecutive nodes that passes through the model at once. Of the nodes before it, only those still
open, its first node's ancestors, are visible from inside it; they are exactly one path, so their keys and values are
stored by depth and opening a new branch overwrites them. Queries are taken in blocks, and each block gets only the keys
that some query in it may see: a prefix of the stored path, then chosen nodes of the window.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assaymark.engine.spans import IntArray
from assaymark.engine.trie import Trie

PositionRule = Callable[[IntArray, IntArray], npt.NDArray[np.bool_]]
"""Whether a query at depth q may see a key at depth k (broadcast); e.g. a sliding window. Ancestry is added."""


@dataclass(frozen=True, slots=True)
class Window:
    """Nodes [first, last) of a trie, the open path before them, and the part of them that stays open after.

    Shapes: tokens, depths int32 and ends int64 [last - first]; path_ends int64 [depth of the first node]: the `end` of
        each open ancestor, by depth; kept int64: nodes of this window, counted from its first, that are ancestors of
        the node after it.
    """

    first: int
    last: int
    tokens: IntArray
    depths: IntArray
    ends: IntArray
    path_ends: IntArray
    kept: IntArray

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class Block:
    """Queries [first, last) of a window with the keys that any of them may see.

    The keys are the window's open path up to depth `n_path`, then the nodes `keys` of the window.
    Shapes: keys int64 [n_keys]; visible bool [last - first, n_path + n_keys].
    """

    first: int
    last: int
    n_path: int
    keys: IntArray
    visible: npt.NDArray[np.bool_]


class WindowCutter:
    """Returns the windows of a trie one after another, following the open path."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        self.first = 0
        self._path_ends = np.zeros(0, dtype=np.int64)

    @property
    def is_done(self) -> bool:
        """Whether every node has been returned and passed."""
        return self.first >= self.trie.n_nodes

    def window(self, n_tokens: int) -> Window:
        """Return the next window without passing it, so that a smaller one can be requested instead."""
        trie = self.trie
        first, last = self.first, min(self.first + n_tokens, trie.n_nodes)
        ends = trie.ends[first:last]
        kept = np.flatnonzero(ends >= last) if last < trie.n_nodes else np.zeros(0, dtype=np.int64)
        return Window(first, last, trie.tokens[first:last], trie.depths[first:last], ends, self._path_ends, kept)

    def pass_by(self, window: Window) -> None:
        """Advance to the node after `window`; its kept nodes join the open path."""
        still_open = self._path_ends[self._path_ends >= window.last]
        self._path_ends = np.concatenate([still_open, window.ends[window.kept]])
        self.first = window.last


def cut_blocks(window: Window, block_size: int, rule: PositionRule | None) -> Iterator[Block]:
    """Yield the window's queries in blocks of `block_size` with the keys each block needs.

    `rule` restricts by position what ancestry allows; None is plain causal attention.
    """
    nodes = np.arange(window.first, window.last, dtype=np.int64)
    path_depths = np.arange(window.path_ends.size, dtype=np.int32)
    for first in range(0, len(window), block_size):
        last = min(first + block_size, len(window))
        queries = nodes[first:last]
        # Ancestors nest: the deeper, the sooner they end. So those still open for the first query are a prefix.
        n_path = int(np.count_nonzero(window.path_ends >= queries[0]))
        keys = np.flatnonzero(window.ends[:last] >= queries[0])
        key_ends = np.concatenate([window.path_ends[:n_path], window.ends[keys]])
        visible = queries[:, None] <= key_ends[None, :]
        visible[:, n_path:] &= nodes[keys][None, :] <= queries[:, None]
        if rule is not None:
            key_depths = np.concatenate([path_depths[:n_path], window.depths[keys]])
            visible &= rule(window.depths[first:last, None], key_depths[None, :])
            is_used = visible[:, n_path:].any(axis=0)
            keys = keys[is_used]
            visible = np.concatenate([visible[:, :n_path], visible[:, n_path:][:, is_used]], axis=1)
        yield Block(first, last, n_path, keys, visible)
