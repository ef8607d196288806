"""The queue serves users in turn, and tells positions that come true; tokens are delivered some at a time."""

import random
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from assaymark.engine.generation import GeneratedSequence, GenerationPrompt
from assaymark.engine.open_batch import NewToken
from assaymark.hosting import scheduler as module
from assaymark.hosting.fair_queue import FairQueue, QueueFull
from assaymark.hosting.hosted_model import HostedModel
from assaymark.hosting.scheduler import Event, GenerateWork, Handle, Scheduler, User
from tests.hosting.running import NAME, local_model


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
        results = {entry: queue.position(entry) for entry in range(20) if entry in queue}
        served = {queue.pop(lambda _: True): turn for turn in range(1, len(results) + 1)}
        assert results == served


def test_an_entry_that_may_not_go_does_not_block_others() -> None:
    """The next user's entry is served where the first one may not go yet."""
    queue: FairQueue[str, str] = FairQueue(5)
    for entry in ("a1", "b1"):
        queue.put(entry[0], entry)
    assert queue.pop(lambda entry: entry != "a1") == "b1"
    assert queue.pop(lambda entry: entry != "a1") is None
    assert queue.position("a1") == 1


@pytest.mark.parametrize(("seconds", "n_deliveries"), [(0.0, 63), (1e9, 2)])
def test_tokens_are_delivered_together_but_never_after_the_end(
    monkeypatch: pytest.MonkeyPatch, seconds: float, n_deliveries: int
) -> None:
    """The first step's tokens come at once; those of the next moments come together, in order and before the end."""
    monkeypatch.setattr(module, "DELIVER_SECONDS", seconds)
    deliveries: list[list[Event]] = []
    has_ended = threading.Event()

    def deliver(events: Sequence[tuple[Handle, Event]]) -> None:
        deliveries.append([event for _, event in events])
        if isinstance(deliveries[-1][-1], GeneratedSequence):
            has_ended.set()

    model = HostedModel(local_model(), NAME)
    running = Scheduler(model.engine.open_batch, model.thread, deliver)
    running.start()
    try:
        prompt = GenerationPrompt(np.arange(5, 25, dtype=np.int32), 64)
        running.submit(GenerateWork(prompt), User("ada", "key"), lambda _: None)
        assert has_ended.wait(60)
    finally:
        running.close()
    assert len(deliveries) == n_deliveries
    *tokens, end = [event for events in deliveries for event in events]
    assert isinstance(end, GeneratedSequence)
    assert [event.token for event in tokens if isinstance(event, NewToken)] == list(end.tokens)
    assert len(deliveries[0]) == 2  # the prompt's and that of the first step
