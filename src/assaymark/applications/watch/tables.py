"""The tables of alarms: the metrics, the counted values, the epochs, and the alarms that were raised.

An alarm's state follows from the values of its present epoch, in their order. What is kept of it with the epoch, so
that not all of them are read again, is written in the transaction that adds some. Times are seconds since
1970 by our clock, except those called `at` and `since`, which are nanoseconds as lists of traces have them.
"""

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table
from sqlalchemy.types import BigInteger, Double, Integer, SmallInteger, String, Text

from assaymark.applications.traces.tables import trace_scores
from assaymark.store.schema import Blob, metadata, row_key

trace_alarms = Table(  # one row for each metric of an alarm
    "trace_alarms",
    metadata,
    row_key(),
    Column("project", BigInteger, nullable=False),
    Column("name", String(128), nullable=False),
    Column("metric", Text, nullable=False),  # errors | latency | cost | score:NAME
    Column("n_metrics", Integer, nullable=False),  # of the alarm, which share its false alarms
    Column("alpha", Double, nullable=False),  # false alarms
    Column("horizon", BigInteger, nullable=False),  # within so many values
    Column("bound", Double),  # values are divided by it; NULL: scores in [0, 1], or a frozen quantile
    Column("is_two_sided", SmallInteger, nullable=False),
    Column("lower_is_better", SmallInteger, nullable=False),
    Column("n_baseline", Integer, nullable=False),  # values from which the baseline is computed; 0: there is none
    Column("webhook", Text),
    Column("signing_key", Text),  # with which the webhook's requests are signed
    Column("allow_private", SmallInteger, nullable=False),
    Column("made", Double, nullable=False),
    Column("begins", Double, nullable=False),  # what came before does not count
    Column("looked_until", Double, nullable=False),  # all that had come before was counted
    Column("n_values", BigInteger, nullable=False),  # counted; the next one's position
)
Index("trace_alarms_by_name", trace_alarms.c.project, trace_alarms.c.name, trace_alarms.c.metric, unique=True)

trace_alarm_values = Table(
    "trace_alarm_values", metadata, Column("alarm", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False), Column("trace_id", Blob(16), nullable=False),
    Column("epoch", Integer, nullable=False), Column("at", BigInteger, nullable=False),
    Column("value", Double, nullable=False), Column("version", Text), PrimaryKeyConstraint("alarm", "position")
)  # fmt: skip
Index("trace_alarm_values_by_trace", trace_alarm_values.c.alarm, trace_alarm_values.c.trace_id, unique=True)

trace_alarm_epochs = Table(
    "trace_alarm_epochs",
    metadata,
    Column("alarm", BigInteger, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("first", BigInteger, nullable=False),  # position of its first value
    Column("reason", String(16), nullable=False),  # made | reset | judge
    Column("made", Double, nullable=False),
    Column("source", String(16)),  # of the scores; NULL until the first, and for other metrics
    Column("rule", BigInteger),  # trace_rules
    Column("rule_version", Blob(16)),
    Column("low", Double),  # of the baseline's mean; NULL while it is gathered
    Column("high", Double),
    Column("quantile", Double),
    Column("is_inherited", SmallInteger, nullable=False),  # the baseline is that of the epoch before
    Column("n_watched", BigInteger, nullable=False),  # values after the baseline
    Column("evidence", Double, nullable=False),
    Column("state", Blob),  # of the detector: logarithms as float64, little-endian; NULL: nothing was watched
    PrimaryKeyConstraint("alarm", "epoch"),
)

trace_alarm_events = Table(  # at most one for each epoch: an alarm is raised once until it is reset
    "trace_alarm_events",
    metadata,
    Column("alarm", BigInteger, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("id", String(32), nullable=False, unique=True),  # by which a receiver recognises a repeated delivery
    Column("raised", Double, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("trace_id", Blob(16), nullable=False),
    Column("version", Text),
    Column("n_watched", BigInteger, nullable=False),
    Column("evidence", Double, nullable=False),
    Column("threshold", Double, nullable=False),
    Column("since", BigInteger, nullable=False),  # when the change began, as estimated
    Column("n_since", BigInteger, nullable=False),
    Column("mean_before", Double),
    Column("mean_after", Double, nullable=False),
    Column("is_drop", SmallInteger, nullable=False),
    Column("delivered", Double),
    Column("n_tries", Integer, nullable=False),
    Column("not_before", Double, nullable=False),  # of the next try
    Column("failure", Text),
    PrimaryKeyConstraint("alarm", "epoch"),
)

Index("trace_scores_by_arrival", trace_scores.c.project, trace_scores.c.name, trace_scores.c.received)

ALARM_TABLES = (trace_alarms, trace_alarm_values, trace_alarm_epochs, trace_alarm_events)
