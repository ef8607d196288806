"""What can become of a request to a server, and what follows from it: the taxonomy of failures.

Two questions decide: did the server take the request up (then an attempt was spent; else only time passes), and would
another request fare better (else the whole run ends, with one error).

| what happened | error | an attempt is spent | tried again |
|---|---|---|---|
| no connection | Unreachable | no | yes |
| 429; 503 that says when to come back | RateLimited, ServerFailed | no | yes |
| the connection broke; time is up | ConnectionLost, TimedOut | yes | yes |
| 408, 409, 425, 5xx; not the promised form | ServerFailed, MalformedAnswer | yes | yes |
| 400, 403, 413, 422 and other 4xx | RequestRefused, PromptTooLong | yes | no |
| 401, 402, 404, 405, 3xx, no money left | ModelUnavailable | yes | no: the run ends |

Where nothing has been answered yet, a failure may show more: a first 403, or a first answer without what was asked
for, ends the run too (`shows_all`).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from evalstone.errors import (
    ConnectionLost,
    ModelError,
    ModelUnavailable,
    PromptTooLong,
    RateLimited,
    RequestRefused,
    Retryable,
    ServerFailed,
    TimedOut,
    Unreachable,
)
from evalstone.models.server.key_hiding import NO_KEYS, KeyHider

__all__ = ["LONGEST_QUOTE", "HttpFailure", "failure_of_answer", "failure_of_transport"]

LONGEST_QUOTE = 300  # characters of a server's own words
ENDS_ALL = frozenset({401, 402, 404, 405})
COMES_BACK = frozenset({408, 409, 425})
TOO_LONG = ("context_length_exceeded", "maximum context length", "maximum input length", "prompt is too long")
NO_MONEY = ("insufficient_quota", "billing")


@dataclass(eq=False)
class HttpFailure(Exception):
    """One attempt that brought no answer. Units: retry_after_s, the wait that the server asked for."""

    error: type[ModelError]
    message: str
    was_taken: bool = True  # the server took the request up: an attempt is spent
    retry_after_s: float | None = None
    shows_all: bool = False  # as the first that is heard of a server, it shows that no request can be answered

    @property
    def may_retry(self) -> bool:
        """Whether the same request may fare better."""
        return issubclass(self.error, Retryable)

    @property
    def is_overload(self) -> bool:
        """Whether fewer requests at once are called for."""
        return self.error is RateLimited or (not self.was_taken and self.error is ServerFailed)


def failure_of_transport(
    error: httpx.TransportError | TimeoutError, timeout_s: float, keys: KeyHider = NO_KEYS
) -> HttpFailure:
    """Return the failure of a request that got no answer at all."""
    reason = keys.text(str(error)).strip() or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return HttpFailure(Unreachable, f"no connection to the server ({reason})", was_taken=False)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return HttpFailure(TimedOut, f"no answer within {timeout_s:g} s; more time is timeout=")
    return HttpFailure(ConnectionLost, f"the connection broke before the answer was whole ({reason[:LONGEST_QUOTE]})")


def failure_of_answer(status: int, headers: Mapping[str, str], body: str, keys: KeyHider = NO_KEYS) -> HttpFailure:
    """Return the failure of a request that was answered with an error."""
    said = f"{status} {httpx.codes.get_reason_phrase(status)}".strip() + _quoted(body, keys)
    wait = _retry_after(headers)
    if wait:
        said += f" (Retry-After: {wait:.0f} s)"
    if status == 429 and not any(word in body for word in NO_MONEY):
        return HttpFailure(RateLimited, said, was_taken=False, retry_after_s=wait)
    if status in ENDS_ALL or status < 400 or status == 429:
        return HttpFailure(ModelUnavailable, said)
    if status >= 500 or status in COMES_BACK:
        return HttpFailure(ServerFailed, said, was_taken=status != 503 or wait is None, retry_after_s=wait)
    is_too_long = any(word in body.lower() for word in TOO_LONG)
    return HttpFailure(PromptTooLong if is_too_long else RequestRefused, said, shows_all=status == 403)


def _quoted(body: str, keys: KeyHider) -> str:
    """Return the server's own words, shortened: the message of an error object, else the beginning of the text."""
    try:
        found = _words_in(keys.value(json.loads(body)))
    except (ValueError, RecursionError):  # no JSON, or JSON without end
        found = keys.text(body)
    text = " ".join(str(found).split())
    return f": {text[:LONGEST_QUOTE]}" if text else ""


def _words_in(found: Any) -> Any:
    """Return what an error says in words, in OpenAI's form, FastAPI's or another; else the whole."""
    for name in ("error", "message", "detail", "msg"):
        if isinstance(found, dict) and found.get(name):
            return _words_in(found[name])
    if isinstance(found, list) and found and all(isinstance(each, dict) for each in found):
        return "; ".join(str(_words_in(each)) for each in found)
    return found


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the server asks for, in seconds: a number, or a date."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
