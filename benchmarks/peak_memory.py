"""The most memory that a benchmark's process has held, on the host and on its device."""

import resource


def host_peak_bytes() -> int:
    """Return the largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def device_peak_bytes(device: str) -> int:
    """Return the most that torch has held on a GPU in this process; 0 for the CPU."""
    import torch

    return torch.cuda.max_memory_allocated(device) if device.startswith("cuda") else 0
