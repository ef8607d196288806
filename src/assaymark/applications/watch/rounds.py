"""Rounds of watching: alarms are evaluated and webhooks are called, by `assaymark traces watch` and by the server.

A webhook is a signed POST of JSON, at least once, with an id by which a repeated one is recognised. Who names a webhook
makes this machine send a request, so it goes to public addresses only, unless its alarm was made with
`--allow_private`, follows no redirect, and ends after 10 s whatever the other side does. Of the other side's answer
only the status is read.
"""

import hashlib
import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from urllib.parse import urlsplit

import httpx

from assaymark.applications.watch.alarm_log import AlarmLog
from assaymark.applications.watch.alarm_rows import AlarmEvent, AlarmStream
from assaymark.applications.watch.alarms import event_text, metric_name, watch_once
from assaymark.errors import AssaymarkError, UsageError
from assaymark.limits.addresses import why_not_public
from assaymark.models.server.public_only import PublicTransport, RefusedAddress
from assaymark.store import Store

EVERY_SECONDS = 5.0
_log = logging.getLogger("uvicorn.error")
TIMEOUT_SECONDS = 10.0
CLAIM_SECONDS = 60.0  # for which another watcher leaves a try to this one
MOST_AT_ONCE = 32  # tries
_FIRST_PAUSE, LONGEST_PAUSE = 10.0, 3600.0
MOST_TRIES = 30  # over about a day
LONGEST_URL = 2000
NEVER = 9e15


@dataclass(frozen=True, slots=True)
class WatchLine:
    """A message of a round. is_problem: something was tried and did not work."""

    text: str
    is_problem: bool = False


def watch_round(store: Store, project: int | None = None) -> Iterator[WatchLine]:
    """Evaluate alarms on the values that have become complete, and call their webhooks; yield messages.

    store: open for writing. project: of the alarms; None: of all projects.

    Raises: StoreError.
    """
    yield from _count(store, project)
    yield from _deliver(store, project)


def _count(store: Store, project: int | None) -> Iterator[WatchLine]:
    for raised in watch_once(store, time.time(), project):
        event = raised.event
        evidence = f"evidence {event.evidence:,.0f} of {event.threshold:,.0f}"
        trace = f"trace {event.trace_id.hex()[:16]}"
        yield WatchLine(f"ALARM '{raised.stream.name}': {event_text(raised.stream, event)} ({evidence}, {trace})")


def _deliver(store: Store, project: int | None) -> Iterator[WatchLine]:
    for delivery in deliver(store, time.time(), project):
        name = delivery.stream.name
        if not delivery.failure:
            yield WatchLine(f"alarm '{name}': its webhook was told")
        else:
            end = "given up" if delivery.is_last else "it is tried again"
            yield WatchLine(f"alarm '{name}': its webhook was not told ({delivery.failure}); {end}", is_problem=True)


def keep_watching(
    store: Store,
    every_seconds: float = EVERY_SECONDS,
    project: int | None = None,
    tell: Callable[[WatchLine], object] = lambda line: _log.error("%s", line.text),  # lesser levels show nothing
) -> threading.Event:
    """Watch alarms in threads of their own, one that counts and one that calls webhooks; setting the event ends them.

    Several servers of one store, and `assaymark traces watch` beside them, count each value once.

    Args:
        store: open for writing.
        every_seconds: between two rounds of each.
        project: of the alarms; None: of all projects.
        tell: is called with what people should know.
    """
    is_over = threading.Event()

    def repeat(work: Callable[[Store, int | None], Iterator[WatchLine]], what: str) -> None:
        last_problem = ""
        while not is_over.is_set():
            try:
                for line in work(store, project):
                    tell(line)
                last_problem = ""
            except AssaymarkError as error:  # a busy store: the next round does what this one did not
                if str(error) != last_problem:
                    tell(WatchLine(f"alarms: nothing was {what}: {error}", is_problem=True))
                last_problem = str(error)
            is_over.wait(every_seconds)

    for work, what in ((_count, "counted"), (_deliver, "sent")):
        threading.Thread(target=repeat, args=(work, what), name=f"alarms {what}", daemon=True).start()
    return is_over


@dataclass(frozen=True, slots=True)
class _Delivery:
    """How a try ended. failure: "" where it was accepted."""

    stream: AlarmStream
    event: AlarmEvent
    failure: str
    is_last: bool


def check_webhook(url: str, *, allow_private: bool) -> None:
    """Check a webhook's address before it is stored; names are looked up only when it is called.

    Raises: UsageError with what was expected.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https") or len(url) > LONGEST_URL or not url.isprintable():
        raise UsageError(f"--webhook is {url[:60]!r}; expected an address such as https://example.org/alarms")
    if parts.username is not None or parts.password is not None:
        raise UsageError("--webhook has a user or password in it; expected a path that is hard to guess instead")
    literal = "127.0.0.1" if host == "localhost" else host
    if not allow_private and (":" in literal or literal.replace(".", "").isdigit()):
        why = why_not_public(literal)
        if why is not None:
            raise UsageError(f"--webhook is at {host}, {why}; expected a public address, or add --allow_private")


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the signature's header: HMAC-SHA256 over the time, a dot and the body."""
    digest = hmac.new(secret.encode(), b"%d." % timestamp + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def deliver(store: Store, now: float, project: int | None = None) -> list[_Delivery]:
    """Send the due deliveries concurrently; return the outcome of each try.

    A killed try is repeated after a minute, with the same id.

    now: seconds since 1970. project: of the alarms; None: of all projects.
    """
    log, began, deliveries = AlarmLog(store), time.monotonic(), []
    due = iter(log.due(now, project))
    while batch := list(islice(due, MOST_AT_ONCE)):  # one that hangs holds up no other, nor does it outlast its claim
        until = now + time.monotonic() - began + CLAIM_SECONDS
        claimed = [each for each in batch if log.claim_delivery(each[1], until)]
        with ThreadPoolExecutor(MOST_AT_ONCE, "webhook") as pool:
            tries = {pool.submit(_send, *each): each for each in claimed}
            for ended in as_completed(tries):
                stream, event, _ = tries[ended]
                failure, n_tries = ended.result(), event.n_tries + 1
                is_last = bool(failure) and n_tries >= MOST_TRIES
                pause = min(_FIRST_PAUSE * 2.0 ** (n_tries - 1), LONGEST_PAUSE)
                log.note_delivery(
                    event,
                    delivered=None if failure else time.time(),
                    not_before=NEVER if is_last else now + pause,
                    failure=failure,
                )
                deliveries.append(_Delivery(stream, event, failure, is_last))
    return deliveries


def _body_of(stream: AlarmStream, event: AlarmEvent) -> dict[str, object]:
    """Return a webhook's body."""
    return {
        "id": event.id,
        "type": "assaymark.alarm",
        "alarm": stream.name,
        "metric": metric_name(stream),
        "text": event_text(stream, event),
        "time": datetime.fromtimestamp(event.raised, UTC).isoformat(timespec="seconds"),
        "trace_id": event.trace_id.hex(),
        "version": event.version,
        "evidence": event.evidence,
        "threshold": event.threshold,
        "changed_since": datetime.fromtimestamp(event.since / 1e9, UTC).isoformat(timespec="seconds"),
        "values_since": event.n_since,
        "mean_before": event.mean_before,
        "mean_after": event.mean_after,
    }


def _send(stream: AlarmStream, event: AlarmEvent, secret: str) -> str:
    """Send an event once; return why it was not accepted, "" where it was."""
    body = json.dumps(_body_of(stream, event)).encode()
    headers = {
        "content-type": "application/json",
        "user-agent": "assaymark",
        "assaymark-event-id": event.id,
        "assaymark-signature": signature(secret, int(time.time()), body),
    }
    transport: httpx.BaseTransport = httpx.HTTPTransport(trust_env=False) if stream.allow_private else PublicTransport()
    client = httpx.Client(transport=transport, timeout=TIMEOUT_SECONDS, trust_env=False)
    outcomes: list[str] = []
    # httpx limits each read, not all together, and looking a name up not at all: who waits here does not wait longer
    thread = threading.Thread(
        target=lambda: outcomes.append(_posted(client, stream.webhook or "", headers, body)), daemon=True
    )
    thread.start()
    thread.join(TIMEOUT_SECONDS)
    client.close()  # a thread that still reads fails with its next byte
    return outcomes[0] if outcomes else f"no answer within {TIMEOUT_SECONDS:g} s"


def _posted(client: httpx.Client, url: str, headers: Mapping[str, str], body: bytes) -> str:
    try:
        with client.stream("POST", url, headers=dict(headers), content=body) as response:
            return "" if response.is_success else f"status {response.status_code}"
    except RefusedAddress as refused:
        return f"not sent: {refused}; --allow_private allows it"
    except httpx.TimeoutException:
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"[:300]
