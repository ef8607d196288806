"""The tables of live monitoring: rules and the traces to score, queues of annotations, rows made from traces.

The scores themselves, of rules, feedback and raters, are in `trace_scores`. Times are seconds since 1970: those called
`expires` and `not_before` by the database's clock, all others by ours. `seen` is `received` of a trace's row.
"""

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table
from sqlalchemy.types import BigInteger, Double, Integer, SmallInteger, String, Text

from assaymark.store.schema import Blob, metadata, row_key

trace_rules = Table(
    "trace_rules",
    metadata,
    row_key(),
    Column("project", BigInteger, nullable=False),
    Column("name", String(128), nullable=False),  # one rule of a name that is not removed
    Column("state", String(16), nullable=False),  # active | paused | removed; rows stay, since scores refer to them
    Column("filter", Text, nullable=False),  # in the syntax of the list of traces: NAME=VALUE NAME=VALUE; "": all
    Column("rate", Double, nullable=False),  # 0 < rate <= 1
    Column("scorer", Text, nullable=False),  # as `run --scorers` has one
    Column("score", String(128), nullable=False),  # the scorer's name, by which traces are drawn
    Column("judge", Text),
    Column("judge_args", Text),
    Column("version", Blob(16), nullable=False),  # of scorer and judge
    Column("made", Double, nullable=False),
    Column("begins", Double, nullable=False),  # traces whose last span came earlier are not scored
    Column("ended_until", Double, nullable=False),  # traces whose root has ended were looked at up to this `received`
    Column("open_until", Double, nullable=False),  # and the others up to this one
    Column("scale", String(16)),  # of the scores, as the scorer declares it; NULL: not known
)
Index("trace_rules_by_project", trace_rules.c.project)

trace_scorings = Table(  # the traces that a rule has drawn
    "trace_scorings",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("rule", BigInteger, nullable=False),
    Column("trace_id", Blob(16), nullable=False),
    Column("rate", Double, nullable=False),  # at which it was drawn
    Column("seen", Double, nullable=False),  # the scored state: more spans came if the trace's `received` is later
    Column("state", String(16), nullable=False),  # waiting | running | scored | empty (not scored) | failed
    Column("n_tries", Integer, nullable=False),
    Column("not_before", Double, nullable=False),
    Column("epoch", Integer, nullable=False),  # raised by each claim; results of an earlier holder are not stored
    Column("owner", Text, nullable=False),  # "" unless it is running
    Column("expires", Double, nullable=False),
    Column("reason", Text),  # why it failed last
    Column("ended", Double),  # when it was scored, or given up
    PrimaryKeyConstraint("project", "rule", "trace_id"),
)
Index("trace_scorings_by_state", trace_scorings.c.state, trace_scorings.c.not_before)
Index("trace_scorings_by_trace", trace_scorings.c.project, trace_scorings.c.trace_id)

trace_queues = Table(
    "trace_queues",
    metadata,
    row_key(),
    Column("project", BigInteger, nullable=False),
    Column("name", String(128), nullable=False),
    Column("rubric", Text, nullable=False),  # thumbs | 1-5 | labels between commas
    Column("n_raters", Integer, nullable=False),  # of each trace
    Column("made", Double, nullable=False),
)
Index("trace_queues_by_project", trace_queues.c.project)

trace_queue_items = Table(
    "trace_queue_items",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("queue", BigInteger, nullable=False),
    Column("trace_id", Blob(16), nullable=False),
    Column("position", BigInteger, nullable=False),  # the order in which raters get them
    Column("reason", Text, nullable=False),  # why it is in the queue: a person's note or a filter
    Column("added", Double, nullable=False),
    Column("is_done", SmallInteger, nullable=False),  # as many have rated it as should
    PrimaryKeyConstraint("project", "queue", "trace_id"),
)
Index("trace_queue_items_by_trace", trace_queue_items.c.project, trace_queue_items.c.trace_id)

trace_queue_claims = Table(  # who rates, or has rated, an item; the ratings are scores whose source is `queue`
    "trace_queue_claims",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("queue", BigInteger, nullable=False),
    Column("trace_id", Blob(16), nullable=False),
    Column("rater", String(64), nullable=False),
    Column("expires", Double, nullable=False),  # until then the item waits for this rater
    Column("rated", Double),  # NULL: not yet
    Column("is_skipped", SmallInteger, nullable=False),
    PrimaryKeyConstraint("project", "queue", "trace_id", "rater"),
)

trace_dataset_rows = Table(
    "trace_dataset_rows",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("dataset", String(128), nullable=False),
    Column("digest", Blob(16), nullable=False),  # of the inputs, so that no row is stored twice
    Column("trace_id", Blob(16), nullable=False),  # which may have been removed since
    Column("content", Blob, nullable=False),  # the row as JSON, packed
    Column("added", Double, nullable=False),
    PrimaryKeyConstraint("project", "dataset", "digest"),
)

LIVE_TABLES = (trace_rules, trace_scorings, trace_queues, trace_queue_items, trace_queue_claims, trace_dataset_rows)
