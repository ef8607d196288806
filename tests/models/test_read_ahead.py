"""One thing is made ahead of the one in use, in order, and a caller that stops early leaves no thread behind."""

import threading
import time
from collections.abc import Callable

import pytest

from assaymark.models.read_ahead import read_ahead


def noting(begun: list[int]) -> Callable[[int], int]:
    """Return a function that notes each item as it is begun and returns it."""

    def make(item: int) -> int:
        begun.append(item)
        return item

    return make


def threads() -> list[str]:
    """Return the names of the running threads that this file's tests start."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ahead-test")]


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_everything_comes_in_order(n: int) -> None:
    """Each item's result comes once, in the order of the items."""
    assert list(read_ahead(lambda item: item * 10, range(n), "ahead-test")) == [item * 10 for item in range(n)]
    assert threads() == []


def test_the_next_is_made_while_one_is_used() -> None:
    """When the first result is in the caller's hands the second is being made, and the third is not begun."""
    begun: list[int] = []
    made = read_ahead(noting(begun), range(4), "ahead-test")
    assert next(made) == 0
    deadline = time.monotonic() + 10
    while len(begun) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert begun == [0, 1]
    assert list(made) == [1, 2, 3]


def test_one_item_needs_no_thread() -> None:
    """Where nothing comes after it, an item is made in the caller's own thread."""
    assert list(read_ahead(lambda _: threading.current_thread(), ["only"], "ahead-test")) == [
        threading.current_thread()
    ]


def test_a_caller_that_stops_early_leaves_nothing_behind() -> None:
    """After a caller has stopped no thread runs and no further item is begun."""
    begun: list[int] = []
    made = read_ahead(noting(begun), range(10), "ahead-test")
    next(made)
    made.close()  # type: ignore[attr-defined]
    assert threads() == []
    assert len(begun) <= 2


def test_a_failure_comes_when_its_result_is_due() -> None:
    """What an item raises is raised after the results before it were used."""
    made = read_ahead(lambda item: 6 // item, [3, 2, 0, 1], "ahead-test")
    assert [next(made), next(made)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(made)
    assert threads() == []
