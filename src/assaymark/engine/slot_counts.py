"""How many sequences are decoded at once, from the device's memory and the model's shape."""

from assaymark.engine.memory import cache_bytes, total_memory_bytes
from assaymark.engine.weights import LoadedModel

__all__ = ["most_slots", "slots_that_fit"]

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
