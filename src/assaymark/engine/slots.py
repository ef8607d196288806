"""The slot table: the sequences in progress, packed without gaps, each with rows of keys and values.

The slots' own rows are in two blocks per layer, so that two products attend for all slots. Keys are strided across
memory, [slots, key-value heads, width, capacity], which a product with few queries reads fastest. What a slot shares
with others is in trunks. When a sequence ends, its slot is filled by the next one, or by the last slot of the table:
every computed slot belongs to a sequence.

Compute attention over one set of keys so that it can be merged with attention over another set.

Softmax over two sets of keys is a weighted sum of softmax over each, the weights being the sets' sums of exponentials.
So keys that many sequences share are attended once for all of them, and each sequence's own keys separately.
Source: the identity is that of online softmax (Milakov and Gimelshein 2018); used for shared prefixes by Juravsky et
al. 2024 (Hydragen).

How many sequences are decoded at once, from the device's memory and the model's shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.attention import AttentionOptions, MaskRule, UnsupportedAttention
from assaymark.engine.memory import cache_bytes, total_memory_bytes, zeros_apart
from assaymark.engine.spans import IntArray
from assaymark.engine.weights import LoadedModel

MOST_SLOTS_CPU, MOST_SLOTS_CUDA = 64, 256
SHARE_FOR_ROWS = 1 / 4  # share of the device's memory for keys and values of sequences in progress
# On a CPU more slots gain little once keys and values are most of what a step reads, so they get no more than this, or
# what a few slots need.
ROWS_BYTES_CPU, FEWEST_SLOTS_CPU = 384 << 20, 16


def most_slots(loaded: LoadedModel, n_slots: int | None) -> int:
    """Return the maximum number of slots, whatever the length of the sequences; `n_slots` is the caller's choice."""
    on_cpu = next(loaded.inner.parameters()).device.type == "cpu"
    most = n_slots or (MOST_SLOTS_CPU if on_cpu else MOST_SLOTS_CUDA)
    return min(most, loaded.limits.packed or most)


def slots_that_fit(loaded: LoadedModel, n_rows: int, most: int) -> int:
    """Return how many of `most` slots with `n_rows` own rows fit into memory, at least one."""
    parameter = next(loaded.inner.parameters())
    on_cpu = parameter.device.type == "cpu"
    each = cache_bytes(loaded.inner.config, n_rows, 4 if on_cpu else parameter.element_size())
    capacity = total_memory_bytes(parameter.device) * SHARE_FOR_ROWS
    if on_cpu:
        capacity = min(capacity, max(ROWS_BYTES_CPU, FEWEST_SLOTS_CPU * each))
    return max(1, min(most, int(capacity // max(each, 1))))


FLASH_ROWS = 32  # number of queries per key head from which torch's kernel is faster than two products


def has_flash_kernel() -> bool:
    """Return whether this torch returns the sum of exponentials along with attention on a CPU."""
    return hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")


def attend_part(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None, options: AttentionOptions
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention over these keys alone, and the logarithm of the sum of exponentials of its scores.

    With few queries a CPU waits for keys and values. Two products over all pairs of B and G read them nearly at the
    speed of memory, about twice as fast as the kernel, if each key is strided across memory (K innermost).
    Shapes: query [B, G, Q, D]; key [B, G, K, D]; value [B, G, K, E]; bias [B, 1, Q, K], 0 or minus infinity, at least
        one 0 in each row; results [B, G, Q, E] in the values' dtype, float32 [B, G, Q].
    """
    cap = options.get("softcap")
    on_cpu = query.device.type == "cpu"
    is_wide = query.shape[2] >= FLASH_ROWS
    if cap is None and on_cpu and is_wide and key.shape[-1] == value.shape[-1] and has_flash_kernel():
        output, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001
            query, key, value, 0.0, False, attn_mask=bias, scale=_scale(query, options)
        )
        return output, log_sum
    scores = _scores(query, key, bias, options)
    weights = torch.softmax(scores, dim=-1)
    log_sum = scores.amax(dim=-1) - weights.amax(dim=-1).log_()  # the largest weight is never far from 1 / K
    return torch.matmul(weights.to(value.dtype), value), log_sum


def attend_all(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None, options: AttentionOptions
) -> torch.Tensor:
    """Return attention over these keys where there are no others, so that nothing is merged. Shapes: `attend_part`."""
    weights = torch.softmax(_scores(query, key, bias, options), dim=-1)
    return torch.matmul(weights.to(value.dtype), value)


def _scores(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None, options: AttentionOptions
) -> torch.Tensor:
    """Return the scores before softmax, in float32. Shapes: as `attend_part`; result [B, G, Q, K]."""
    cap = options.get("softcap")
    scores = torch.matmul(query, key.transpose(2, 3)).float().mul_(_scale(query, options))
    if cap is not None:
        scores = scores.div_(cap).tanh_().mul_(cap)
    if bias is not None:
        scores += bias
    return scores


def _scale(query: torch.Tensor, options: AttentionOptions) -> float:
    scale = options.get("scaling")
    return float(query.shape[-1] ** -0.5 if scale is None else scale)


def merge_into(
    output: torch.Tensor, log_sum: torch.Tensor, more: torch.Tensor, more_log_sum: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention over the union of two disjoint sets of keys, given attention over each.

    Shapes: output, more [..., E]; log_sum, more_log_sum float32 [...]; `log_sum` is finite.
    """
    total = torch.logaddexp(log_sum, more_log_sum)
    ours, theirs = torch.exp(log_sum - total)[..., None], torch.exp(more_log_sum - total)[..., None]
    return output * ours.to(output.dtype) + more * theirs.to(output.dtype), total


def with_sinks(output: torch.Tensor, log_sum: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Return attention in which each head also attends to a sink without a value.

    Shapes: output [S, G, R, E]; log_sum [S, G, R]; sinks [G * R].
    """
    own = sinks.float().view(1, output.shape[1], output.shape[2])
    return output * torch.exp(log_sum - torch.logaddexp(log_sum, own))[..., None].to(output.dtype)


ROWS_ADDED = 64  # a table grows by at least this many rows per slot
GROWTH = 1.125
LINE = 16  # float32 numbers in a cache line

Rows = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of some positions for each attention call. Shapes: [n, G, D] and [n, G, E]."""


@dataclass(slots=True, eq=False)
class TrunkRows:
    """The keys and values of a trunk. Shapes: [1, G, last - first, D] and [.., E] for each attention call."""

    first: int
    last: int
    layers: list[tuple[torch.Tensor, torch.Tensor]]


def trunk_rows(first: int, last: int, rows: Rows) -> TrunkRows:
    """Return a trunk from the rows of its positions, in the layout for reading."""
    layers = [(key.transpose(0, 1)[None].contiguous(), value.transpose(0, 1)[None].contiguous()) for key, value in rows]
    return TrunkRows(first, last, layers)


@dataclass(slots=True)
class SlotTable:
    """Rows of the sequences in slots 0 to n - 1.

    Shapes: keys [n_slots, G, D, capacity] and values [n_slots, G, capacity, E] for each attention call; starts int64
        [n_slots]: the position of a slot's first own row; lengths int64 [n_slots]: the number of its own rows, also of
        a sequence that has left. first_capacity: capacity known to be needed; most_rows: maximum rows of a sequence.
    """

    n_slots: int
    first_capacity: int = 0
    most_rows: int | None = None
    n: int = 0
    capacity: int = 0
    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)
    starts: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    lengths: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    chains: list[tuple[TrunkRows, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Allocate the counts; rows are allocated when the first sequence shows their shape."""
        self.starts = np.zeros(self.n_slots, dtype=np.int64)
        self.lengths = np.zeros(self.n_slots, dtype=np.int64)

    @property
    def depths(self) -> IntArray:
        """The position of each slot's next token. Shapes: int64 [n]."""
        return self.starts[: self.n] + self.lengths[: self.n]

    def add(self, rows: Rows, start: int, chain: tuple[TrunkRows, ...]) -> None:
        """Assign the next free slot to a sequence with these rows."""
        if not self.keys:
            for key, value in rows:
                self.keys.append(key.new_empty(self.n_slots, key.shape[1], key.shape[2], 0))
                self.values.append(value.new_empty(self.n_slots, value.shape[1], 0, value.shape[2]))
        length = int(rows[0][0].shape[0])
        slot = self.n
        self.n += 1
        self.reserve(length + 1)
        for layer, (key, value) in enumerate(rows):
            self._put(layer, slot, key.permute(1, 2, 0), value.transpose(0, 1))
        self.starts[slot], self.lengths[slot] = start, length
        self.chains.append(chain)

    def remove(self, slot: int) -> int:
        """Free a slot; the last one moves into it. Return the former number of the moved one."""
        last = self.n - 1
        if slot != last:
            length = int(self.lengths[last])
            for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
                self._put(layer, slot, keys[last, :, :, :length], values[last, :, :length])
            self.starts[slot], self.lengths[slot] = self.starts[last], length
            self.chains[slot] = self.chains[last]
        self.chains.pop()
        self.n = last
        return last

    def _put(self, layer: int, slot: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """Overwrite a slot's rows in one layer, and clear the rest of the previous sequence's rows.

        Shapes: key [G, D, n]; value [G, n, E].
        """
        length, before = key.shape[2], int(self.lengths[slot])
        keys, values = self.keys[layer][slot], self.values[layer][slot]
        keys[:, :, :length], values[:, :length] = key, value
        keys[:, :, length:before], values[:, length:before] = 0.0, 0.0

    def reserve(self, n_rows: int) -> None:
        """Make sure that each slot has capacity for `n_rows` own rows."""
        if n_rows <= self.capacity:
            return
        capacity = max(n_rows + ROWS_ADDED, int(self.capacity * GROWTH), self.first_capacity)
        if self.most_rows is not None:
            capacity = max(n_rows, min(capacity, self.most_rows))
        # An odd number of whole cache lines: rows a power of two apart would compete for the same cache sets.
        capacity = (-(-capacity // LINE) | 1) * LINE
        for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            self.keys[layer] = zeros_apart((*keys.shape[:3], capacity), keys)
            self.keys[layer][..., : self.capacity] = keys
            self.values[layer] = zeros_apart((*values.shape[:2], capacity, values.shape[3]), values)
            self.values[layer][:, :, : self.capacity] = values
        self.capacity = capacity


@dataclass(slots=True)
class _TrunkView:
    """A trunk in one step: the slots that read it, and their mask. `slots` None means all slots."""

    trunk: TrunkRows
    slots: torch.Tensor | None
    n: int
    bias: torch.Tensor | None  # [1, 1, n * queries per key head, rows]
    blind: torch.Tensor | None  # bool [n]: slots that may see no position of it


class DecodeStep:
    """One new token of each slot in the forward pass."""

    def __init__(self, table: SlotTable, device: torch.device) -> None:
        table.reserve(int(table.lengths[: table.n].max()) + 1)
        self.table = table
        self.device = device
        self.n_calls = 0
        self.n_rows = int(table.lengths[: table.n].max()) + 1
        self._groups = _trunk_groups(table)
        self._views: dict[tuple[int, int], tuple[torch.Tensor | None, list[_TrunkView]]] = {}
        self._rules: list[MaskRule] = []  # keeps ids of rules from being reused within the step

    @cached_property
    def _places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each slot's new row is written: slots and rows. Shapes: int64 [n]."""
        n = self.table.n
        return torch.arange(n, device=self.device), torch.as_tensor(self.table.lengths[:n].copy(), device=self.device)

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rule: MaskRule, options: AttentionOptions
    ) -> torch.Tensor:
        """Return attention's output for one layer, after storing the new keys and values.

        Shapes: query [1, H, S, D]; key [1, G, S, D]; value [1, G, S, E]; result [1, S, H, E].
        """
        table, layer = self.table, self.n_calls
        if query.shape[0] != 1 or query.shape[2] != table.n or layer >= len(table.keys):
            raise UnsupportedAttention(f"queries of shape {tuple(query.shape)} for {table.n} slots, call {layer}")
        self.n_calls += 1
        dtype = query.dtype
        keys, values = table.keys[layer], table.values[layer]
        _, n_heads, n, width = query.shape
        n_groups = key.shape[1]
        repeat = n_heads // n_groups
        if n == 1:  # views, which cost a third of what indices do
            keys[0, :, :, self.n_rows - 1], values[0, :, self.n_rows - 1] = key[0, :, 0], value[0, :, 0]
            folded = query.view(1, n_groups, repeat, width).to(keys.dtype)
        else:
            slots, rows = self._places
            keys[slots, :, :, rows] = key[0].transpose(0, 1).to(keys.dtype)
            values[slots, :, rows] = value[0].transpose(0, 1).to(values.dtype)
            folded = query[0].view(n_groups, repeat, n, width).permute(2, 0, 1, 3).to(keys.dtype).contiguous()
        bias, views = self._views_for(rule, repeat)
        own_keys, own_values = keys[:n, :, :, : self.n_rows].transpose(2, 3), values[:n, :, : self.n_rows]
        sinks = options.get("s_aux")
        if not views and sinks is None and repeat < FLASH_ROWS:
            alone = attend_all(folded, own_keys, own_values, bias, options)
            return alone.to(dtype).reshape(1, n, n_heads, -1)
        output, log_sum = attend_part(folded, own_keys, own_values, bias, options)
        for view in views:
            output, log_sum = _attend_trunk(folded, output, log_sum, view, view.trunk.layers[layer], options)
        if sinks is not None:
            output = with_sinks(output, log_sum, sinks)
        return output.to(dtype).reshape(1, n, n_heads, -1)

    def commit(self) -> None:
        """Count the rows added by this step; until then a failed step has changed nothing."""
        self.table.lengths[: self.table.n] += 1

    def _views_for(self, rule: MaskRule, repeat: int) -> tuple[torch.Tensor | None, list[_TrunkView]]:
        """Return the mask over own rows and the trunks to read under `rule`, built once for layers that share it."""
        bias_and_views = self._views.get((id(rule), repeat))
        if bias_and_views is None:
            self._rules.append(rule)
            sees_all = rule.allows_all_before(int(self.table.depths.max()))
            views = [self._view(group, rule, repeat, sees_all) for group in self._groups]
            bias = self._own_bias(rule, repeat, sees_all)
            bias_and_views = self._views[(id(rule), repeat)] = (bias, [view for view in views if view is not None])
        return bias_and_views

    def _own_bias(self, rule: MaskRule, repeat: int, sees_all: bool) -> torch.Tensor | None:
        """Return the mask over own rows. Shapes: [S, 1, repeat, rows]."""
        table = self.table
        if sees_all and table.n == 1:
            return None
        rows = np.arange(self.n_rows)
        visible = rows[None, :] <= table.lengths[: table.n, None]
        if not sees_all:
            visible = visible & rule.allows(table.depths[:, None], table.starts[: table.n, None] + rows[None, :])
        if visible.all():
            return None
        bias = self._bias(visible)[:, None, None, :]
        return bias.expand(-1, 1, repeat, -1)

    def _view(
        self, group: tuple[TrunkRows, list[int]], rule: MaskRule, repeat: int, sees_all: bool
    ) -> _TrunkView | None:
        """Return how this step reads a trunk, or None if no slot may see any of it."""
        trunk, members = group
        slots = None if len(members) == self.table.n else torch.tensor(members, device=self.device)
        if sees_all:
            return _TrunkView(trunk, slots, len(members), None, None)
        visible = rule.allows(self.table.depths[members][:, None], np.arange(trunk.first, trunk.last)[None, :])
        if visible.all():
            return _TrunkView(trunk, slots, len(members), None, None)
        sees = np.asarray(visible.any(axis=1))
        if not sees.any():
            return None
        bias = self._bias(visible | ~sees[:, None]).repeat_interleave(repeat, dim=0)[None, None]
        blind = None if sees.all() else torch.as_tensor(~sees, device=self.device)
        return _TrunkView(trunk, slots, len(members), bias, blind)

    def _bias(self, visible: npt.NDArray[np.bool_]) -> torch.Tensor:
        hidden = torch.as_tensor(~visible, device=self.device)
        dtype = self.table.keys[0].dtype
        return torch.zeros(hidden.shape, dtype=dtype, device=self.device).masked_fill_(hidden, -torch.inf)


def _trunk_groups(table: SlotTable) -> list[tuple[TrunkRows, list[int]]]:
    """Return each trunk in use with the slots that read it."""
    groups: dict[int, tuple[TrunkRows, list[int]]] = {}
    for slot, chain in enumerate(table.chains):
        for trunk in chain:
            groups.setdefault(id(trunk), (trunk, []))[1].append(slot)
    return list(groups.values())


def _attend_trunk(
    folded: torch.Tensor,
    output: torch.Tensor,
    log_sum: torch.Tensor,
    view: _TrunkView,
    rows: Sequence[torch.Tensor],
    options: AttentionOptions,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention so far merged with a trunk's, which is read once for all slots that share it.

    Shapes: folded [S, G, R, D]; output [S, G, R, E]; log_sum [S, G, R].
    """
    chosen = folded if view.slots is None else folded[view.slots]
    n, n_groups, repeat, width = chosen.shape
    queries = chosen.transpose(0, 1).reshape(1, n_groups, n * repeat, width)
    more, more_log_sum = attend_part(queries, rows[0], rows[1], view.bias, options)
    more = more.view(n_groups, n, repeat, -1).transpose(0, 1)
    more_log_sum = more_log_sum.view(n_groups, n, repeat).transpose(0, 1)
    if view.blind is not None:
        more_log_sum = more_log_sum.masked_fill(view.blind[:, None, None], -torch.inf)
    if view.slots is None:
        return merge_into(output, log_sum, more, more_log_sum)
    merged, total = merge_into(output[view.slots], log_sum[view.slots], more, more_log_sum)
    return output.index_copy(0, view.slots, merged), log_sum.index_copy(0, view.slots, total)
