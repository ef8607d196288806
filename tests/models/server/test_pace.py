"""The number of concurrent requests and the wait for a server."""

import asyncio
import time

import pytest

from assaymark.errors import RateLimited, RequestRefused, ServerFailed
from assaymark.models.server.failures import HttpFailure
from assaymark.models.server.pace import MOST_REFUSED, Pace, Patience, RetryRules, Tries

LIMITED = HttpFailure(RateLimited, "429", was_accepted=False)
FAILED = HttpFailure(ServerFailed, "500")


def test_the_pace_is_halved_by_overload_and_grows_back_to_its_ceiling() -> None:
    """Requests in flight together halve it once; each round of answers adds one."""

    async def play() -> list[int]:
        pace = Pace(8)
        entered = [await pace.enter() for _ in range(8)]
        limits = [pace.limit]
        for at in entered:
            pace.slow_down(at)
        limits.append(pace.limit)
        for _ in entered:
            pace.leave()
        pace.slow_down(await pace.enter())
        limits.append(pace.limit)
        for _ in range(200):
            pace.speed_up()
        return [*limits, pace.limit, pace.lowest]

    assert asyncio.run(play()) == [8, 4, 2, 8, 2]


def test_no_request_starts_above_the_limit_or_within_a_pause() -> None:
    """A request that waits for a slot gets the next one released; a pause applies to all."""

    async def play() -> tuple[int, float]:
        pace, most = Pace(2), 0

        async def one() -> None:
            nonlocal most
            await pace.enter()
            most = max(most, pace.n_active)
            await asyncio.sleep(0.001)
            pace.leave()

        pace.pause(0.05)
        started = time.monotonic()
        await asyncio.gather(*(one() for _ in range(20)))
        return most, time.monotonic() - started

    most, seconds = asyncio.run(play())
    assert most == 2
    assert seconds >= 0.05


def test_an_attempt_is_spent_only_if_the_server_accepted_the_request() -> None:
    """Three failures of the server are final; a rejection costs no attempt, only time from the budget."""
    patience, tries = Patience(RetryRules(attempts=3, budget_s=60.0)), Tries()
    waits = [tries.wait_after(failure, patience) for failure in (LIMITED, FAILED, LIMITED, FAILED)]
    assert waits == [1.0, 1.0, 2.0, 2.0]
    with pytest.raises(HttpFailure, match="tried 3 times"):
        tries.wait_after(FAILED, patience)
    assert patience.given_up is None
    assert patience.retried == {"RateLimited": 2, "ServerFailed": 2}


def test_a_wait_beyond_the_budget_ends_all_requests() -> None:
    """If a server requires a pause beyond the budget, no request waits for it until a new run begins."""
    patience = Patience(RetryRules(budget_s=60.0))
    with pytest.raises(HttpFailure, match="retry_budget=60"):
        Tries().wait_after(HttpFailure(RateLimited, "429", was_accepted=False, retry_after_s=61.0), patience)
    with pytest.raises(HttpFailure):
        Tries().wait_after(LIMITED, patience)
    patience.reset()
    assert Tries().wait_after(LIMITED, patience) == 1.0


def test_silence_uses_up_the_budget_of_all_requests() -> None:
    """Time counts from the first failure after the last answer; an answer ends it."""
    patience = Patience(RetryRules(attempts=1, budget_s=0.02))
    patience.failed(FAILED)
    time.sleep(0.03)
    patience.answered()
    patience.failed(FAILED)
    with pytest.raises(HttpFailure):
        Tries().wait_after(FAILED, patience)
    assert patience.given_up is None
    time.sleep(0.03)
    with pytest.raises(HttpFailure):
        Tries().wait_after(FAILED, patience)
    assert patience.given_up is not None


def test_refusals_of_the_first_requests_end_the_run() -> None:
    """Ten refusals before any answer concern the model; after an answer each concerns its own request."""
    refusal = HttpFailure(RequestRefused, "400")
    for has_answered in (False, True):
        patience = Patience(RetryRules())
        if has_answered:
            patience.answered()
        hopeless = []
        for _ in range(MOST_REFUSED):
            patience.failed(refusal)
            hopeless.append(patience.is_hopeless(refusal))
        assert hopeless == [*[False] * (MOST_REFUSED - 1), not has_answered]
