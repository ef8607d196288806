"""Alarms in the store: their metrics, the values that they counted, and the alarms that were raised.

Whoever evaluates an alarm holds its row until the end of the transaction that stores the values, the epoch and what was
raised, so several watchers count each value once, and one that is killed has counted what it stored.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    update,
)

from assaymark.applications.traces.tables import trace_scores, traces
from assaymark.applications.traces.trace_filters import lasted
from assaymark.applications.watch.alarm_rows import (
    AlarmEpoch,
    AlarmEvent,
    AlarmStream,
    AlarmValue,
    NewAlarm,
    PendingValue,
)
from assaymark.applications.watch.tables import (
    ALARM_TABLES,
    trace_alarm_epochs,
    trace_alarm_events,
    trace_alarm_values,
    trace_alarms,
)
from assaymark.errors import UnknownName, UsageError
from assaymark.store.feature_tables import FeatureLog, FeatureTables
from assaymark.store.packing import optional_bytes, shown_text
from assaymark.store.runs import next_id
from assaymark.store.schema import StoredRow

QUIET_SECONDS = 30.0  # after its last span, a trace whose spans have all ended and whose root is there is complete
LONGEST_SECONDS = 300.0  # and any other
OVERLAP_SECONDS = 3600.0  # of what is looked at twice, since a transaction may end later than one that began later
NOTED_EVERY_SECONDS = 600.0  # how far was looked is noted where nothing was to be counted
AT_ONCE = 5000  # values in one transaction
LATEST_VALUES = 300  # that an alarm without a baseline begins with
SCORE = "score:"


class WatchedStream:
    """A stream that is held by this transaction."""

    def __init__(self, connection: Connection, stream: AlarmStream) -> None:
        self._connection = connection
        self.stream = stream
        self._next = stream.n_values

    def epoch(self) -> AlarmEpoch:
        """Return the present epoch."""
        return _epoch(self._connection, self.stream.id)

    def event(self, epoch: int) -> bool:
        """Return whether an epoch's alarm was raised."""
        where = trace_alarm_events.c.alarm == self.stream.id, trace_alarm_events.c.epoch == epoch
        return self._connection.execute(select(trace_alarm_events.c.id).where(*where)).first() is not None

    def values(self, epoch: AlarmEpoch) -> list[AlarmValue]:
        """Return the values of an epoch in their order."""
        columns = trace_alarm_values.c
        statement = (
            select(columns.position, columns.trace_id, columns.at, columns.value, columns.version)
            .where(columns.alarm == self.stream.id, columns.position >= epoch.first, columns.epoch == epoch.epoch)
            .order_by(columns.position)
        )
        return [AlarmValue(row[0], bytes(row[1]), *row[2:]) for row in self._connection.execute(statement)]

    def pending(self, now: float, limit: int = AT_ONCE) -> list[PendingValue]:
        """Return values that have yet to be counted, of traces that are complete, in the order in which those came.

        Scores are those of the epoch's source, and of its rule or of a later one.
        """
        stream, epoch = self.stream, self.epoch()
        since = max(stream.begins, stream.looked_until - OVERLAP_SECONDS)
        statement = (
            _score_values(stream, epoch, since, now)
            if stream.metric.startswith(SCORE)
            else _trace_values(stream, since, now)
        )
        rows = self._connection.execute(statement.limit(limit)).all()
        by_trace: dict[bytes, PendingValue] = {}
        for row in rows:
            value = PendingValue(bytes(row[0]), row[1], float(row[2]), row[3], row[4], row[5], optional_bytes(row[6]))
            other = by_trace.get(value.trace_id)  # scored by two rules: the later one counts
            if other is None or (value.rule or 0) > (other.rule or 0):
                by_trace[value.trace_id] = value
        return list(by_trace.values())

    def count(self, epoch: int, pending: Sequence[PendingValue]) -> list[AlarmValue]:
        """Store values as counted in an epoch; return them with their positions."""
        counted = [
            AlarmValue(position, each.trace_id, each.at, each.value, each.version)
            for position, each in enumerate(pending, self._next)
        ]
        if counted:
            rows = [{"alarm": self.stream.id, "epoch": epoch, **value._asdict()} for value in counted]
            self._connection.execute(insert(trace_alarm_values), rows)
            self._next += len(counted)
            self._set(n_values=self._next)
        return counted

    def looked(self, until: float) -> None:
        """Note that all that had come before was counted."""
        self._set(looked_until=until)

    def save(self, epoch: AlarmEpoch) -> None:
        """Store the changes of an epoch."""
        values = asdict(epoch)
        where = trace_alarm_epochs.c.alarm == self.stream.id, trace_alarm_epochs.c.epoch == values.pop("epoch")
        values["is_inherited"] = int(epoch.is_inherited)
        self._connection.execute(update(trace_alarm_epochs).where(*where).values(**values))

    def restart(self, reason: str, like: AlarmEpoch, *, keeps_baseline: bool) -> AlarmEpoch:
        """Begin another epoch with the next value; return it.

        Args:
            reason: made | reset | judge.
            like: whose source and rule it has, and whose baseline where it keeps that.
            keeps_baseline: otherwise another is gathered.
        """
        row = {
            **{name: getattr(like, name) for name in ("source", "rule", "rule_version")},
            **{name: getattr(like, name) if keeps_baseline else None for name in ("low", "high", "quantile")},
            "alarm": self.stream.id,
            "epoch": like.epoch + 1,
            "first": self._next,
            "reason": reason,
            "made": time.time(),
            "is_inherited": int(keeps_baseline and like.low is not None),
            "n_watched": 0,
            "evidence": 0.0,
        }
        self._connection.execute(insert(trace_alarm_epochs), row)
        return self.epoch()

    def raise_alarm(self, event: AlarmEvent) -> None:
        """Store that the alarm was raised."""
        row = asdict(event)
        del row["source"]
        row["alarm"], row["is_drop"] = row.pop("stream"), int(event.is_drop)
        self._connection.execute(insert(trace_alarm_events), row)

    def _set(self, **columns: object) -> None:
        self._connection.execute(update(trace_alarms).where(trace_alarms.c.id == self.stream.id).values(**columns))


class AlarmLog(FeatureLog):
    """Alarms of all projects. May be used by several threads and processes."""

    def add(self, project: int, alarm: NewAlarm, now: float | None = None) -> None:
        """Make an alarm. Its baseline begins with the latest values that are there already.

        Raises: UsageError for a name that is taken.
        """
        present = time.time() if now is None else now
        name = shown_text(alarm.name)
        with self._database.writing(locked=True) as connection:
            if _streams(connection, project, name):
                raise UsageError(f"there is an alarm '{name}' already; choose another name, or remove it first")
            for metric in dict.fromkeys(map(shown_text, alarm.metrics)):
                values = asdict(alarm)
                values.pop("metrics")
                flags = {key: int(values[key]) for key in ("is_two_sided", "lower_is_better", "allow_private")}
                number = next_id(connection, trace_alarms)
                begins = _begins(connection, project, metric, alarm.n_baseline)
                connection.execute(
                    insert(trace_alarms),
                    {**values, **flags, "id": number, "project": project, "name": name, "metric": metric,
                     "n_metrics": len(set(alarm.metrics)), "made": present, "begins": begins, "looked_until": begins,
                     "n_values": 0},
                )  # fmt: skip
                connection.execute(
                    insert(trace_alarm_epochs),
                    {"alarm": number, "epoch": 0, "first": 0, "reason": "made", "made": present, "is_inherited": 0,
                     "n_watched": 0, "evidence": 0.0},
                )  # fmt: skip

    def streams(self, project: int | None = None, name: str | None = None) -> list[AlarmStream]:
        """Return the metrics of alarms: of a project, of a name, by name."""
        with self._database.reading() as connection:
            return _streams(connection, project, name)

    def epoch(self, stream: int) -> AlarmEpoch:
        """Return a stream's present epoch."""
        with self._database.reading() as connection:
            return _epoch(connection, stream)

    def n_clipped(self, stream: AlarmStream) -> int:
        """Return how many counted scores are beyond [0, 1], where no bound is stated: they count as its ends."""
        if stream.bound is not None or not stream.metric.startswith(SCORE):
            return 0
        values = trace_alarm_values.c
        is_beyond = or_(values.value < 0.0, values.value > 1.0)
        statement = select(func.count()).where(values.alarm == stream.id, is_beyond)
        with self._database.reading() as connection:
            return int(connection.execute(statement).scalar_one())

    def events(self, streams: Sequence[int]) -> list[AlarmEvent]:
        """Return the alarms that were raised, the latest first."""
        columns = trace_alarm_events.c
        epochs = trace_alarm_epochs.c
        of_event = and_(epochs.alarm == columns.alarm, epochs.epoch == columns.epoch)
        statement = select(trace_alarm_events, epochs.source).join(trace_alarm_epochs, of_event)
        statement = statement.where(columns.alarm.in_(streams))
        rows = self._rows(statement.order_by(columns.raised.desc(), columns.id))
        return [_event(row) for row in rows]

    def is_due(self, stream: AlarmStream, now: float) -> bool:
        """Return whether there is something to count, so that nobody is kept from writing where there is not."""
        if now - stream.looked_until > NOTED_EVERY_SECONDS:
            return True
        with self._database.reading() as connection:
            return bool(WatchedStream(connection, stream).pending(now, 1))

    @contextmanager
    def watching(self, stream: int) -> Iterator[WatchedStream | None]:
        """Hold a stream until the end of the block, whose changes are stored together; None if it was removed."""
        with self._database.writing() as connection:
            lock = select(trace_alarms).where(trace_alarms.c.id == stream).with_for_update()
            row = connection.execute(lock).one_or_none()
            yield None if row is None else WatchedStream(connection, _stream(row))

    def remove(self, project: int, name: str) -> None:
        """Remove an alarm with all that it counted. Raises: UnknownName."""
        with self._database.writing() as connection:
            ids = [stream.id for stream in _streams_named(connection, project, name)]
            _delete(connection, ids)

    def remove_all(self, project: int) -> None:
        """Remove all alarms of a project."""
        with self._database.writing() as connection:
            _delete(connection, [stream.id for stream in _streams(connection, project, None)])

    def named(self, project: int, name: str) -> list[AlarmStream]:
        """Return the metrics of an alarm. Raises: UnknownName."""
        with self._database.reading() as connection:
            return _streams_named(connection, project, name)

    def due(self, now: float, project: int | None = None) -> list[tuple[AlarmStream, AlarmEvent, str]]:
        """Return the events whose webhook should be called now, each with the secret to sign with."""
        events, alarms = trace_alarm_events.c, trace_alarms.c
        waiting = (alarms.webhook.isnot(None), events.delivered.is_(None), events.not_before <= now)
        own = () if project is None else (alarms.project == project,)
        keys = select(events.id, alarms.id).join(trace_alarms, alarms.id == events.alarm).where(*waiting, *own)
        due = []
        with self._database.reading() as connection:
            for event_id, alarm_id in connection.execute(keys.order_by(events.raised)).all():
                event = connection.execute(select(trace_alarm_events).where(events.id == event_id)).one()
                row = connection.execute(select(trace_alarms).where(alarms.id == alarm_id)).one()
                due.append((_stream(row), _event(event), row.signing_key or ""))
        return due

    def claim_delivery(self, event: AlarmEvent, until: float) -> bool:
        """Put off the next try, so that no other watcher sends it meanwhile; return whether this one may send it."""
        columns = trace_alarm_events.c
        where = (
            *(columns.id == event.id, columns.delivered.is_(None)),
            *(columns.not_before == event.not_before, columns.n_tries == event.n_tries),
        )
        values = {"not_before": until, "n_tries": event.n_tries + 1}
        with self._database.writing() as connection:
            return connection.execute(update(trace_alarm_events).where(*where).values(**values)).rowcount == 1

    def note_delivery(self, event: AlarmEvent, *, delivered: float | None, not_before: float, failure: str) -> None:
        """Store how a try ended."""
        values = {"delivered": delivered, "not_before": not_before, "failure": shown_text(failure)[:500] or None}
        with self._database.writing() as connection:
            connection.execute(update(trace_alarm_events).where(trace_alarm_events.c.id == event.id).values(**values))


def _begins(connection: Connection, project: int, metric: str, n_baseline: int) -> float:
    """Return when the latest values that are counted began to come; 0 where there are not as many.

    They are as many as the baseline needs; without one, what later values are compared with begins with some.
    """
    table = trace_scores if metric.startswith(SCORE) else traces
    conditions = [table.c.project == project]
    if metric.startswith(SCORE):
        conditions.append(trace_scores.c.name == metric.removeprefix(SCORE))
    statement = select(table.c.received).where(*conditions).order_by(table.c.received.desc())
    begins = connection.execute(statement.offset((n_baseline or LATEST_VALUES) - 1).limit(1)).scalar()
    return 0.0 if begins is None else float(begins)


def _is_uncounted(stream: AlarmStream, trace_id: ColumnElement[object]) -> ColumnElement[bool]:
    values = trace_alarm_values.c
    return ~exists().where(values.alarm == stream.id, values.trace_id == trace_id)


Pending = Select[bytes, int, float, str | None, str | None, int | None, bytes | None]
"""Trace, when it was, value, version; source, rule and version of the rule of a score."""


def _trace_values(stream: AlarmStream, since: float, now: float) -> Pending:
    columns = traces.c
    value: ColumnElement[object] = {
        "errors": case((columns.n_errors > 0, 1.0), else_=0.0),
        "latency": lasted() * 1e-9,
        "cost": case((func.coalesce(columns.n_unpriced, 0) == 0, columns.cost), else_=None),
    }[stream.metric]
    has_ended = and_(columns.ended.isnot(None), columns.n_orphans == 0)
    is_complete = or_(
        and_(has_ended, columns.received <= now - QUIET_SECONDS), columns.received <= now - LONGEST_SECONDS
    )
    nothing = (null().label(name) for name in ("source", "rule", "rule_version"))
    return (
        select(columns.trace_id, columns.at, value, columns.version, *nothing)
        .where(columns.project == stream.project, columns.received >= since, is_complete, value.isnot(None))
        .where(_is_uncounted(stream, columns.trace_id))
        .order_by(columns.received, columns.trace_id)
    )


def _score_values(stream: AlarmStream, epoch: AlarmEpoch, since: float, now: float) -> Pending:
    """Select the mean of a trace's scores, by rule and source; failed and stale ones are none."""
    score = trace_scores.c
    of_score = score.source, score.rule, score.rule_version
    own = [] if epoch.source is None else [score.source == epoch.source]
    own += [] if epoch.rule is None else [score.rule >= epoch.rule]
    same = and_(traces.c.project == score.project, traces.c.trace_id == score.trace_id)
    return (
        select(score.trace_id, traces.c.at, func.avg(score.value), traces.c.version, *of_score)
        .select_from(trace_scores.join(traces, same))
        .where(score.project == stream.project, score.name == stream.metric.removeprefix(SCORE))
        .where(score.received >= since, score.received <= now - QUIET_SECONDS)
        .where(score.value.isnot(None), score.error.is_(None), score.stale.is_(None))
        .where(_is_uncounted(stream, score.trace_id), *own)
        .group_by(score.trace_id, traces.c.at, traces.c.version, *of_score)
        .order_by(func.min(score.received), score.trace_id)
    )


def _streams(connection: Connection, project: int | None, name: str | None) -> list[AlarmStream]:
    statement = select(trace_alarms).order_by(trace_alarms.c.project, trace_alarms.c.name, trace_alarms.c.id)
    if project is not None:
        statement = statement.where(trace_alarms.c.project == project)
    if name is not None:
        statement = statement.where(trace_alarms.c.name == shown_text(name))
    return [_stream(row) for row in connection.execute(statement)]


def _streams_named(connection: Connection, project: int, name: str) -> list[AlarmStream]:
    streams = _streams(connection, project, name)
    if not streams:
        known = list(dict.fromkeys(stream.name for stream in _streams(connection, project, None)))
        raise UnknownName("alarm", name[:128], known[:5])
    return streams


def _epoch(connection: Connection, stream: int) -> AlarmEpoch:
    columns = trace_alarm_epochs.c
    names = [column for column in trace_alarm_epochs.c if column.name not in {"alarm", "made"}]
    statement = select(*names).where(columns.alarm == stream).order_by(columns.epoch.desc()).limit(1)
    values = connection.execute(statement).one()._asdict()
    values["rule_version"], values["state"] = optional_bytes(values["rule_version"]), optional_bytes(values["state"])
    return AlarmEpoch(**{**values, "is_inherited": bool(values["is_inherited"])})


def _delete(connection: Connection, ids: Sequence[int]) -> None:
    for table in ALARM_TABLES:
        column = table.c.id if table is trace_alarms else table.c.alarm
        connection.execute(delete(table).where(column.in_(ids)))


def _stream(row: StoredRow) -> AlarmStream:
    columns = row._asdict()
    values = {field.name: columns[field.name] for field in fields(AlarmStream)}
    flags = {name: bool(values[name]) for name in ("is_two_sided", "lower_is_better", "allow_private")}
    return AlarmStream(**{**values, **flags})


def _event(row: StoredRow) -> AlarmEvent:
    values = row._asdict()
    values["stream"], values["trace_id"] = values.pop("alarm"), bytes(values["trace_id"])
    return AlarmEvent(**{**values, "is_drop": bool(values["is_drop"])})


TABLES = FeatureTables(ALARM_TABLES)
"""Of alarms."""
