"""Failures of requests to a server: their classes, and their texts without API keys.

Two questions decide: did the server accept the request (then an attempt is spent; otherwise only time passes), and
could a retry succeed (otherwise the request fails, or the whole run ends with one error).

| what happened | error | an attempt is spent | retried |
|---|---|---|---|
| no connection | Unreachable | no | yes |
| 429; 503 with Retry-After; 529 | RateLimited, ServerFailed | no | yes |
| connection broken; timeout | ConnectionLost, TimedOut | yes | yes |
| 408, 409, 425, 5xx; malformed answer | ServerFailed, MalformedAnswer | yes | yes |
| 400, 403, 413, 422 and other 4xx | RequestRefused, PromptTooLong | yes | no |
| 400 by a content filter | AnswerWithheld | yes | no |
| 200 with an error instead of an answer | as the status that it names, else ServerFailed | | |
| 200 with an error beside an answer, or a finish reason that is a failure | ServerFailed | yes | yes |
| 200 with an answer that a content filter ended | AnswerWithheld | yes | yes |
| 401, 402, 404, 405, 3xx, quota used up, key not valid | ModelUnavailable | yes | no: the run ends |

If no request has succeeded yet, a failure may show more: a first 403, or a first answer without the requested values,
also ends the run (`shows_all`).

API keys are removed from everything that a server sends, before any of it is truncated, stored or shown. Servers repeat
keys: in errors ("Incorrect API key provided: ..."), in headers, in generated text. A key is replaced wherever it occurs
in full. A beginning of it, left when the server or a limit truncated the text, is replaced from 6 characters on. Keys
must be removed before our own truncation: a search for the full key cannot find a truncated one.
"""

import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from itertools import takewhile

import httpx

from assaymark.errors import (
    AnswerWithheld,
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

HIDDEN = "(key)"
SHORTEST = 6  # characters; shorter "keys" are words like EMPTY or none, for servers that need no key
# Loggers of response headers and reason phrases at level DEBUG. A logger's filter does not see its children's records.
LOGGERS = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks")


@dataclass(frozen=True)
class KeyHider:
    """Removes some keys. Keys of fewer than 6 characters are not secrets and stay."""

    keys: tuple[str, ...] = field(default=(), repr=False)

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        """The keys to search for, the longest first, since one may be the beginning of another."""
        return tuple(sorted({key for key in self.keys if len(key) >= SHORTEST}, key=len, reverse=True))

    @cached_property
    def _signs(self) -> tuple[str, ...]:
        """Texts of which JSON must contain one if a string in it contains a key: its beginning, or an ASCII escape."""
        heads = {json.dumps(key[:SHORTEST])[1:-1] for key in self._keys}
        return (*heads, "\\u00", "\\/") if heads else ()

    def text(self, text: str) -> str:
        """Return a text without the keys."""
        for key in self._keys:
            text = _without(text, key)
        return text

    def value(self, value: object) -> object:
        """Return a JSON value with the keys removed from all strings, names included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(each) for name, each in value.items()}
        return value

    def may_be_in(self, text: str) -> bool:
        """Return whether strings of this JSON text may contain a key: a quick check before `value`."""
        return any(sign in text for sign in self._signs)

    @contextmanager
    def in_logs(self) -> Iterator[None]:
        """Remove the keys from the HTTP client's logs, which contain the server's headers at level DEBUG."""

        def without_keys(record: logging.LogRecord) -> bool:
            record.msg, record.args = self.text(record.getMessage()), ()
            return True

        loggers = [logging.getLogger(name) for name in LOGGERS]
        for logger in loggers:
            logger.addFilter(without_keys)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(without_keys)


def _without(text: str, key: str) -> str:
    """Return the text without the key, and without a beginning of it that ends at a word's end."""
    pieces: list[str] = []
    head, done, start = key[:SHORTEST], 0, text.find(key[:SHORTEST])
    while start >= 0:
        pairs = zip(key, text[start : start + len(key)], strict=False)
        end = start + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        is_whole = end - start == len(key)
        if is_whole or end == len(text) or not (text[end].isalnum() or text[end] in "_-"):
            pieces += [text[done:start], HIDDEN]
            done = end
        start = text.find(head, max(done, start + 1))
    return "".join([*pieces, text[done:]])


NO_KEYS = KeyHider()


LONGEST_QUOTE = 300  # characters of a server's message
ENDS_ALL = frozenset({401, 402, 404, 405})
RETRYABLE_STATUS = frozenset({408, 409, 425})
TOO_LONG = ("context_length_exceeded", "maximum context length", "maximum input length", "prompt is too long")
NO_MONEY = ("insufficient_quota", "billing")
FOR_NOW = "RESOURCE_EXHAUSTED"  # Gemini's limits per minute; its message names billing too
NO_KEY = ("API_KEY_INVALID", "API key not valid")  # Gemini's, with status 400
FILTERED = ("content_filter", "content management policy")  # Azure's, with status 400
OVERLOADED = 529  # Anthropic's
WITHHELD = re.compile(  # in a finish reason
    "content_filter|safety|sensitive|recitation|prohibited|blocklist|blocked|spii|guardrail|toxic|moderation|refusal",
    re.IGNORECASE,
)
BROKEN_OFF = re.compile(  # in a finish reason
    "error|abort|cancel|fail|timeout|timed_out|insufficient_system_resource|unavailable|overloaded|interrupt|"
    "time_limit|disconnect|preempt|^load$",
    re.IGNORECASE,
)
UNFINISHED = frozenset({"incomplete", "in_progress", "queued", "pending", "expired"})  # of Responses' `status`
AT_LIMIT = re.compile(  # Anthropic's, Gemini's, Mistral's, Cohere's and Responses' words for `length`
    r"(?:finish_reason_)?(?:max_(?:output_|new_|completion_)?tokens|(?:model|max)_length|token_limit)", re.IGNORECASE
)
RETRY_DELAY = re.compile(r'"retryDelay"\s*:\s*"([0-9.]+)s"')  # Gemini's, in the body


@dataclass(eq=False)
class HttpFailure(Exception):
    """One attempt that failed. Units: retry_after_s, the wait that the server requires."""

    error: type[ModelError]
    message: str
    was_accepted: bool = True  # the server accepted the request: an attempt is spent
    retry_after_s: float | None = None
    shows_all: bool = False  # as a server's first response, it shows that no request can succeed
    is_repeated: bool = False  # sent again although the error is no Retryable: another draw may pass a filter

    @property
    def may_retry(self) -> bool:
        """Whether the same request may succeed later."""
        return self.is_repeated or issubclass(self.error, Retryable)

    @property
    def is_overload(self) -> bool:
        """Whether fewer concurrent requests are needed."""
        return self.error is RateLimited or (not self.was_accepted and self.error is ServerFailed)


def failure_of_transport(
    error: httpx.TransportError | TimeoutError, timeout_s: float, keys: KeyHider = NO_KEYS
) -> HttpFailure:
    """Return the failure of a request without any response."""
    reason = keys.text(str(error)).strip() or type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return HttpFailure(Unreachable, f"no connection to the server ({reason})", was_accepted=False)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return HttpFailure(TimedOut, f"no answer within {timeout_s:g} s; allow more with timeout=")
    return HttpFailure(ConnectionLost, f"the connection broke before the answer ended ({reason[:LONGEST_QUOTE]})")


def failure_of_answer(status: int, headers: Mapping[str, str], body: str, keys: KeyHider = NO_KEYS) -> HttpFailure:
    """Return the failure of a request that got an error response."""
    said = f"{status} {httpx.codes.get_reason_phrase(status)}".strip() + _quoted(body, keys)
    wait = _retry_after(headers)
    if wait is None and (delay := RETRY_DELAY.search(body)):
        wait = float(delay[1]) if delay[1].count(".") < 2 else None
    if status < 400 and "location" in headers:
        said += f"; it redirects to {keys.text(headers['location'])[:LONGEST_QUOTE]}, which is not followed"
    if status == 400 and "max_completion_tokens" in body:
        said += " (provider=openai in --model_args sends it)"
    if wait:
        said += f" (Retry-After: {wait:.0f} s)"
    if status == 429 and (FOR_NOW in body or not any(word in body for word in NO_MONEY)):
        return HttpFailure(RateLimited, said, was_accepted=False, retry_after_s=wait)
    if status in ENDS_ALL or status < 400 or status == 429 or any(word in body for word in NO_KEY):
        return HttpFailure(ModelUnavailable, said)
    is_full = status == OVERLOADED or (status == 503 and wait is not None)
    if status >= 500 or status in RETRYABLE_STATUS:
        return HttpFailure(ServerFailed, said, was_accepted=not is_full, retry_after_s=wait)
    if status == 400 and any(word in body for word in FILTERED):
        return HttpFailure(AnswerWithheld, said)
    is_too_long = any(word in body.lower() for word in TOO_LONG)
    return HttpFailure(PromptTooLong if is_too_long else RequestRefused, said, shows_all=status == 403)


def first_choice(answer: object) -> Mapping[str, object] | None:
    """Return the choice of an answer whose `index` is 0, whatever its place; the first one if none says so."""
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return None
    return next((each for each in choices if isinstance(each, Mapping) and each.get("index") == 0), choices[0])


def failure_within(answer: object, keys: KeyHider = NO_KEYS) -> HttpFailure | None:
    """Return the failure that an answer with status 200, or an event of a stream, reports; None if it reports none.

    A gateway has accepted the request before its upstream fails. It then says so in an `error`, of the answer, its
    first choice or the message, in a field beside the choices (`_stated_error`), in a status that is not the end, or
    only in the finish reason. An answer that reports a failure is none, whatever text it has.

    Source: OpenRouter, errors (finish_reason "error", `error` in a choice); DeepSeek ("insufficient_system_resource");
        Z.AI ("sensitive", "network_error"); vLLM and SGLang ("abort"); Gemini ("SAFETY", "RECITATION", ...); OpenAI's
        Responses (`status`, `incomplete_details`); MiniMax (`base_resp`); Cloudflare (`success`, `errors`).
    """
    if not isinstance(answer, Mapping):
        return None
    choice = first_choice(answer) or {}
    message = choice.get("message") or choice.get("delta")
    for holder in (answer, choice, message if isinstance(message, Mapping) else {}):
        if error := _stated_error(holder):
            status, said = _status_in(error), json.dumps({"error": error})
            if status is None or (choice and status != httpx.codes.TOO_MANY_REQUESTS):
                return HttpFailure(ServerFailed, f"the server failed while it answered{_quoted(said, keys)}")
            return failure_of_answer(status, {}, said, keys)
        if failure := _failure_of_status(holder, keys, is_event="delta" in choice):
            return failure
    for reason in (choice.get("finish_reason"), choice.get("native_finish_reason")):
        stated = str(reason or "")
        if WITHHELD.search(stated):
            said = keys.text(f"the server withheld the answer (finish_reason {stated[:80]})")
            return HttpFailure(AnswerWithheld, said, is_repeated=True)
        if BROKEN_OFF.search(stated):
            return HttpFailure(
                ServerFailed, keys.text(f"the server broke off its answer (finish_reason {stated[:80]})")
            )
    return None


def _stated_error(holder: Mapping[str, object]) -> object:
    """Return the error that an answer, a choice or a message states, under any of the usual names; None without one."""
    for name in ("error", "errors", "error_message", "error_msg", "error_code"):
        error = holder.get(name)
        if isinstance(error, Mapping) and not any(error.values()):
            continue
        if error and error not in ("0", 200, "200"):
            return error
    reply = holder.get("base_resp")
    if isinstance(reply, Mapping) and reply.get("status_code"):
        return reply
    if holder.get("success") is False or "error" in (holder.get("object"), holder.get("type")):
        return {name: holder[name] for name in ("message", "code", "status", "type") if name in holder} or "no success"
    is_http = any(re.fullmatch(r"[45]\d\d", str(holder.get(name))) for name in ("code", "status", "status_code"))
    return (
        {name: holder[name] for name in ("code", "status", "status_code", "message") if name in holder}
        if is_http
        else None
    )


def _failure_of_status(holder: Mapping[str, object], keys: KeyHider, *, is_event: bool) -> HttpFailure | None:
    """Return the failure that the `status` of an answer states; None for an end, and for the limit of tokens."""
    status, details = holder.get("status"), holder.get("incomplete_details")
    if not isinstance(status, str):
        return None
    reason = str(details.get("reason") or "") if isinstance(details, Mapping) else ""
    if WITHHELD.search(reason):
        said = keys.text(f"the server withheld the answer (status {status[:80]}, {reason[:80]})")
        return HttpFailure(AnswerWithheld, said, is_repeated=True)
    is_unfinished = status.lower() in UNFINISHED and not is_event and not AT_LIMIT.fullmatch(reason)
    is_unfinished = is_unfinished and holder.get("finish_reason") != "length"
    if is_unfinished or BROKEN_OFF.search(status):
        return HttpFailure(ServerFailed, keys.text(f"the server broke off its answer (status {status[:80]})"))
    return None


def _status_in(error: object) -> int | None:
    """Return the HTTP status that an error names, by its code or its kind; None if it names none."""
    given = (
        [error.get(name) for name in ("code", "status", "status_code", "type")] if isinstance(error, Mapping) else []
    )
    stated = next((int(str(each)) for each in given if re.fullmatch(r"[45]\d\d", str(each))), None)
    return stated or next((429 for each in given if "rate_limit" in str(each) or FOR_NOW in str(each)), None)


def _quoted(body: str, keys: KeyHider) -> str:
    """Return the server's message, shortened: the text of an error object, else the beginning of the body."""
    try:
        message = _words_in(keys.value(json.loads(body)))
    except (ValueError, RecursionError):  # not JSON, or nested too deeply
        message = keys.text(body)
    text = " ".join(str(message).split())
    return f": {text[:LONGEST_QUOTE]}" if text else ""


def _words_in(value: object) -> object:
    """Return the message in an error of OpenAI's, FastAPI's or another format; the whole value if there is none."""
    for name in ("error", "message", "detail", "msg"):
        if isinstance(value, dict) and value.get(name):
            field = value.get("loc") if name == "msg" else None  # FastAPI's place of a field that it refuses
            where = f"{'.'.join(map(str, field))}: " if isinstance(field, list) and field else ""
            return f"{where}{words}" if isinstance(words := _words_in(value[name]), str) else words
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        return "; ".join(str(_words_in(each)) for each in value)
    return value


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the wait that the server requires, in seconds, given as a number or a date."""
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
