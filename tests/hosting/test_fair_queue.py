"""The queue serves users in turn, and tells positions that come true."""

import random

import pytest

from assaymark.hosting.scheduler import FairQueue, QueueFull


def test_users_are_served_in_turn() -> None:
    """One user's many entries do not delay another's first; each user's own stay in order."""
    queue: FairQueue[str, str] = FairQueue(10)
    for entry in ("a1", "a2", "a3", "b1", "c1", "b2"):
        queue.put(entry[0], entry)
    assert [queue.pop(lambda _: True) for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_a_full_queue_refuses() -> None:
    """The bound counts all users; a removed entry makes room."""
    queue: FairQueue[str, int] = FairQueue(2)
    queue.put("a", 1)
    queue.put("b", 2)
    with pytest.raises(QueueFull):
        queue.put("c", 3)
    assert queue.remove(1)
    assert not queue.remove(1)
    queue.put("c", 3)
    assert len(queue) == 2


def test_positions_are_the_order_of_service() -> None:
    """The position told for each entry is the turn in which it is served, for random users and entries."""
    draw = random.Random(3)
    for _ in range(200):
        queue: FairQueue[str, int] = FairQueue(100)
        for entry in range(draw.randint(1, 20)):
            queue.put(draw.choice("abcd"), entry)
        for _ in range(draw.randint(0, 5)):
            queue.pop(lambda _: True)
        told = {entry: queue.position(entry) for entry in range(20) if entry in queue}
        served = {queue.pop(lambda _: True): turn for turn in range(1, len(told) + 1)}
        assert told == served


def test_an_entry_that_may_not_go_does_not_block_others() -> None:
    """The next user's entry is served where the first one may not go yet."""
    queue: FairQueue[str, str] = FairQueue(5)
    for entry in ("a1", "b1"):
        queue.put(entry[0], entry)
    assert queue.pop(lambda entry: entry != "a1") == "b1"
    assert queue.pop(lambda entry: entry != "a1") is None
    assert queue.position("a1") == 1
