"""Attention over a trie, for any transformers model through its public attention interface.

A model with attention "assaymark_trie" calls `_attend` in each layer with the queries, keys and values of one window,
and before that `_mask` with its own rule of which position may see which (causal, sliding, chunked). The rule is
evaluated on depths instead of positions in the batch; ancestry is added. No model code is replaced, so everything a
model does around attention is unchanged.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.memory import has_tiles
from assaymark.engine.spans import IntArray
from assaymark.engine.windows import Window, cut_blocks

NAME = "assaymark_trie"
BLOCK_QUERIES = 64
OBEYED = frozenset({"scaling", "softcap", "s_aux"})
# Other arguments that models pass to attention, handled elsewhere: windows in the mask's rule, positions in the queries
# and keys, the rest in the model's output.
SETTLED = frozenset(
    {"sliding_window", "is_causal", "position_ids", "cache_position", "use_cache", "output_attentions"}
    | {"output_hidden_states", "output_router_logits", "return_dict", "logits_to_keep"}
)


MaskFunction = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""transformers' mask function: (batch, head, query position, key position) -> bool."""


class AttentionOptions(TypedDict, total=False):
    """The options that a layer passes to its attention besides tensors and mask. Others are None, or in `SETTLED`."""

    scaling: float | None
    softcap: float | None
    s_aux: torch.Tensor | None  # attention sinks. Shape: [H]
    dropout: float
    position_bias: torch.Tensor | None


class UnsupportedAttention(Exception):
    """The model does not use the attention interface in the way that the trie path needs."""


class MaskRule:
    """A model's own rule of which positions may see which, passed to its layers instead of a mask."""

    def __init__(self, function: MaskFunction) -> None:
        self.function = function

    def allows_all_before(self, query: int) -> bool:
        """Return whether a query at this depth may see every position up to its own."""
        from transformers.masking_utils import causal_mask_function

        if self.function is causal_mask_function:
            return True
        return bool(self.allows(np.array([query]), np.arange(query + 1)).all())

    def allows(self, queries: IntArray, keys: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether queries at these depths may see keys at those (broadcast), in a single sequence."""
        zero = torch.zeros((), dtype=torch.long)
        q, k = torch.as_tensor(queries.astype(np.int64)), torch.as_tensor(keys.astype(np.int64))
        allowed = self.function(zero, zero, q, k)
        return np.broadcast_to(np.asarray(allowed, dtype=bool), np.broadcast_shapes(queries.shape, keys.shape))


@dataclass(slots=True)
class PathCache:
    """Keys and values of the open path, by depth, one pair of tensors for each attention call of a forward pass.

    `n_calls` is the number of these calls, known after the first window.
    Shapes: each tensor [capacity, key-value heads, head width].
    """

    capacity: int
    n_calls: int | None = None
    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)

    def layer(self, index: int, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the pair of one attention call, created at its first window with the shape seen there."""
        if index == len(self.keys):
            self.keys.append(key.new_empty(self.capacity, key.shape[1], key.shape[3]))
            self.values.append(value.new_empty(self.capacity, value.shape[1], value.shape[3]))
        return self.keys[index], self.values[index]


@dataclass(slots=True)
class _TorchBlock:
    """A block on the device: `bias` is 0 where a query may see a key and minus infinity elsewhere."""

    first: int
    last: int
    n_path: int
    keys: "torch.Tensor | slice[int, int, int]"
    n_keys: int
    bias: torch.Tensor  # [(last - first) * queries per key head, n_path + n_keys]


class WindowAttention:
    """One window in the forward pass: its blocks, and the rows to be added to the path cache."""

    def __init__(self, window: Window, cache: PathCache, device: torch.device) -> None:
        self.window = window
        self.cache = cache
        self.device = device
        self.n_calls = 0
        """Attention calls seen so far in this window; 0 after a forward pass means the model attends elsewhere."""
        self.target_rows: torch.Tensor | None = None
        """Rows of the window with targets, ascending; None if the last layer of every row is needed."""
        self._kept = torch.as_tensor(window.kept, device=device)
        self._kept_depths = torch.as_tensor(window.depths[window.kept].astype(np.int64), device=device)
        self._pending: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._blocks: dict[tuple[int, int], list[_TorchBlock]] = {}
        self._rules: list[MaskRule] = []  # keeps ids of rules from being reused within the window

    def commit(self) -> None:
        """Write the rows to keep into the path cache; until then a failed window has changed nothing."""
        if self.cache.n_calls not in (None, self.n_calls):
            raise UnsupportedAttention(f"{self.n_calls} attention calls in this window, {self.cache.n_calls} before")
        self.cache.n_calls = self.n_calls
        for index, (keys, values) in enumerate(self._pending):
            self.cache.keys[index][self._kept_depths] = keys
            self.cache.values[index][self._kept_depths] = values

    @property
    def needed_rows(self) -> torch.Tensor | None:
        """The rows whose values are still needed: from the last attention call on, only those with targets."""
        return self.target_rows if self.n_calls == self.cache.n_calls else None

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: MaskRule, options: AttentionOptions
    ) -> torch.Tensor:
        """Return attention's output for one layer.

        Shapes: query [1, H, N, D]; key [1, G, N, D]; value [1, G, N, E]; result [1, N, H, E].
        """
        if query.shape[0] != 1 or query.shape[2] != len(self.window):
            raise UnsupportedAttention(
                f"queries of shape {tuple(query.shape)} for a window of {len(self.window)} tokens"
            )
        path_keys, path_values = self.cache.layer(self.n_calls, key, value)
        self.n_calls += 1
        self._pending.append((key[0, :, self._kept].transpose(0, 1), value[0, :, self._kept].transpose(0, 1)))
        path = (path_keys[: self.window.path_ends.size], path_values[: self.window.path_ends.size])
        return self.compute(query, key, value, path, rule, options)

    def compute(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        path: tuple[torch.Tensor, torch.Tensor],
        rule: MaskRule,
        options: AttentionOptions,
    ) -> torch.Tensor:
        """Return the output, one block of queries after another.

        Shapes: as `attend`; path contains the open path's keys [n_path, G, D] and values [n_path, G, E].
        """
        dtype = query.dtype
        stays = dtype == torch.bfloat16 and has_tiles() and _is_one_kernel(key, value, options)
        if query.device.type == "cpu" and not stays:
            # Without tiles, half-precision attention on a CPU is slower than in float32, and less exact.
            query, key, value = query.float(), key.float(), value.float()
        key_rows, value_rows = key[0].transpose(0, 1), value[0].transpose(0, 1)  # [N, G, D]
        _, n_heads, n_queries, width = query.shape
        n_groups, repeat = key.shape[1], n_heads // key.shape[1]
        # Heads that share keys become more queries of one head: [G, N * repeat, D]; keys are never repeated.
        folded = query[0].view(n_groups, repeat, n_queries, width).transpose(1, 2).reshape(n_groups, -1, width)
        output = value.new_zeros(n_queries, n_groups, repeat, value.shape[3])
        needed = self.needed_rows
        block_keys, block_values = _with_capacity(path[0], key_rows), _with_capacity(path[1], value_rows)
        for block in self._blocks_for(rule, repeat, query.dtype):
            rows = _rows_in(needed, block.first, block.last)
            if rows is not None and not rows.numel():
                continue
            # The visible path only shrinks from block to block, so the rows overwritten here are not needed again.
            stop = block.n_path + block.n_keys
            block_keys[block.n_path : stop] = key_rows[block.keys]
            block_values[block.n_path : stop] = value_rows[block.keys]
            queries, bias = _chosen(folded, block, rows, repeat)
            result = attend_block(
                queries, block_keys[:stop].transpose(0, 1), block_values[:stop].transpose(0, 1), bias, options
            ).view(n_groups, -1, repeat, value.shape[3])  # [G, n, repeat, E]
            output[slice(block.first, block.last) if rows is None else rows] = result.transpose(0, 1)
        return output.view(1, n_queries, n_heads, -1).to(dtype)

    def _blocks_for(self, rule: MaskRule, repeat: int, dtype: torch.dtype) -> list[_TorchBlock]:
        """Return the window's blocks under `rule`, built once for all layers that share it."""
        torch_blocks = self._blocks.get((id(rule), repeat))
        if torch_blocks is None:
            self._rules.append(rule)
            torch_blocks = []
            for block in cut_blocks(self.window, BLOCK_QUERIES, rule.allows):
                hidden = torch.as_tensor(~block.visible, device=self.device).repeat_interleave(repeat, dim=0)
                bias = torch.zeros(hidden.shape, dtype=dtype, device=self.device).masked_fill_(hidden, -math.inf)
                n_keys = int(block.keys.size)
                is_run = n_keys > 0 and int(block.keys[-1]) - int(block.keys[0]) == n_keys - 1
                keys: torch.Tensor | slice[int, int, int] = (
                    slice(int(block.keys[0]), int(block.keys[-1]) + 1)
                    if is_run
                    else torch.as_tensor(block.keys, device=self.device)
                )
                torch_blocks.append(_TorchBlock(block.first, block.last, block.n_path, keys, n_keys, bias))
            self._blocks[(id(rule), repeat)] = torch_blocks
        return torch_blocks


def _with_capacity(path: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the path's rows with capacity for as many more as there are `rows`, in their dtype."""
    result = rows.new_empty(path.shape[0] + rows.shape[0], *rows.shape[1:])
    result[: path.shape[0]] = path
    return result


def _chosen(
    folded: torch.Tensor, block: _TorchBlock, rows: torch.Tensor | None, repeat: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the block's queries and their bias for the given rows of the window; for all rows if None.

    Shapes: folded [G, N * repeat, D]; results [G, n * repeat, D] and [n * repeat, keys].
    """
    queries, bias = folded[:, block.first * repeat : block.last * repeat], block.bias
    if rows is None:
        return queries, bias
    chosen = rows - block.first
    by_row = queries.view(folded.shape[0], -1, repeat, folded.shape[2])
    return by_row[:, chosen].flatten(1, 2), bias.view(-1, repeat, bias.shape[1])[chosen].flatten(0, 1)


def _rows_in(rows: torch.Tensor | None, first: int, last: int) -> torch.Tensor | None:
    """Return those of the ascending `rows` in [first, last); None if all are, or if `rows` is None."""
    if rows is None:
        return None
    a, b = torch.searchsorted(rows, torch.tensor([first, last], device=rows.device)).tolist()
    return None if b - a == last - first else rows[a:b]


def _is_one_kernel(key: torch.Tensor, value: torch.Tensor, options: AttentionOptions) -> bool:
    """Return whether torch's own attention kernel supports these widths and options."""
    is_plain = options.get("softcap") is None and options.get("s_aux") is None
    return is_plain and key.shape[-1] == value.shape[-1]


def attend_block(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor, options: AttentionOptions
) -> torch.Tensor:
    """Return softmax(query key / scale + bias) value for one block, with soft cap and attention sinks if given.

    Shapes: query [G, Q, D]; key [G, K, D]; value [G, K, E]; bias [Q, K]; result [G, Q, E].
    """
    scale = options.get("scaling")
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    cap = options.get("softcap")
    sinks = options.get("s_aux")
    if _is_one_kernel(key, value, options):
        return torch.nn.functional.scaled_dot_product_attention(
            query[None], key[None], value[None], attn_mask=bias, scale=scale
        )[0]
    weights = torch.matmul(query, key.transpose(1, 2)) * scale  # [G, Q, K]
    if cap is not None:
        weights = torch.tanh(weights / cap) * cap
    weights = weights + bias
    if sinks is not None:
        repeat = sinks.numel() // query.shape[0]
        sink = sinks.view(-1, 1, repeat).expand(-1, query.shape[1] // repeat, -1).reshape(query.shape[0], -1, 1)
        weights = torch.cat([weights, sink.to(weights.dtype)], dim=-1)
    weights = torch.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights[..., : key.shape[1]], value)


class LayerAttention(Protocol):
    """The attention of one forward pass: a WindowAttention or a DecodeStep."""

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: MaskRule, options: AttentionOptions
    ) -> torch.Tensor:
        """Return attention's output for one layer."""


_current: ContextVar[LayerAttention | None] = ContextVar("assaymark_window_in_progress", default=None)
"""The attention of the pass that runs in this thread."""


@contextmanager
def window_in_progress(attention: LayerAttention) -> Iterator[None]:
    """Set `attention` as the one that the model's layers call during one forward pass of this thread."""
    token = _current.set(attention)
    try:
        yield
    finally:
        _current.reset(token)


def needed_rows(n_rows: int) -> torch.Tensor | None:
    """Return which rows of a layer's [1, n_rows, width] values are still needed in the present window; None: all."""
    window = _current.get()
    if not isinstance(window, WindowAttention) or n_rows != len(window.window):
        return None
    return window.needed_rows


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: object,
    **options: Unpack[AttentionOptions],
) -> tuple[torch.Tensor, None]:
    """Implement transformers' attention interface: one layer of the present window."""
    del module
    window = _current.get()
    if window is None:
        raise UnsupportedAttention("a layer attended outside a window")
    if not isinstance(attention_mask, MaskRule):
        raise UnsupportedAttention(f"the model built its own mask ({type(attention_mask).__name__})")
    _refuse_unknown(options)
    return window.attend(query, key, value, attention_mask, options), None


def _refuse_unknown(options: Mapping[str, object]) -> None:
    """Raise UnsupportedAttention for an unknown option: ignoring it would give a wrong result."""
    if options.get("position_bias") is not None:
        raise UnsupportedAttention("the model adds a bias by position in the batch")
    if options.get("dropout"):
        raise UnsupportedAttention("the model drops out attention weights")
    for name in options.keys() - OBEYED - SETTLED - {"dropout"}:
        if options[name] is not None:
            raise UnsupportedAttention(f"the trie path does not support the attention option {name}")


def _mask(*_args: object, mask_function: MaskFunction, **_options: object) -> MaskRule:
    """Implement transformers' mask interface: pass the model's own rule on to its layers."""
    return MaskRule(mask_function)


def register() -> None:
    """Register the attention with transformers; repeated calls change nothing."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, _mask)
