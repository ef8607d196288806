"""The alarms of a project as lists and pages show them."""

from dataclasses import dataclass
from datetime import UTC, datetime

from assaymark.applications.watch.alarm_log import AlarmLog
from assaymark.applications.watch.alarm_rows import AlarmEvent, AlarmStream
from assaymark.applications.watch.alarms import event_text, guarantee, metric_name, state_text
from assaymark.documents.numbers import NOTHING
from assaymark.store import Store


@dataclass(frozen=True, slots=True)
class ListedAlarm:
    """One metric of an alarm. is_score: a scorer's, not one of all traces."""

    name: str
    metric: str
    is_score: bool
    state: str
    guarantee: str
    is_raised: bool


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An alarm that was raised. source: of a scorer's; at: nanoseconds of the trace that raised it."""

    name: str
    metric: str
    is_score: bool
    source: str | None
    time: str
    text: str
    evidence: float
    threshold: float
    trace_id: str
    version: str | None
    at: int
    delivery: str


@dataclass(frozen=True, slots=True)
class AlarmBoard:
    """All alarms of a project, and those that were raised, the latest first."""

    alarms: tuple[ListedAlarm, ...]
    raised: tuple[ListedEvent, ...]


def alarm_board(store: Store, project: int) -> AlarmBoard:
    """Return the alarms of a project."""
    streams = {stream.id: stream for stream in AlarmLog(store).streams(project)}
    events = AlarmLog(store).events(list(streams))
    raised = {(event.stream, event.epoch) for event in events}
    alarms = []
    for stream in streams.values():
        epoch = AlarmLog(store).epoch(stream.id)
        is_raised = (stream.id, epoch.epoch) in raised
        state = state_text(stream, epoch, is_raised=is_raised)
        if n_clipped := AlarmLog(store).n_clipped(stream):
            state += f"; {n_clipped:,} values are beyond [0, 1] and count as 0 or 1: make it again with --bound"
        is_score = stream.metric.startswith("score:")
        alarms.append(ListedAlarm(stream.name, metric_name(stream), is_score, state, guarantee(stream), is_raised))
    return AlarmBoard(tuple(alarms), tuple(_listed_event(streams[event.stream], event) for event in events))


def _listed_event(stream: AlarmStream, event: AlarmEvent) -> ListedEvent:
    return ListedEvent(
        stream.name,
        metric_name(stream),
        stream.metric.startswith("score:"),
        event.source,
        datetime.fromtimestamp(event.raised, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        event_text(stream, event),
        event.evidence,
        event.threshold,
        event.trace_id.hex(),
        event.version,
        event.at,
        _delivery(stream, event),
    )


def _delivery(stream: AlarmStream, event: AlarmEvent) -> str:
    if stream.webhook is None:
        return NOTHING
    if event.delivered is not None:
        return "told"
    return f"not told yet, {event.n_tries} tries" + (f": {event.failure[:200]}" if event.failure else "")
