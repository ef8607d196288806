"""Adapt the number of concurrent requests and the retries to how a server responds.

Concurrency: as many requests as the user allows, half as many after each sign of overload, and one more after each
round of answers without one. All requests wait if the server requires a pause.

Retries: a request has a number of attempts, and there is a limit to the seconds without any answer (the retry budget).
A request that has used up its attempts fails. Once the budget is used up, or the server requires a pause longer than
what is left of it, no more requests are sent until `reset`: the run is incomplete, and the message states how to
continue. A request that is rejected while others succeed spends nothing.
"""

import asyncio
import math
import time
from collections import Counter
from dataclasses import dataclass, field

from assaymark.errors import ModelUnavailable, RequestRefused, Retryable
from assaymark.models.server.failures import HttpFailure

PAUSE_TOLERANCE = 1.01
MOST_REFUSED = 10  # requests refused without a single answer: the cause is then the model or its settings, not a sample


@dataclass(frozen=True, slots=True)
class RetryRules:
    """How often and how long a request is retried. Units: seconds. Waits double from the first to the longest."""

    attempts: int = 3
    budget_s: float = 120.0
    first_wait_s: float = 1.0
    longest_wait_s: float = 10.0

    def wait(self, n_before: int) -> float:
        """Return the wait after this number of earlier failures."""
        return float(min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(n_before, 30)))


class Pace:
    """Limits the number of concurrent requests."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.lowest = ceiling
        self.n_active = 0
        self._limit = float(ceiling)
        self._reduced_at = 0.0  # requests sent before the last reduction are ignored
        self._resume_at = 0.0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def limit(self) -> int:
        """The number of concurrent requests allowed now."""
        return int(self._limit)

    async def enter(self) -> float:
        """Wait for a free slot and return the time at which it was taken."""
        while (pause := self._resume_at - time.monotonic()) > 0 or self.n_active >= self.limit:
            if pause > 0:
                await asyncio.sleep(pause)
                continue
            slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(slot)
            await slot
        self.n_active += 1
        return time.monotonic()

    def leave(self) -> None:
        """Release a slot."""
        self.n_active -= 1
        n_free = max(0, self.limit - self.n_active)
        waiting = [slot for slot in self._waiting if not slot.done()]
        self._waiting = waiting[n_free:]
        for slot in waiting[:n_free]:
            slot.set_result(None)

    def slow_down(self, entered_at: float) -> None:
        """Halve the limit, once for all requests that were in flight together."""
        if entered_at >= self._reduced_at:
            self._reduced_at = time.monotonic()
            self._limit = max(1.0, self._limit / 2)
            self.lowest = min(self.lowest, self.limit)

    def speed_up(self) -> None:
        """Raise the limit by one per round of answers."""
        self._limit = min(float(self.ceiling), self._limit + 1.0 / self._limit)

    def pause(self, seconds: float) -> None:
        """Let no request start for this many seconds."""
        self._resume_at = max(self._resume_at, time.monotonic() + seconds)


@dataclass(slots=True)
class Patience:
    """Tracks how long no request has succeeded, for all requests together."""

    rules: RetryRules
    has_answered: bool = False  # ever
    given_up: str | None = None  # why no more requests are sent
    retried: Counter[str] = field(default_factory=Counter)  # kind of failure -> number of retries
    n_refused: int = 0  # before the first answer
    _silent_since: float | None = None

    def answered(self) -> None:
        """Record an answer."""
        self.has_answered = True
        self._silent_since = None

    def failed(self, failure: HttpFailure) -> None:
        """Record a failed attempt; a refusal does not count as silence."""
        self.n_refused += failure.error is RequestRefused and not self.has_answered
        if issubclass(failure.error, Retryable) and self._silent_since is None:
            self._silent_since = time.monotonic()

    def is_hopeless(self, failure: HttpFailure) -> bool:
        """Return whether a recorded failure shows that no request can succeed."""
        if failure.error is ModelUnavailable:
            return True
        return not self.has_answered and (failure.shows_all or self.n_refused >= MOST_REFUSED)

    @property
    def silent_s(self) -> float:
        """Seconds since the first failure after the last answer; 0 without a failure."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    def give_up(self, failure: HttpFailure) -> None:
        """Send no more requests from now on; `given_up` states the reason and the remedy."""
        if self.given_up is not None:
            return
        budget, pause = self.rules.budget_s, failure.retry_after_s or 0.0
        if self.silent_s + pause > budget and pause:
            why = f"the server requires a pause of {pause:.0f} s, which retry_budget={budget:g} does not allow"
            more = int(self.silent_s) + math.ceil(pause)
        else:
            why = f"there was no answer for {self.silent_s:.0f} s, and retry_budget={budget:g} is used up"
            more = math.ceil(2 * budget)
        self.given_up = (
            f"not sent: {why}; the last response: {failure.message}; run the same command again later, or wait longer "
            f"with retry_budget={more}"
        )

    def reset(self) -> None:
        """Start again: requests may be sent after giving up."""
        self.given_up = self._silent_since = None


@dataclass(slots=True)
class Tries:
    """The attempts and waits of one request."""

    n_attempts: int = 0
    n_waits: int = 0

    def wait_after(self, failure: HttpFailure, patience: Patience) -> float:
        """Return the wait before the request is sent again, in seconds.

        Raises: the failure itself if no attempt is left.
        """
        rules, pause = patience.rules, failure.retry_after_s or 0.0
        if not failure.may_retry or patience.given_up is not None:
            raise failure
        # A pause may exceed the budget slightly: concurrent requests receive it one after another.
        longest = rules.budget_s * PAUSE_TOLERANCE if pause else rules.budget_s
        if failure.was_accepted:
            self.n_attempts += 1
            wait = max(rules.wait(self.n_attempts - 1), pause)
            all_fail = patience.silent_s > rules.budget_s or pause > longest
            is_last = all_fail or self.n_attempts >= rules.attempts
        else:
            wait = max(rules.wait(self.n_waits), pause)
            self.n_waits += 1
            all_fail = is_last = patience.silent_s + wait > longest
        if is_last:
            if all_fail:
                patience.give_up(failure)
            spent = f"tried {self.n_attempts} times" if failure.was_accepted else f"retry_budget={rules.budget_s:g}"
            raise HttpFailure(failure.error, f"{failure.message} ({spent})")
        patience.retried[failure.error.__name__] += 1
        return wait
