"""The devices available to this process."""

from functools import cache

import torch


def cuda_count() -> int:
    """Return the number of CUDA devices this process may use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def cuda_names() -> list[str]:
    """Return the name and memory of each CUDA device this process may use."""
    found = (torch.cuda.get_device_properties(index) for index in range(cuda_count()))
    return [f"{each.name} ({each.total_memory / 1e9:.0f} GB)" for each in found]


@cache
def has_tiles() -> bool:
    """Return whether this CPU multiplies bfloat16 in tiles (AMX), many times as fast as float32."""
    supported = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(supported is not None and supported()) and hasattr(torch.backends.mkldnn, "matmul")
