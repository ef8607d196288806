"""The trie path: windows of the pre-order sequence each pass through the model once, and target tokens are scored.

Between windows only the keys and values of the open path are stored. If memory runs out, the window is halved and the
same nodes are tried again; the cache is written only after a successful window, so nothing is lost.

Attention over a trie on a GPU: one FlexAttention call per layer, with ancestry as its block mask.

The kernel skips blocks that no query may see, so nothing is gathered. Queries and keys are padded to few sizes, because
each new size is compiled. The same code runs uncompiled on a CPU, where it is tested.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from assaymark.engine.attention import AttentionOptions, MaskRule, PathCache, UnsupportedAttention, WindowAttention
from assaymark.engine.head import Head
from assaymark.engine.memory import is_out_of_memory
from assaymark.engine.spans import IntArray
from assaymark.engine.trie import Trie
from assaymark.engine.windows import Window, WindowCutter

BLOCK = 128  # FlexAttention's own block size; sizes are padded to powers of two of at least this
_NOBODY = 1 << 60  # a pre-order index that no query reaches


@functools.cache
def _compiled() -> Callable[..., object]:
    """Return FlexAttention compiled for fixed sizes; once per process."""
    compiled: Callable[..., object] = torch.compile(flex_attention, dynamic=False)
    return compiled


def padded_size(n: int) -> int:
    """Return the size that `n` rows are padded to: a power of two, so that few sizes are compiled."""
    return max(BLOCK, 1 << (n - 1).bit_length()) if n else 0


class FlexWindowAttention(WindowAttention):
    """One window whose layers attend through FlexAttention."""

    def compute(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        path: tuple[torch.Tensor, torch.Tensor],
        rule: MaskRule,
        options: AttentionOptions,
    ) -> torch.Tensor:
        """Return the output of one layer in one call.

        Shapes: as `WindowAttention.compute`.
        """
        if query.device.type == "cuda" and key.shape[-1] < 16:
            raise UnsupportedAttention(f"FlexAttention does not support heads of width {key.shape[-1]}")
        n_queries = query.shape[2]
        n_padded = padded_size(n_queries)
        query = torch.nn.functional.pad(query, (0, 0, 0, n_padded - n_queries))
        sinks = options.get("s_aux")
        attend: Any = _compiled() if query.device.type == "cuda" else flex_attention
        output = attend(
            query,
            self._joined(path[0], key, n_padded),
            self._joined(path[1], value, n_padded),
            score_mod=_soft_cap(options.get("softcap")),
            block_mask=self._mask(rule, n_padded),
            scale=options.get("scaling"),
            enable_gqa=query.shape[1] != key.shape[1],
            return_lse=sinks is not None,  # the compiled kernel on a CPU has none to give
        )  # [1, H, n_padded, E], and [1, H, n_padded] with it
        if sinks is not None:
            output, rest = output
            # A sink is one more key without a value: it only takes its share of the softmax.
            share = torch.sigmoid(rest - sinks.view(1, -1, 1).to(rest.dtype))
            output = output * share[..., None].to(output.dtype)
        result: torch.Tensor = output[:, :, :n_queries].transpose(1, 2).contiguous()
        return result

    def _joined(self, path: torch.Tensor, rows: torch.Tensor, n_padded: int) -> torch.Tensor:
        """Return the path's rows and the window's, each padded.

        Shapes: path [n_path, G, D]; rows [1, G, N, D]; result [1, G, padded n_path + n_padded, D].
        """
        n_path = path.shape[0]
        joined = rows.new_zeros(1, rows.shape[1], padded_size(n_path) + n_padded, rows.shape[3])
        joined[0, :, :n_path] = path.transpose(0, 1)
        start = padded_size(n_path)
        joined[:, :, start : start + rows.shape[2]] = rows
        return joined

    def _mask(self, rule: MaskRule, n_padded: int) -> BlockMask:
        """Return ancestry and the model's own rule as a block mask, built once for all layers that share it."""
        known: dict[int, BlockMask] = self.__dict__.setdefault("_masks", {})
        if id(rule) not in known:
            self._rules.append(rule)
            window = self.window
            n_path = window.path_ends.size
            start = padded_size(n_path)
            nodes = np.full(start + n_padded, _NOBODY, dtype=np.int64)
            ends = np.full(start + n_padded, -1, dtype=np.int64)
            depths = np.zeros(start + n_padded, dtype=np.int64)
            nodes[:n_path] = -1  # before every query
            ends[:n_path] = window.path_ends
            depths[:n_path] = np.arange(n_path)
            part = slice(start, start + len(window))
            nodes[part] = np.arange(window.first, window.last)
            ends[part], depths[part] = window.ends, window.depths
            known[id(rule)] = self._block_mask(rule, nodes, ends, depths, start, n_padded)
        return known[id(rule)]

    def _block_mask(
        self, rule: MaskRule, nodes: IntArray, ends: IntArray, depths: IntArray, start: int, n_padded: int
    ) -> BlockMask:
        """Return the block mask of keys given by node, end and depth, for queries from `start` on."""
        key_nodes, key_ends, key_depths = (torch.as_tensor(a, device=self.device) for a in (nodes, ends, depths))

        def allows(batch: torch.Tensor, head: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
            node = key_nodes[start + q]
            is_ancestor = (key_nodes[k] <= node) & (node <= key_ends[k])
            return is_ancestor & rule.function(batch, head, key_depths[start + q], key_depths[k])

        return create_block_mask(allows, 1, None, n_padded, start + n_padded, device=str(self.device), BLOCK_SIZE=BLOCK)


def _soft_cap(
    cap: float | None,
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] | None:
    """Return FlexAttention's score function for a soft cap, or None without one."""
    if cap is None:
        return None

    def score(score: torch.Tensor, _batch: object, _head: object, _q: object, _k: object) -> torch.Tensor:
        return cap * torch.tanh(score / cap)

    return score


LAST_LAYER_SHARE = 0.75  # if more rows than this have targets, selecting them costs as much as it saves


@dataclass(frozen=True, slots=True)
class WindowScores:
    """The scores of one window: targets [first_target, last_target) of the trie.

    Shapes: logprobs float64 and is_best bool [last_target - first_target]. Units: nats.
    """

    first_target: int
    last_target: int
    n_nodes: int
    logprobs: npt.NDArray[np.float64]
    is_best: npt.NDArray[np.bool_]
    note: str | None


def score_trie(head: Head, trie: Trie, window_tokens: int) -> Iterator[WindowScores]:
    """Yield the scores of all targets of `trie`, window by window; a window that does not fit is halved.

    Raises: RuntimeError from torch if a window of one block does not fit.
    """
    device = head.projection.weight.device
    cache = PathCache(int(trie.depths.max(initial=-1)) + 1, head.n_attention_calls)
    cutter = WindowCutter(trie)
    size = window_tokens
    note = None
    while not cutter.is_done:
        window = cutter.window(size)
        try:
            scores = _score_window(head, trie, window, cache, device, note)
        except RuntimeError as error:
            if not is_out_of_memory(error) or size <= 32:
                raise
            size //= 2
            note = f"out of memory: window halved to {size} tokens"
            if device.type == "cuda":
                torch.cuda.empty_cache()
            continue
        note = None
        head.n_attention_calls = cache.n_calls
        cutter.pass_by(window)
        yield scores


def attention_for(device: torch.device) -> type[WindowAttention]:
    """Return the attention of a device: gathered blocks on a CPU, FlexAttention's block masks on a GPU."""
    return FlexWindowAttention if device.type == "cuda" else WindowAttention


@torch.inference_mode()
def _score_window(
    head: Head, trie: Trie, window: Window, cache: PathCache, device: torch.device, note: str | None
) -> WindowScores:
    """Run one window and score the targets of its nodes."""
    attention = attention_for(device)(window, cache, device)
    first_target, last_target = np.searchsorted(trie.target_nodes, [window.first, window.last]).tolist()
    nodes = trie.target_nodes[first_target:last_target]
    rows, target_rows = np.unique(nodes, return_inverse=True)
    attention.target_rows = _on(rows - window.first, device) if rows.size < LAST_LAYER_SHARE * len(window) else None
    logprobs, is_best = np.zeros(0), np.zeros(0, dtype=bool)
    with head.attending_through(attention):
        output = head.run_body(
            input_ids=_on(window.tokens, device)[None],
            position_ids=_on(window.depths, device)[None],
            attention_mask=torch.ones(1, len(window), dtype=torch.long, device=device),
            use_cache=False,
        )
        if attention.n_calls == 0:
            raise UnsupportedAttention("no layer attends through transformers' attention interface")
        if rows.size:
            hidden = output.last_hidden_state[0].index_select(0, _on(rows - window.first, device))
            targets = _on(trie.target_tokens[first_target:last_target], device)
            scores = head.score(output, hidden, _on(target_rows, device), targets)
            logprobs = scores.logprobs.double().cpu().numpy()
            is_best = scores.is_best.cpu().numpy()
    attention.commit()
    return WindowScores(first_target, last_target, len(window), logprobs, is_best, note)


def _on(array: IntArray, device: torch.device) -> torch.Tensor:
    """Return the array as int64 on the device."""
    return torch.as_tensor(array.astype(np.int64), device=device)
