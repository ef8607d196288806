"""Rounds of watching: alarms are evaluated and webhooks are called, by `assaymark traces watch` and by the server."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from assaymark.applications.watch.alarms import event_text, watch_once
from assaymark.applications.watch.webhooks import deliver
from assaymark.errors import AssaymarkError
from assaymark.store import Store

EVERY_SECONDS = 5.0
_log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True)
class WatchLine:
    """A message of a round. is_problem: something was tried and did not work."""

    text: str
    is_problem: bool = False


def watch_round(store: Store, project: int | None = None) -> Iterator[WatchLine]:
    """Evaluate alarms on the values that have become complete, and call their webhooks; yield messages.

    Args:
        store: open for writing.
        project: of the alarms; None: of all projects.

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
