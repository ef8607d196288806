"""`assaymark serve --traces`: the receiver and the pages of traces, as a part of the server.

How long traces are kept, by age and by size of each project, is checked while the server runs.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import click

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.cli.extras import ServedPart
from assaymark.cli.output import echo
from assaymark.errors import AssaymarkError, MissingExtra, UsageError
from assaymark.records.json_values import dataclass_within
from assaymark.store import Store

EVERY_SECONDS = 600.0
MIB = 1 << 20
_log = logging.getLogger("uvicorn.error")


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of retention. seconds: since a trace's last span arrived; n_bytes: of a project's stored spans."""

    seconds: float | None
    n_bytes: int | None

    @classmethod
    def of(cls, days: float | None, mib: float | None) -> "Retention | None":
        """Read the retention from options; None if everything is kept."""
        if days is None and mib is None:
            return None
        return cls(None if days is None else days * 86_400, None if mib is None else int(mib * MIB))

    def apply(self, store: Store) -> int:
        """Remove expired traces of every project; return their number. Raises: StoreError."""
        return sum(
            TraceLog(store).prune(project.id, older_than=self.seconds, most_bytes=self.n_bytes)
            for project in TraceLog(store).projects()
        )


def keep_pruning(store: Store, retention: Retention, every_seconds: float = EVERY_SECONDS) -> threading.Event:
    """Remove expired traces repeatedly in a thread, beginning now, until the event is set."""
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


_OPTIONS = (
    click.option("--traces", is_flag=True, help="Receive OpenTelemetry traces at /v1/traces, and show them."),
    click.option(
        "--redact",
        multiple=True,
        metavar="REGEX",
        help="With --traces: remove what matches before it is stored; also email, card, ip, phone. Repeatable.",
    ),
    click.option(
        "--redact_key",
        multiple=True,
        metavar="NAME",
        help="With --traces: remove the value of this attribute too; those of passwords always go. Repeatable.",
    ),
    click.option("--feedback_origins", multiple=True, metavar="SITE",
                 help="With --traces: a site whose pages may embed the form of feedback, as https://app.example.org "
                 "(default: none). Repeatable."),
    click.option("--watch_alarms/--no_watch_alarms", default=True, show_default=True,
                 help="With --traces: evaluate alarms every 5 seconds and call their webhooks, as `assaymark traces "
                 "watch` does."),
    click.option("--keep_days", type=click.FloatRange(0, min_open=True), metavar="DAYS",
                 help="With --traces: remove traces whose last span is older (default: keep all)."),
    click.option("--keep_mib", type=click.FloatRange(0, min_open=True), metavar="MIB",
                 help="With --traces: remove the oldest traces of a project that has more (default: keep all)."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _TraceOptions:
    traces: bool
    redact: tuple[str, ...]
    redact_key: tuple[str, ...]
    feedback_origins: tuple[str, ...]
    watch_alarms: bool
    keep_days: float | None
    keep_mib: float | None


def _features(options: Mapping[str, object], store: str | None) -> list[object]:
    chosen = dataclass_within(_TraceOptions, options)
    if not chosen.traces:
        for name in ("redact", "redact_key", "feedback_origins", "keep_days", "keep_mib"):
            if options[name]:
                raise UsageError(f"--{name} is for traces; add --traces")
        return []
    from importlib.util import find_spec

    if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
        raise MissingExtra("assaymark serve --traces", "traces")
    from assaymark.applications.live.annotation_routes import live_feature
    from assaymark.applications.live.routes import checked_origins
    from assaymark.applications.traces.redaction import redaction_of
    from assaymark.applications.traces.routes import trace_feature
    from assaymark.applications.watch.pages import watch_feature
    from assaymark.applications.watch.rounds import keep_watching

    redaction = redaction_of(chosen.redact_key, chosen.redact)
    origins = checked_origins(chosen.feedback_origins)
    opened = Store.open(store, follows=True)
    if not TraceLog(opened).projects():
        token = TraceLog(opened).add_project("default")
        echo(f"made the project 'default'; its token, shown this once: {token}")
    retention = Retention.of(chosen.keep_days, chosen.keep_mib)
    if retention is not None:
        keep_pruning(opened, retention)
    if chosen.watch_alarms:
        keep_watching(opened)
    return [trace_feature(opened, redaction), live_feature(opened, redaction, origins), watch_feature(opened)]


served_traces = ServedPart(_OPTIONS, _features)
