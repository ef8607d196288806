"""Compute attention over one set of keys so that it can be merged with attention over another set.

Softmax over two sets of keys is a weighted sum of softmax over each, the weights being the sets' sums of exponentials.
So keys that many sequences share are attended once for all of them, and each sequence's own keys separately.
Source: the identity is that of online softmax (Milakov and Gimelshein 2018); used for shared prefixes by Juravsky et
al. 2024 (Hydragen).
"""

from typing import Any

import torch

FLASH_ROWS = 32  # number of queries per key head from which torch's kernel is faster than two products


def has_flash_kernel() -> bool:
    """Return whether this torch returns the sum of exponentials along with attention on a CPU."""
    return hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")


def attend_part(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None, options: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention over these keys alone, and the logarithm of the sum of exponentials of its scores.

    With few queries a CPU waits for keys and values. Two products over all pairs of B and G read them nearly at the
    speed of memory, about twice as fast as the kernel, if each key is strided across memory (K innermost).
    Shapes: query [B, G, Q, D]; key [B, G, K, D]; value [B, G, K, E]; bias [B, 1, Q, K], 0 or minus infinity, at least
        one 0 in each row; results [B, G, Q, E] in the values' dtype, float32 [B, G, Q].
    """
    scale = options.get("scaling")
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    cap = options.get("softcap")
    on_cpu = query.device.type == "cpu"
    is_wide = query.shape[2] >= FLASH_ROWS
    if cap is None and on_cpu and is_wide and key.shape[-1] == value.shape[-1] and has_flash_kernel():
        output, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001
            query, key, value, 0.0, False, attn_mask=bias, scale=scale
        )
        return output, log_sum
    scores = torch.matmul(query, key.transpose(2, 3)).float().mul_(scale)  # [B, G, Q, K]
    if cap is not None:
        scores = scores.div_(cap).tanh_().mul_(cap)
    if bias is not None:
        scores += bias
    weights = torch.softmax(scores, dim=-1)
    log_sum = scores.amax(dim=-1) - weights.amax(dim=-1).log_()  # the largest weight is never far from 1 / K
    return torch.matmul(weights.to(value.dtype), value), log_sum


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
