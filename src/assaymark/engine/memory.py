"""Choose how much passes through the model at once, from the machine's total memory and the model's shape.

It depends only on things that do not change while other programs start and end: the window is recorded with the
results, and the same spans in the same window on the same machine give the same bits. Other spans in the batch (fewer,
because a run was resumed or used cached outputs) move the windows' edges, and with them the last digits.

The devices available to this process.
"""

import ctypes
import math
import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import torch

from assaymark.platforms import total_memory_bytes as machine_memory_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


def cuda_count() -> int:
    """Return the number of CUDA devices this process may use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def cuda_names() -> list[str]:
    """Return the name and memory of each CUDA device this process may use."""
    devices = (torch.cuda.get_device_properties(index) for index in range(cuda_count()))
    return [f"{each.name} ({each.total_memory / 1e9:.0f} GB)" for each in devices]


@cache
def has_tiles() -> bool:
    """Return whether this CPU multiplies bfloat16 in tiles (AMX), many times as fast as float32."""
    supported = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(supported is not None and supported()) and hasattr(torch.backends.mkldnn, "matmul")


SMALLEST, LARGEST_CPU, LARGEST_CUDA = 256, 1024, 8192
SHARE_FOR_ACTIVATIONS = 1 / 16


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h
_LARGEST_MMAP_THRESHOLD = 32 << 20  # glibc refuses more


def keep_freed_memory() -> bool:
    """Make glibc reuse freed activations instead of returning them; return whether it accepted.

    By default each large activation is mapped anew and its pages are zeroed at first touch, which cost 5 to 8% of a
    25 M model's time. Without glibc this does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)) and bool(mallopt(_M_TRIM_THRESHOLD, 1 << 30))


def zeros_apart(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """Return zeros of the dtype and on the device of `like`; on a CPU in memory of their own.

    It returns to the system when they are freed. In the reused memory of activations a large growing tensor would leave
    holes that the next, slightly larger one does not fit, which cost half of a slot table again.
    """
    n_bytes = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or n_bytes == 0:
        return like.new_zeros(*shape)
    memory = mmap.mmap(-1, n_bytes)
    if sys.platform == "linux":
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=like.dtype).view(*shape)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether torch failed for lack of memory, on any device."""
    text = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text or "out of memory" in text


def total_memory_bytes(device: torch.device) -> int:
    """Return the memory of the device, or of the machine for the CPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return machine_memory_bytes()


def largest_of(config: object, *names: str) -> int:
    """Return a size from the configuration, under the first of these names that it has; 0 if it has none.

    Some models have one size per layer; the largest decides the memory needed.
    """
    for name in names:
        values = [getattr(layer, name, None) for layer in layer_configs(config)]
        sizes = [size for value in values for size in (value if isinstance(value, list | tuple) else [value]) if size]
        if sizes:
            return max(map(int, sizes))
    return 0


def layer_configs(config: "PreTrainedConfig") -> "list[PreTrainedConfig]":
    """Return the configuration of each layer, if transformers has one for each; else the one for all."""
    return list(getattr(config, "per_layer_config", None) or ()) or [config]


def bytes_per_token(config: object, element_size: int) -> int:
    """Return the approximate memory of one window token while it passes through a layer."""
    width = largest_of(config, "hidden_size", "n_embd") or 1024
    inner = largest_of(config, "intermediate_size") or 4 * width
    return (12 * width + 4 * inner) * element_size


def cache_bytes(config: object, depth: int, element_size: int) -> int:
    """Return the size of keys and values of an open path of `depth` nodes over all layers."""
    layers = largest_of(config, "num_hidden_layers", "n_layer") or 1
    heads = largest_of(config, "num_attention_heads", "n_head") or 1
    groups = largest_of(config, "num_key_value_heads") or heads
    width = largest_of(config, "hidden_size", "n_embd") or 1024
    head_width = max(largest_of(config, "head_dim") or width // heads, largest_of(config, "global_head_dim"))
    return 2 * layers * groups * head_width * depth * element_size


def choose_window(config: object, element_size: int, device: torch.device) -> int:
    """Return the window's size in tokens, a power of two."""
    budget = total_memory_bytes(device) * SHARE_FOR_ACTIVATIONS
    largest = LARGEST_CUDA if device.type == "cuda" else LARGEST_CPU
    window = largest
    while window > SMALLEST and window * bytes_per_token(config, element_size) > budget:
        window //= 2
    return window
