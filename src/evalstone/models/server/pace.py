"""How fast a server is asked, and how long it is waited for: both follow from what it answers.

At once: as many requests as the user allows, half as many after each sign of overload, and one more for each round of
answers without one. All wait together where the server asks for it.

How long: a request may spend so many attempts, and nothing at all may be answered for so many seconds (the retry
budget). A request that has used up its attempts has failed. Once the budget is used up, or the server asks for a pause
longer than what is left of it, no more requests are sent until `reset`: the run is incomplete, and says how to go on.
A request that is turned away while others are answered spends nothing.
"""

import asyncio
import math
import time
from collections import Counter
from dataclasses import dataclass, field

from evalstone.errors import ModelUnavailable, RequestRefused
from evalstone.models.server.failures import HttpFailure

__all__ = ["Pace", "Patience", "RetryRules", "Tries"]

PAUSE_TOLERANCE = 1.01
MOST_REFUSED = 10  # requests refused while none was answered: then it is the model or its settings, not a sample


@dataclass(frozen=True, slots=True)
class RetryRules:
    """How often and how long a request is tried. Units: seconds. Waits double from the first to the longest."""

    attempts: int = 3
    budget_s: float = 120.0
    first_wait_s: float = 1.0
    longest_wait_s: float = 10.0

    def wait(self, n_before: int) -> float:
        """Return the wait after so many earlier failures."""
        return float(min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(n_before, 30)))


class Pace:
    """How many requests may be under way at once."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self.lowest = ceiling
        self.n_active = 0
        self._limit = float(ceiling)
        self._cut_at = 0.0  # requests sent before the last cut say nothing new
        self._resume_at = 0.0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def limit(self) -> int:
        """How many may be under way now."""
        return int(self._limit)

    async def enter(self) -> float:
        """Wait for a place and return the time it was had."""
        while (pause := self._resume_at - time.monotonic()) > 0 or self.n_active >= self.limit:
            if pause > 0:
                await asyncio.sleep(pause)
                continue
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            await place
        self.n_active += 1
        return time.monotonic()

    def leave(self) -> None:
        """Give a place back."""
        self.n_active -= 1
        self._wake()

    def _wake(self) -> None:
        n_free = max(0, self.limit - self.n_active)
        waiting = [place for place in self._waiting if not place.done()]
        self._waiting = waiting[n_free:]
        for place in waiting[:n_free]:
            place.set_result(None)

    def slow_down(self, entered_at: float) -> None:
        """Halve the limit, once for all requests that were under way together."""
        if entered_at >= self._cut_at:
            self._cut_at = time.monotonic()
            self._limit = max(1.0, self._limit / 2)
            self.lowest = min(self.lowest, self.limit)

    def speed_up(self) -> None:
        """Let one more in for each round of answers."""
        self._limit = min(float(self.ceiling), self._limit + 1.0 / self._limit)

    def pause(self, seconds: float) -> None:
        """Let nobody in for so long."""
        self._resume_at = max(self._resume_at, time.monotonic() + seconds)


@dataclass(slots=True)
class Patience:
    """How long nothing has been answered, shared by all requests."""

    rules: RetryRules
    has_answered: bool = False  # ever
    given_up: str | None = None  # why the rest is not asked
    retried: Counter[str] = field(default_factory=Counter)  # kind of failure -> times tried again
    n_refused: int = 0  # before the first answer
    _silent_since: float | None = None

    def answered(self) -> None:
        """Take note of an answer."""
        self.has_answered = True
        self._silent_since = None

    def failed(self, failure: HttpFailure) -> None:
        """Take note of a failed attempt; a refusal is no silence."""
        self.n_refused += failure.error is RequestRefused and not self.has_answered
        if failure.may_retry and self._silent_since is None:
            self._silent_since = time.monotonic()

    def is_hopeless(self, failure: HttpFailure) -> bool:
        """Whether a failure that was taken note of shows that no request can be answered."""
        if failure.error is ModelUnavailable:
            return True
        return not self.has_answered and (failure.shows_all or self.n_refused >= MOST_REFUSED)

    @property
    def silent_s(self) -> float:
        """Seconds since the first failure after the last answer; 0 without one."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    def give_up(self, failure: HttpFailure) -> None:
        """Send no more requests from now on; `given_up` says why, and what the user can do."""
        if self.given_up is not None:
            return
        budget, pause = self.rules.budget_s, failure.retry_after_s or 0.0
        if self.silent_s + pause > budget and pause:
            why = f"the server asks for a pause of {pause:.0f} s, which retry_budget={budget:g} does not allow"
            more = int(self.silent_s) + math.ceil(pause)
        else:
            why = f"nothing was answered for {self.silent_s:.0f} s, and retry_budget={budget:g} is used up"
            more = math.ceil(2 * budget)
        self.given_up = (
            f"not asked: {why}; the last response: {failure.message}; run the same command again later, or wait longer "
            f"with retry_budget={more}"
        )

    def reset(self) -> None:
        """Begin anew: what was given up may be asked again."""
        self.given_up = self._silent_since = None


@dataclass(slots=True)
class Tries:
    """What one request has spent."""

    n_attempts: int = 0
    n_waits: int = 0

    def wait_after(self, failure: HttpFailure, patience: Patience) -> float:
        """Return how long to wait before the request is tried again, in seconds.

        Raises: the failure, where it is the last.
        """
        rules, pause = patience.rules, failure.retry_after_s or 0.0
        if not failure.may_retry or patience.given_up is not None:
            raise failure
        # A pause may pass the budget by a little: requests under way together are told of it one after the other.
        longest = rules.budget_s * PAUSE_TOLERANCE if pause else rules.budget_s
        if failure.was_taken:
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
            spent = f"tried {self.n_attempts} times" if failure.was_taken else f"retry_budget={rules.budget_s:g}"
            raise HttpFailure(failure.error, f"{failure.message} ({spent})")
        patience.retried[failure.error.__name__] += 1
        return wait
