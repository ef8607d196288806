"""Rounds of watching: alarms are evaluated and webhooks are called, by `assaymark traces watch` and by the server."""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from assaymark.applications.watch.alarms import event_text, watch_once
from assaymark.applications.watch.webhooks import deliver
from assaymark.errors import AssaymarkError
from assaymark.store import Store

EVERY_SECONDS = 5.0
_log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True)
class WatchLine:
    """What a round has to say. is_problem: something was tried and did not work."""

    text: str
    is_problem: bool = False


def watch_round(store: Store, project: int | None = None) -> Iterator[WatchLine]:
    """Evaluate alarms on what has become complete, and call their webhooks; yield what people should know.

    Args:
        store: open for writing.
        project: of the alarms; None: of all projects.

    Raises: StoreError.
    """
    for raised in watch_once(store, time.time(), project):
        event = raised.event
        evidence = f"evidence {event.evidence:,.0f} of {event.threshold:,.0f}"
        trace = f"trace {event.trace_id.hex()[:16]}"
        yield WatchLine(f"ALARM '{raised.stream.name}': {event_text(raised.stream, event)} ({evidence}, {trace})")
    for delivery in deliver(store, time.time(), project):
        name = delivery.stream.name
        if not delivery.failure:
            yield WatchLine(f"alarm '{name}': its webhook was told")
        else:
            end = "given up" if delivery.is_last else "it is tried again"
            yield WatchLine(f"alarm '{name}': its webhook was not told ({delivery.failure}); {end}", is_problem=True)


def keep_watching(store: Store, every_seconds: float = EVERY_SECONDS) -> threading.Event:
    """Watch the alarms of all projects in a thread of its own, into the server's log; setting the event ends it.

    Several servers of one store, and `assaymark traces watch` beside them, count each value once.
    """
    is_over = threading.Event()

    def watch() -> None:
        last_problem = ""
        while not is_over.is_set():
            try:
                for line in watch_round(store):
                    _log.error("%s", line.text)  # of lesser levels the server shows nothing
                last_problem = ""
            except AssaymarkError as error:  # a busy store: the next round counts what this one did not
                if str(error) != last_problem:
                    _log.error("alarms: nothing was counted: %s", error)
                last_problem = str(error)
            is_over.wait(every_seconds)

    threading.Thread(target=watch, name="alarms", daemon=True).start()
    return is_over
