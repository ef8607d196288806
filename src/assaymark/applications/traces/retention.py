"""How long traces are kept: by age and by size of each project, checked while the server runs."""

import logging
import threading
from dataclasses import dataclass

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.errors import AssaymarkError
from assaymark.store import Store

EVERY_SECONDS = 600.0
MIB = 1 << 20
_log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept. seconds: since a trace's last span came; n_bytes: stored of a project's spans."""

    seconds: float | None
    n_bytes: int | None

    @classmethod
    def of(cls, days: float | None, mib: float | None) -> "Retention | None":
        """Read the retention from options; None where all is kept."""
        if days is None and mib is None:
            return None
        return cls(None if days is None else days * 86_400, None if mib is None else int(mib * MIB))

    def apply(self, store: Store) -> int:
        """Remove what is not kept, of every project; return the number of traces. Raises: StoreError."""
        return sum(
            TraceLog(store).prune(project.id, older_than=self.seconds, most_bytes=self.n_bytes)
            for project in TraceLog(store).projects()
        )


def keep_pruning(store: Store, retention: Retention, every_seconds: float = EVERY_SECONDS) -> threading.Event:
    """Remove what is not kept, now and again and again, in a thread of its own; setting the event ends it."""
    is_over = threading.Event()

    def prune() -> None:
        while True:
            try:
                retention.apply(store)
            except AssaymarkError as error:  # a busy store: the next round removes it
                _log.error("traces: nothing was removed: %s", error)
            if is_over.wait(every_seconds):
                return

    threading.Thread(target=prune, name="trace-retention", daemon=True).start()
    return is_over
