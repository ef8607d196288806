"""The slot table: what a sequence leaves behind, and how much capacity is allocated."""

import torch

from assaymark.engine.memory import zeros_apart
from assaymark.engine.slots import LINE, ROWS_ADDED, Rows, SlotTable


def rows_of(value: float, n: int) -> Rows:
    """Return keys and values of n positions in two layers, all of one value."""
    return [(torch.full((n, 2, 4), value), torch.full((n, 2, 4), value)) for _ in range(2)]


def test_a_sequence_leaves_nothing_behind() -> None:
    """Rows that are not finite are gone when a shorter sequence takes the slot of the one that had them."""
    table = SlotTable(2)
    table.add(rows_of(float("nan"), 20), 0, ())
    table.add(rows_of(1.0, 5), 0, ())
    assert table.remove(0) == 1
    assert torch.isfinite(table.keys[0][0]).all()
    assert torch.isfinite(table.values[1][0]).all()
    table.add(rows_of(float("nan"), 30), 0, ())
    table.remove(1)
    table.add(rows_of(2.0, 3), 0, ())
    assert torch.isfinite(table.keys[0]).all()
    assert torch.isfinite(table.values[1]).all()


def test_a_moved_sequence_keeps_its_rows() -> None:
    """The last slot's keys and values are unchanged in the slot of the sequence that ended."""
    table = SlotTable(3)
    for value in (1.0, 2.0, 3.0):
        table.add(rows_of(value, int(value) * 4), int(value), ())
    table.remove(0)
    assert (table.keys[0][0, :, :, :12] == 3.0).all()
    assert (table.values[1][0, :, :12] == 3.0).all()
    assert table.depths.tolist() == [15, 10]


def test_capacity_is_limited_to_the_most_rows_needed() -> None:
    """A table grows in whole cache lines, by at least ROWS_ADDED, but not beyond the most that can be needed."""
    table = SlotTable(1, most_rows=100)
    table.add(rows_of(1.0, 10), 0, ())
    assert ROWS_ADDED + 10 <= table.capacity < 100
    table.reserve(90)
    assert 100 <= table.capacity <= 100 + 2 * LINE
    assert table.capacity % LINE == 0
    assert (table.keys[0][0, :, :, :10] == 1.0).all()
    assert (table.values[0][0, :, :10] == 1.0).all()


def test_separate_memory_is_plain_zeros() -> None:
    """Memory that returns to the system contains zeros of the requested shape and dtype, and can be written."""
    made = zeros_apart((3, 5), torch.empty(0, dtype=torch.bfloat16))
    assert made.shape == (3, 5)
    assert made.dtype == torch.bfloat16
    assert not made.any()
    made += 1
    assert made.sum() == 15
    assert zeros_apart((0, 4), torch.empty(0)).shape == (0, 4)
