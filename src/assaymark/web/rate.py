"""Limits of the rate of actions: of one visitor, address or submitter in a period, kept in memory."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from fastapi import HTTPException

MOST_KEYS = 100_000  # remembered; the one unused longest is forgotten first


class Rate:
    """A token bucket for each key: `n` actions at once, refilled evenly over `seconds`. Safe in threads."""

    def __init__(self, n: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._n = n
        self._per_second = n / seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key -> (actions left, when)

    def wait(self, key: str) -> float:
        """Take one action of a key; return 0, or the seconds until the next one is allowed (nothing is taken then)."""
        with self._lock:
            now = self._clock()
            left, before = self._left.pop(key, (float(self._n), now))
            left = min(float(self._n), left + (now - before) * self._per_second)
            is_allowed = left >= 1
            self._left[key] = (left - 1 if is_allowed else left, now)
            if len(self._left) > MOST_KEYS:
                self._left.popitem(last=False)
            return 0.0 if is_allowed else (1 - left) / self._per_second

    def take(self, key: str, what: str) -> None:
        """Take one action of a key. Raises: HTTPException 429 that says when the next one is allowed."""
        if seconds := self.wait(key):
            duration = f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
            raise HTTPException(
                429, f"too many {what}; try again in {duration}", headers={"retry-after": str(int(seconds) + 1)}
            )
